// To what an executor's instructions belong, for traces and messages.
#include "shardwright/base/index.h"
#include "shardwright/runtime/executor.h"

namespace shardwright {

void Executor::begin(const Instruction& i, int micro_batch) {
  flight_record_.begin(i, micro_batch);
  communicator_.enter({.step = flight_record_.step(),
                       .act = static_cast<int>(i.act),
                       .stage = i.stage,
                       .what = i.what,
                       .micro_batch = micro_batch});
}

/// To which phase an instruction belongs that stands in no section.
Phase Executor::phase_of(const Instruction& i) const {
  if (i.act != Act::start && i.act != Act::finish) return Phase::forward;
  return pipeline_.crossings[at(step_.transfer(i).crossing)].phase;
}

const Node* Executor::node_of(const Instruction& i) const {
  const auto of_graph = [&](int stage, NodeId id) { return &pipeline_.stage(stage).graph.node(id); };
  switch (i.act) {
    case Act::compute:
    case Act::copy: return of_graph(i.stage, {i.what});
    case Act::start:
    case Act::finish: {
      const PreparedTransfer& t = step_.transfer(i);
      return t.crossing < 0 ? of_graph(t.to_stage, t.node) : nullptr;
    }
    default: return nullptr;
  }
}

TimedOut Executor::with_transfer(const TimedOut& e, const Action& action, int micro_batch) const {
  const std::string what = to_text(step_.transfer(action.instruction), pipeline_);
  return e.of(pipeline_.micro_batches() > 1 ? fmt::format("{}, micro-batch {},", what, micro_batch) : what);
}

Error Executor::with_node(const Error& e, const Action& action, int micro_batch) const {
  if (!action.node) return e;
  const Graph& graph = held(action.instruction.stage).program->graph;
  const bool has_micro_batch =
      micro_batch >= 0 && pipeline_.micro_batches() > 1 && action.phase != Phase::update;
  return with_context(
      e, fmt::format("%{} = {}{}", graph.value(action.node->results[0]).name, action.node->op->name,
                     has_micro_batch ? fmt::format(", micro-batch {}", micro_batch) : ""));
}

}  // namespace shardwright
