// What one rank of a session does: it holds a device's memory, runs its list of instructions on it, and records that if
// asked to. Nothing here knows who calls it, nor what other ranks do.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "shardwright/runtime/executor.h"
#include "shardwright/runtime/odd_values.h"
#include "shardwright/runtime/ports.h"
#include "shardwright/runtime/trace.h"

namespace shardwright {

struct RankOptions {
  std::uint64_t seed = 0;                   // of the initial values
  const std::atomic<bool>* stop = nullptr;  // once it is true, a step fails between two of its instructions
  bool keeps_outputs = false;               // until they are gathered
  DeviceKind devices = {};                  // on which it runs
  TraceClock clock = TraceClock::machine;
  std::span<std::byte> memory = {};  // another's arena, with what is kept there; empty: its own
};

/// Stays where it is, and is destroyed only when nobody runs any more: peers read its arena.
class Rank {
 public:
  Rank(const Pipeline& pipeline, StepTensors& tensors, std::unique_ptr<Communicator> communicator,
       RankOptions options);
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  /// Makes its programs ready and fills parameters and states with their initial values, on the thread that will run
  /// them. All ranks do so at the same time.
  void prepare();
  /// Step `number`. `behind` belongs to it, too; null: nothing.
  void run(int number, const std::function<void()>& behind);
  /// Likewise, and it is recorded.
  void run_recorded(int number, const std::function<void()>& behind);

  /// The step is over, for all ranks of this process.
  void end_step() { executor_->end_step(); }
  /// Behind a step that has failed: whether all that it keeps is as before.
  bool restore() { return executor_->restore(); }

  /// How a parameter or state of one of its stages is set and read.
  Way way(int stage, ValueId v) const { return {pipeline_, number(), stage, v}; }
  TensorView view(int stage, ValueId v) const { return executor_->view(stage, v); }

  int number() const { return communicator_->rank(); }
  const DeviceKind& device() const { return options_.devices; }
  Communicator& communicator() const { return *communicator_; }
  Backend& backend() const { return *backend_; }
  const Executor& executor() const { return *executor_; }
  RankPorts& ports() { return ports_; }
  const Recorder& recorder() const { return recorder_; }
  /// Where its first loss that is none came from, as far as this rank can see.
  const std::optional<OddValue>& odd_value() const { return odd_; }
  /// When all ranks were about to begin the first recorded step.
  std::int64_t first_recorded() const { return first_recorded_; }

 private:
  void initialize(int stage);
  void look_for_odd_values(int stage, Phase phase, int micro_batch);

  const Pipeline& pipeline_;
  RankOptions options_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Backend> backend_;
  RankPorts ports_;
  std::unique_ptr<Executor> executor_;
  Recorder recorder_;
  std::int64_t first_recorded_ = 0;
  std::optional<OddValue> odd_;
};

}  // namespace shardwright
