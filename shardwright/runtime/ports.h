// How tensors enter a session's ranks and leave them: users have whole tensors, a rank has its box of each, in the
// layout and format that the program says.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "shardwright/layout/transfer.h"
#include "shardwright/lower/pipeline.h"
#include "shardwright/runtime/executor.h"
#include "shardwright/runtime/gather.h"

namespace shardwright {

/// A value's way between the whole tensor (of one micro-batch) and what one rank of its stage holds.
class Way {
 public:
  Way(const Pipeline& pipeline, int rank, int stage, ValueId v);

  /// Which part of the whole the rank holds.
  const Box& box() const { return box_; }
  void take(const std::byte* whole, const TensorView& local) const;
  /// Only of one rank among those that hold the same part.
  void give(const TensorView& local, std::byte* whole) const;
  Tensor row_major(const TensorView& local) const;
  /// Lets `fill` write a row-major tensor, wherever that is, and brings it to `local`.
  template <class F>
  void fill(const TensorView& local, F fill) const {
    if (format_.is_row_major()) return fill(local);
    Tensor copy({local.dtype, local.shape});
    fill(copy.view());
    reformat(copy.bytes().data(), {}, local.data, format_, local.shape, size_of(local.dtype));
  }

 private:
  Box box_;
  Piece in_;
  Piece out_;
  Format format_;
  bool gives_ = false;
};

/// The whole tensors that a step takes and gives. All ranks of a process share them.
struct StepTensors {
  struct Input {
    std::string name;
    Type type;                      // of one micro-batch
    const Tensor* whole = nullptr;  // the batch's, or that of one micro-batch, which goes to each
  };
  std::vector<Input> inputs;
  std::vector<Tensor> outputs;
  std::vector<bool> is_wanted;  // by output; of others `outputs` has no elements

  StepTensors(const Pipeline& pipeline, bool only_scalars);
  /// Throws: Error if an input is missing, unknown or of another type.
  void bind(const std::map<std::string, Tensor>& batch, int micro_batches);
};

/// The inputs and outputs of one rank.
class RankPorts {
 public:
  /// `keeps`: outputs wait for `gather`, because other processes have parts of them. All that is passed in outlives
  /// this.
  RankPorts(const Pipeline& pipeline, int rank, StepTensors& tensors, bool keeps);

  void fill(const Executor& executor, int stage, int micro_batch);
  void hand_out(const Executor& executor, int stage, int micro_batch);
  /// Brings the whole outputs here, parts of which are in other processes. All processes do so.
  void gather(Gather& gather);

 private:
  /// A value of a stage, and the tensor outside that it is a part of.
  struct Port {
    int stage = 0;
    ValueId value;
    std::size_t outside = 0;  // among the inputs, or the outputs
    Way way;
    double sum = 0;                 // of a scalar output: over the micro-batches
    std::vector<Tensor> kept = {};  // of another output, if it waits: by micro-batch
  };

  void give(Port& port, const TensorView& view, int micro_batch);

  const Pipeline& pipeline_;
  StepTensors& tensors_;
  bool keeps_;
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
};

}  // namespace shardwright
