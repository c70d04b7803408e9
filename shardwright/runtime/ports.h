// How tensors enter a session's ranks and leave them: users have whole tensors, a rank has its box of each, in the
// layout and format that the program says.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "shardwright/layout/transfer.h"
#include "shardwright/lower/pipeline.h"
#include "shardwright/runtime/boxes.h"
#include "shardwright/runtime/executor.h"
#include "shardwright/runtime/gather.h"

namespace shardwright {

/// A value's way between tensors of the host and what one rank of its stage holds. Tensors of the host are row-major
/// and parts of the whole value (of one micro-batch): `where` says which.
class Way {
 public:
  Way() = default;  // nobody's
  Way(const Pipeline& pipeline, int rank, int stage, ValueId v);

  /// Which part the rank holds.
  const Box& box() const { return box_; }
  /// Whether it is this rank that gives the part to others.
  bool owns() const { return owns_; }

  /// Brings what `from` has of the rank's part to `local`; nothing else there is looked at or changed.
  void take(Backend& backend, const TensorView& local, const std::byte* from, const Box& where) const;
  /// Brings what the rank has of `where` to `to`.
  void give(Backend& backend, const TensorView& local, std::byte* to, const Box& where) const;
  /// All of the rank's part.
  Tensor read(Backend& backend, const TensorView& local) const;
  void write(Backend& backend, const TensorView& local, const Tensor& own) const;

 private:
  Box box_;
  Format format_;
  bool owns_ = false;
};

/// The tensors that a step takes, as parts of the whole batch, and the whole ones that it gives. All ranks of a process
/// share them.
struct StepTensors {
  struct Source {
    Box where;
    const std::byte* data = nullptr;
  };
  struct Input {
    std::string name;
    Type type;                         // of one micro-batch
    std::vector<Source> sources = {};  // by their first rows
    std::int64_t most_rows = 0;        // of a source
    bool goes_to_each = false;         // micro-batch: the sources are parts of one
  };
  std::vector<Input> inputs;
  std::vector<Tensor> outputs;
  std::vector<bool> is_wanted;  // by output; of others `outputs` has no elements

  StepTensors(const Pipeline& pipeline, bool only_scalars);
  /// What is passed in lives until the step is over.
  /// Throws: Error if an input is missing, unknown or of another type.
  void bind(const std::map<std::string, Tensor>& batch);
  void bind(const BatchParts& batch);
  /// Of the whole batch.
  Type batch_type(const Input& input) const;

 private:
  int batch_parts_;
};

/// Which parts of the whole batch `rank` takes, each once.
std::vector<NamedBox> input_parts(const Pipeline& pipeline, int rank);

/// The inputs and outputs of one rank.
class RankPorts {
 public:
  /// `keeps`: outputs wait for `gather`, because other processes have parts of them. All that is passed in outlives
  /// this.
  RankPorts(const Pipeline& pipeline, int rank, StepTensors& tensors, bool keeps);

  /// Throws: Error if some of what this rank takes is in none of the sources.
  void check_sources() const;
  void fill(Backend& backend, const Executor& executor, int stage, int micro_batch);
  /// Those that `phase` makes.
  void hand_out(Backend& backend, const Executor& executor, int stage, Phase phase, int micro_batch);
  /// Brings the whole outputs here, parts of which are in other processes. All processes do so.
  void gather(Gather& gather);

 private:
  /// A value of a stage, and the tensor outside that it is a part of.
  struct Port {
    int stage = 0;
    std::vector<ValueId> values;  // by part of a micro-batch
    std::size_t outside = 0;      // among the inputs, or the outputs
    Way way;
    int count = 1;  // how often it is given: once for each part of the batch, or once for the step
    Phase phase = Phase::forward;   // behind which
    double sum = 0;                 // of a scalar output: over the parts of the batch
    int given = 0;                  // so many of them
    int first = -1;                 // with which every step begins to give it; not known before the first
    std::vector<Tensor> kept = {};  // of another output, if it waits: by part of the batch
  };

  /// Calls `use(data, where)` for each source that a part of the batch may take something of; `where` as it sees that.
  template <class F>
  void for_each_source(const Port& port, int batch_part, F use) const;
  void give(Backend& backend, Port& port, const TensorView& view, int batch_part);

  const Pipeline& pipeline_;
  StepTensors& tensors_;
  bool keeps_;
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
};

}  // namespace shardwright
