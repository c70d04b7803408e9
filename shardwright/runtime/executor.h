// One rank's program, ready to run: an arena, and one prepared kernel or transfer per node (or fusion).
//
// Shapes come from layouts and boxes, never from local types, so unequal shards need nothing special. All
// decisions are taken by the constructor; a step walks over a flat list and allocates nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "shardwright/lower/program.h"
#include "shardwright/runtime/backend/backend.h"
#include "shardwright/runtime/communicator/communicator.h"
#include "shardwright/runtime/flows.h"
#include "shardwright/runtime/trace.h"

namespace shardwright {

/// What one rank asks of the others in a step.
struct Traffic {
  std::map<std::string_view, int> collectives;  // by kind; local steps are not counted
  std::int64_t bytes = 0;                       // received
};

class Executor {
 public:
  /// Prepares `program` for the rank of `communicator`. All ranks do so at the same time. Everything passed
  /// in must outlive the executor.
  /// Throws: Error, prefixed with the name of the node.
  Executor(const Program& program, Backend& backend, Communicator& communicator, StageRank place = {});

  /// A step is: begin, the tasks in their order, the update phase, and `update`. Inputs of a micro-batch must be in
  /// place in its slot before its forward; what crosses stages is expected from here or from the task before.
  /// Throws: what a kernel throws, prefixed with the name of the node; Error of kind peer if a rank failed.
  void begin();
  void run(const Task& task);
  void run_update();
  /// Lets what a later task receives come while others run.
  void expect(const Task& task) { flows_.expect(CrossingTime::micro_batch, task.phase, task.micro_batch); }
  /// A whole step of one micro-batch that receives nothing, up to the update of the leaves.
  void run();
  /// What runs from now on is recorded there; null: nowhere. Room for a step is made.
  void record(Recorder* recorder);

  /// Once `stop` is true, what runs ends between two actions with an Error.
  void stop_when(const std::atomic<bool>* stop) { stop_ = stop; }

  /// Parameters and states take their new values. Outputs are read before.
  void update();

  int slot_of(int micro_batch) const { return micro_batch % program_.slots; }

  /// What this rank holds of a value, and which part of the whole that is.
  TensorView view(ValueId v, int slot = 0) const;
  const Box& box(ValueId v) const { return boxes_[static_cast<std::size_t>(v.index)]; }
  const Traffic& traffic() const { return traffic_; }
  /// All that this rank holds.
  std::span<const std::byte> arena() const {
    return {arena_.data(), static_cast<std::size_t>(program_.arena_bytes)};
  }

 private:
  /// A kernel if `kernel` is set; else a transfer, or an end of it, if `transfer` >= 0; else a copy of `bytes`.
  struct Action {
    PreparedKernel kernel;
    int transfer = -1;
    enum class Part { whole, start, finish } part = Part::whole;
    bool is_hiding = false;        // transfers have been started and not finished
    int flow = -1;                 // instead of `transfer`: sends or receives
    bool is_last = false;          // only with the last micro-batch: it belongs to the update
    bool is_first = false;         // only with the first one: the value stays for the step
    Phase place = Phase::forward;  // in which it runs
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::size_t bytes = 0;
    const Node* node = nullptr;  // for messages
  };

  void place_values();
  using Actions = std::vector<Action>;

  void prepare_phases();
  void prepare(const Fusion& fusion);
  void prepare_receive(const Node& node);
  void prepare_sends(const Fusion& fusion);
  void count(const Flow& flow);
  void run(const Actions& actions, int micro_batch);
  void prepare_steps(const Fusion& fusion);
  BoundTransfer bind_step(const Node& node);
  void prepare_alias(const Node& node);
  void prepare_compute(const Fusion& fusion);
  FusedCall bind(const Node& node);
  void start_early();
  void prepare_updates();
  bool is_left_out(const Action& action, int micro_batch) const;
  void run(const Action& action, int micro_batch);
  void run_flow(const Action& action, int micro_batch);
  void run_recorded(const Action& action, int micro_batch);
  Activity activity_of(const Action& action) const;
  int local_rank() const { return communicator_.rank() - first_rank_; }
  Error with_node(const Error& e, const Node& node) const;

  const Program& program_;
  Backend& backend_;
  Communicator& communicator_;
  int first_rank_;
  Memory arena_;
  std::vector<TensorView> views_;  // by value
  std::vector<Box> boxes_;         // by value
  std::deque<LocalCall> calls_;    // a deque, because kernels refer to its elements
  Flows flows_;
  int slot_ = 0;                               // that is being prepared
  Actions actions_;                            // of the phase that is being prepared
  std::vector<std::array<Actions, 2>> tasks_;  // by slot: forward, backward
  Actions update_phase_;
  std::array<Actions, 3> updates_;  // of leaves, at the end of each phase
  std::vector<TensorView> accumulators_;
  Memory staging_;
  Traffic traffic_;
  Recorder* recorder_ = nullptr;
  const std::atomic<bool>* stop_ = nullptr;
};

}  // namespace shardwright
