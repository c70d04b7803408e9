// One rank's program, ready to run: an arena, and one prepared kernel or transfer per node (or fusion).
//
// Shapes come from layouts and boxes, never from local types, so unequal shards need nothing special. All
// decisions are taken by the constructor; a step walks over a flat list and allocates nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string_view>
#include <vector>

#include "shardwright/lower/program.h"
#include "shardwright/runtime/backend/backend.h"
#include "shardwright/runtime/communicator/communicator.h"

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
  Executor(const Program& program, Backend& backend, Communicator& communicator);

  /// Runs all nodes in order. Inputs must be in place.
  /// Throws: what a kernel throws, prefixed with the name of the node; Error of kind peer if a rank failed.
  void run();
  /// Parameters and states take their new values. Outputs are read before.
  void update();

  /// What this rank holds of a value, and which part of the whole that is.
  const TensorView& view(ValueId v) const { return views_[static_cast<std::size_t>(v.index)]; }
  const Box& box(ValueId v) const { return boxes_[static_cast<std::size_t>(v.index)]; }
  const Traffic& traffic() const { return traffic_; }

 private:
  /// A kernel if `kernel` is set; else a transfer, or an end of it, if `transfer` >= 0; else a copy of `bytes`.
  struct Action {
    PreparedKernel kernel;
    int transfer = -1;
    enum class Part { whole, start, finish } part = Part::whole;
    bool is_hiding = false;  // transfers have been started and not finished
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::size_t bytes = 0;
    const Node* node = nullptr;  // for messages
  };

  void place_values();
  void prepare(const Fusion& fusion);
  void prepare_steps(const Fusion& fusion);
  BoundTransfer bind_step(const Node& node);
  void prepare_alias(const Node& node);
  void prepare_compute(const Fusion& fusion);
  FusedCall bind(const Node& node);
  void start_early();
  void prepare_updates();
  void run(const Action& action);
  Error with_node(const Error& e, const Node& node) const;

  const Program& program_;
  Backend& backend_;
  Communicator& communicator_;
  Memory arena_;
  std::vector<TensorView> views_;  // by value
  std::vector<Box> boxes_;         // by value
  std::deque<LocalCall> calls_;    // a deque, because kernels refer to its elements
  std::vector<Action> actions_;
  std::vector<Action> updates_;
  Memory staging_;
  Traffic traffic_;
};

}  // namespace shardwright
