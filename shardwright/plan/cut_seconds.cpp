#include "shardwright/plan/cut_seconds.h"

#include <algorithm>
#include <cmath>

#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

double bytes_of(const Graph& graph, const Node& node) {
  double bytes = 0;
  for (const auto* values : {&node.operands, &node.results})
    for (ValueId v : *values) bytes += static_cast<double>(graph.value(v).type.bytes());
  return bytes;
}

Work work_of(const Graph& graph, NodeId id, const Rule& rule) {
  const Node& node = graph.node(id);
  return {.kind = work_kind(rule),
          .flops = flops_of(*node.op, rule),
          .bytes = bytes_of(graph, node),
          .dtype = graph.value(node.results.front()).type.dtype};
}

/// A part goes on as along the axis before, unless another way is worth it: plans on fewer axes are easier to read, and
/// redistribute in fewer steps than are priced here. In shares of the part's work.
double change(const CutPart& part, int loop) {
  constexpr double share = 0.05;
  const bool goes_on =
      loop == no_loop_dim ? used_axes(part.strategy).empty() : !part.strategy.loops[at(loop)].empty();
  return goes_on ? 0 : share;
}

/// Of a collective over one axis, however little it moves.
double latency_of(const AxisLevel& level) { return level.link.start_seconds + level.link.latency_seconds; }

}  // namespace

double CutTotals::seconds(double overlap) const {
  // Two thirds of a training step's compute are its backward, and a gradient cannot hide behind its own computation.
  const double beside = overlap * compute * 2 / 3;
  return compute + activations + std::max(gradients - beside, gradients * (1 - overlap));
}

CutSeconds::CutSeconds(const CutProblem& problem, const Calls& calls, const Cluster& cluster)
    : cluster_(&cluster), works_(problem.parts().size()) {
  const Graph& graph = problem.graph();
  std::vector<Work> of_call(at(calls.size()));
  std::vector<bool> is_known(at(calls.size()), false);
  const auto work = [&](NodeId id) {
    const int call = calls.of(id);
    if (!is_known[at(call)]) of_call[at(call)] = work_of(graph, id, calls.rule(call));
    is_known[at(call)] = true;
    return of_call[at(call)];
  };
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.op->optimizer) states_ = static_cast<double>(node.op->optimizer->states.size());
    if (node.op->kind != OpKind::compute || node.phase == Phase::update) continue;
    const NodeId forward = node.forward.is_valid() ? node.forward : id;
    const int p = problem.part_of(forward);
    if (p < 0 || problem.part(p).example != forward) continue;
    works_[at(p)].works.push_back(work(id));
    if (forward == id) works_[at(p)].bytes = works_[at(p)].works.back().bytes;
  }
  for (const CutValue& v : problem.values()) {
    is_training_ = is_training_ || (v.is_parameter && v.has_gradient);
    if (v.is_parameter && !v.uses.empty())
      works_[at(v.uses.front().part)].owned.push_back(v.uses.front().operand);
  }
}

double CutSeconds::tensor_bytes(const CutProblem& problem, int p, int loop, int parts) const {
  const Graph& graph = problem.graph();
  const Node& node = graph.node(problem.part(p).example);
  const auto size = [&](ValueId v) { return static_cast<double>(size_of(graph.value(v).type.dtype)); };
  double bytes = 0;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const int operand = static_cast<int>(i);
    bytes += problem.operand_elements(p, operand) * size(node.operands[i]) /
             (problem.operand_cut(p, operand, loop) >= 0 ? parts : 1);
  }
  for (std::size_t i = 0; i < node.results.size(); ++i) {
    const int result = static_cast<int>(i);
    bytes += problem.result_elements(p, result) * size(node.results[i]) /
             (problem.result_cut(p, result, loop) >= 0 ? parts : 1);
  }
  return bytes;
}

