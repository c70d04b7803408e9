// Inference from C++: a forward function becomes a network that is only asked, planned for its own devices, with the
// weights of a checkpoint that any plan has written.
//
//   PredictStep predict([&](const std::vector<Traced>& in) { return std::vector{net(in[0])}; },
//                       {{"image", image}}, {.devices = 4});
//   predict.load_distributed_checkpoint("run");
//   Tensor logits = predict({images})[0];
//
// Names of functions are those of the described system; what follows them is told in its words: device matrix and
// tensor map.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shardwright/frontend/network.h"
#include "shardwright/lower/pipeline.h"

namespace shardwright {

class Session;

using PredictFunction = std::function<std::vector<Traced>(const std::vector<Traced>&)>;

struct PredictOptions {
  int devices = 1;
  Parallel parallel = Parallel::auto_parallel;  // ignored on one device
  std::string search = {};                      // as --search; empty: auto, where it can
  std::string annotation_file = "";             // as --annotate
  Precision precision = {};
  DeviceKind device = default_devices();  // that runs it
};

/// How a parameter lies: rank r is at the row-major coordinates of `device_matrix`; dim d is cut along the axes
/// `tensor_map[d]`, major to minor, counted from the last one of the matrix, which is 0; none: it is whole.
struct ParameterLayout {
  std::vector<std::int64_t> device_matrix;
  std::vector<std::vector<int>> tensor_map;
  Shape slice_shape;    // of the largest slice
  bool is_even = true;  // all slices have it
  bool operator==(const ParameterLayout&) const = default;
};
using ParameterLayouts = std::map<std::string, ParameterLayout>;

/// Of a program of one stage. Throws: Error if there are several.
ParameterLayouts layouts_of(const Pipeline& pipeline);

class PredictStep {
 public:
  /// Shapes: inputs are whole batches. Throws: Error as planning and lowering do.
  PredictStep(const PredictFunction& forward, const InputTypes& inputs, const PredictOptions& options = {});
  ~PredictStep();
  PredictStep(PredictStep&&) noexcept;

  /// The whole predictions for one batch, tensors in the order of the inputs.
  std::vector<Tensor> operator()(const std::vector<Tensor>& batch);

  ParameterLayouts infer_predict_layout() const;
  /// Each rank reads its own parts of a checkpoint, of a run's latest one, or of a safetensors file.
  /// Throws: Error if it is of another network; of kind io if it is damaged.
  void load_distributed_checkpoint(const std::string& path);
  /// Those that a TrainStep has now, as held-out data are asked about between its steps.
  /// Throws: Error if it lacks one.
  void take_weights(const Session& trained);
  const Plan& plan() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The whole tensor that slices in the order of ranks are of; without a layout slices stand along dim 0.
/// Throws: Error if there are fewer or more than the layout has ranks, or types or shapes do not go together.
Tensor merge_sliced_parameter(const std::vector<Tensor>& slices);
Tensor merge_sliced_parameter(const std::vector<Tensor>& slices, const ParameterLayout& layout);

/// Writes the checkpoint `source` as the ranks of `plan_file` would have; empty: whole tensors in one shard.
/// Throws: Error if `target` is there already, or the plan is of another network.
void transform_checkpoints(const std::string& source, const std::string& target,
                           const std::string& plan_file = "");
/// Which ranks of `source` have written what `rank` of `target` holds, ascending.
std::vector<int> rank_list_for_transform(int rank, const Pipeline& source, const Pipeline& target);

}  // namespace shardwright