double CutSeconds::compute(const CutProblem& problem, int p, int loop, const AxisLevel& level) const {
  const PartWork& part = works_[at(p)];
  double share = 1 / level.inner;
  for (int n : problem.part(p).parts) share /= n;
  if (loop != no_loop_dim) share /= level.halving.parts;
  const double of_bytes =
      part.bytes > 0 ? tensor_bytes(problem, p, loop, level.halving.parts) / part.bytes / level.inner : 1;
  double seconds = 0;
  for (Work w : part.works) {
    w.flops *= share;
    w.bytes *= of_bytes;
    seconds += compute_seconds(w, *cluster_);
  }
  if (!is_training_) return seconds;
  const Node& node = problem.graph().node(problem.part(p).example);
  for (int i : part.owned) {  // the update reads weight, gradient and states, and writes weight and states
    const auto bytes = static_cast<double>(size_of(problem.graph().value(node.operands[at(i)]).type.dtype));
    const double elements = problem.operand_elements(p, i) / level.inner /
                            (problem.operand_cut(p, i, loop) >= 0 ? level.halving.parts : 1);
    seconds += compute_seconds({.bytes = (3 + 2 * states_) * elements * bytes}, *cluster_);
  }
  return seconds;
}

double CutSeconds::memory(const CutProblem& problem, int p, int loop, const AxisLevel& level) const {
  const Graph& graph = problem.graph();
  const Node& node = graph.node(problem.part(p).example);
  const auto size = [&](ValueId v) { return static_cast<double>(size_of(graph.value(v).type.dtype)); };
  double bytes = 0;
  for (int i : works_[at(p)].owned)
    bytes += (is_training_ ? 2 + states_ : 1) * problem.operand_elements(p, i) * size(node.operands[at(i)]) /
             (problem.operand_cut(p, i, loop) >= 0 ? level.halving.parts : 1);
  for (std::size_t i = 0; is_training_ && i < node.results.size(); ++i)
    bytes += problem.result_elements(p, static_cast<int>(i)) * size(node.results[i]) /
             (problem.result_cut(p, static_cast<int>(i), loop) >= 0 ? level.halving.parts : 1);
  return bytes / level.inner;
}

double CutSeconds::move(Cut from, Cut to, double bytes, const AxisLevel& level, Joined joined) const {
  const double n = level.halving.parts, whole = bytes / level.inner;
  if (joined == Joined::reorders) return latency_of(level) + whole / n * level.link.seconds_per_byte;
  if (from == to || to == partial_cut) return 0;
  if (from == not_cut) return whole / n * 2 / cluster_->memory_bytes_per_second;  // a copy of one's own part
  const double latency = joined == Joined::yes ? 0 : latency_of(level);
  const double over_link = whole * (n - 1) / n * level.link.seconds_per_byte;
  if (from == partial_cut) return latency + over_link * (to == not_cut ? 2 : 1);
  return latency + (to == not_cut ? over_link : over_link / n);
}

double CutSeconds::reduce(const CutProblem& problem, const CutValue& v, Cut gradient, const AxisLevel& level,
                          Joined joined) const {
  if (gradient != partial_cut) return 0;
  const CutUse& owner = v.uses.front();
  const auto size = static_cast<double>(size_of(problem.graph().value(v.example).type.dtype));
  return move(partial_cut, not_cut, problem.operand_elements(owner.part, owner.operand) * size, level,
              joined);
}

CutPrices CutSeconds::prices(const CutProblem& problem, const AxisLevel& level,
                             const CutWeights& weights) const {
  return {.axis = level.halving.axis,
          .own =
              [this, &problem, level, weights](int part, int loop) {
                const double work = compute(problem, part, loop, level);
                const double seconds =
                    work * (level.halving.axis == 0 ? 1 : 1 + change(problem.part(part), loop));
                return weights.memory > 0 ? seconds + weights.memory * memory(problem, part, loop, level)
                                          : seconds;
              },
          .move = [this, level](Cut from, Cut to, double bytes,
                                Joined joined) { return move(from, to, bytes, level, joined); },
          .reduce =
              [this, &problem, level, weights](const CutValue& v, Cut gradient, Joined joined) {
                return weights.gradients * reduce(problem, v, gradient, level, joined);
              },
          .is_followed = [](const CutValue&) { return false; }};
}

CutTotals CutSeconds::totals(const CutProblem& problem) const {
  const AxisLevel all{};
  CutTotals out;
  for (std::size_t p = 0; p < problem.parts().size(); ++p) {
    const int part = static_cast<int>(p);
    out.compute += problem.part(part).count * compute(problem, part, no_loop_dim, all);
    out.memory += problem.part(part).count * memory(problem, part, no_loop_dim, all);
  }
  return out;
}

}  // namespace shardwright
