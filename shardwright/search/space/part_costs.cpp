#include "shardwright/search/space/part_costs.h"

#include <algorithm>
#include <cmath>

#include "shardwright/base/index.h"
#include "shardwright/cost/kernel_work.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/op.h"
#include "shardwright/ops/row_updates.h"

namespace shardwright::space {
double CutTotals::seconds(double overlap) const {
  // Two thirds of a training step's compute are its backward, and a gradient cannot hide behind its own computation.
  const double beside = overlap * compute * 2 / 3;
  return compute + activations + std::max(gradients - beside, gradients * (1 - overlap));
}

PartCosts::PartCosts(const CutProblem& problem, const Calls& calls, const Cluster& cluster,
                     const Holding& holding)
    : cluster_(&cluster),
      holding_(holding),
      works_(problem.parts().size()),
      beside_(beside_of(problem.graph())) {
  const Graph& graph = problem.graph();
  std::vector<Work> of_call(at(calls.size()));
  std::vector<bool> is_known(at(calls.size()), false);
  const auto work = [&](NodeId id) {
    const int call = calls.of(id);
    if (!is_known[at(call)]) of_call[at(call)] = kernel_work(graph, graph.node(id), calls.rule(call));
    is_known[at(call)] = true;
    return of_call[at(call)];
  };
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    accumulates_ = accumulates_ || node.op->kind == OpKind::accumulator;
    if (node.op->optimizer) beside_[at(node.operands[0].index)].update = work(id);
    if (node.op->kind != OpKind::compute || node.phase == Phase::update) continue;
    const NodeId forward = node.forward.is_valid() ? node.forward : id;
    const int p = problem.part_of(forward);
    if (p < 0 || problem.part(p).example != forward) continue;
    if (!node.op->is_alias)
      works_[at(p)].works.push_back(work(id));  // an operand seen otherwise takes no time
    if (forward == id)
      works_[at(p)].bytes = work(id).bytes;
    else
      keep(works_[at(p)], graph, id);
  }
  for (const CutValue& v : problem.values()) {
    double reads = 0;
    for (const CutUse& use : v.uses) reads += use.count / v.count;
    for (const CutUse& use : v.uses)
      if (auto& kept = works_[at(use.part)].kept; !kept.empty() && v.producer >= 0)
        kept[at(use.operand)] /= reads;
    if (v.is_parameter && !v.uses.empty())
      works_[at(v.uses.front().part)].owned.push_back(v.uses.front().operand);
  }
}

std::vector<PartCosts::Beside> PartCosts::beside_of(const Graph& graph) {
  std::vector<Beside> out(graph.values.size());
  const auto size = [&](ValueId v) { return static_cast<double>(size_of(graph.value(v).type.dtype)); };
  // The last gradient that the backward makes of a parameter is the one that is reduced.
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::backward) continue;
    for (ValueId v : node.results)
      for (ValueId of : graph.value(v).gradient_of)
        out[at(of.index)] = {.gradient = size(v), .reduced = size(v)};
  }
  for (const Node& node : graph.nodes) {
    if (!node.op->optimizer) continue;
    Beside& beside = out[at(node.operands[0].index)];
    if (const auto read = row_operands(node)) {
      const Type& rows = graph.value(node.operands[read->rows]).type;
      const Type& ids = graph.value(node.operands[read->ids]).type;
      beside.gradient = beside.reduced = 0;
      beside.rows = static_cast<double>(rows.bytes() + ids.bytes());
    } else {
      beside.gradient = size(node.operands[1]);
    }
    for (ValueId state : state_operands(node)) beside.states += size(state);
  }
  return out;
}

/// Marks what of its forward node's operands and results the backward node `id` reads.
void PartCosts::keep(PartWork& part, const Graph& graph, NodeId id) {
  const Node& forward = graph.node(graph.node(id).forward);
  part.kept.resize(forward.operands.size(), 0);
  for (ValueId v : graph.node(id).operands) {
    for (std::size_t i = 0; i < forward.operands.size(); ++i)
      if (forward.operands[i] == v && graph.node(graph.value(v).producer).op->kind == OpKind::compute)
        part.kept[i] = 1;
    for (std::size_t i = 0; i < forward.results.size(); ++i)
      if (const int r = static_cast<int>(i);
          forward.results[i] == v && std::count(part.kept_results.begin(), part.kept_results.end(), r) == 0)
        part.kept_results.push_back(r);
  }
}

double PartCosts::bytes_moved(const CutProblem& problem, int p, int loop, int parts, double flops) const {
  const Graph& graph = problem.graph();
  const CutPart& part = problem.part(p);
  const Node& node = graph.node(part.example);
  const auto size = [&](ValueId v) { return static_cast<double>(size_of(graph.value(v).type.dtype)); };
  double bytes = 0;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const Cut cut = problem.operand_cut(p, static_cast<int>(i), loop);
    const auto& dims = part.rule->operands[i].dims;
    double row = size(node.operands[i]);
    for (int l : dims.empty() ? std::vector<int>{} : dims.back())
      row *= static_cast<double>(part.rule->loops[at(l)].size) / part.parts[at(l)];
    if (cut >= 0 && cut + 1 == static_cast<Cut>(dims.size())) row /= parts;
    const double held = part.operands[i] * size(node.operands[i]) / (cut >= 0 ? parts : 1);
    bytes += bytes_read(held, flops, size(node.operands[i]), row);
  }
  for (std::size_t i = 0; i < node.results.size(); ++i)
    bytes += part.results[i] * size(node.results[i]) /
             (problem.result_cut(p, static_cast<int>(i), loop) >= 0 ? parts : 1);
  return bytes;
}

double PartCosts::compute(const CutProblem& problem, int p, int loop, const AxisLevel& level) const {
  const PartWork& part = works_[at(p)];
  double share = 1;
  for (int n : problem.part(p).parts) share /= n;
  if (loop != no_loop_dim) share /= level.halving.parts;
  const double flops = part.works.empty() ? 0 : part.works.front().flops * share;
  const double of_bytes =
      bytes_moved(problem, p, loop, level.halving.parts, flops) / part.bytes / level.inner;
  share /= level.inner;
  double seconds = 0;
  for (Work w : part.works) {
    w.flops *= share;
    w.bytes *= of_bytes;
    seconds += compute_seconds(w, *cluster_);
  }
  const Node& node = problem.graph().node(problem.part(p).example);
  for (int i : part.owned) {
    const ValueId parameter = node.operands[at(i)];
    Work update = beside(parameter).update;
    if (update.bytes == 0) continue;
    const double own = problem.operand_elements(p, i) / level.inner /
                       (problem.operand_cut(p, i, loop) >= 0 ? level.halving.parts : 1) /
                       static_cast<double>(element_count(problem.graph().value(parameter).type.shape));
    update.flops *= own;
    update.bytes *= own;
    seconds += compute_seconds(update, *cluster_);
  }
  return seconds;
}

PartCosts::Held PartCosts::memory(const CutProblem& problem, int p, int loop, const AxisLevel& level) const {
  const Graph& graph = problem.graph();
  const Node& node = graph.node(problem.part(p).example);
  const auto size = [&](ValueId v) { return static_cast<double>(size_of(graph.value(v).type.dtype)); };
  Held out;
  for (int i : works_[at(p)].owned) {
    const Type& type = graph.value(node.operands[at(i)]).type;
    const Beside& b = beside(node.operands[at(i)]);
    const double elements = problem.operand_elements(p, i) / level.inner /
                            (problem.operand_cut(p, i, loop) >= 0 ? level.halving.parts : 1);
    const OptimizerParallel& sharded = holding_.sharded;
    const double copies = cluster_->devices() * elements / static_cast<double>(element_count(type.shape));
    const double sharers = sharded.group > 0 ? std::min<double>(sharded.group, copies) : copies;
    const bool is_small = type.bytes() < sharded.threshold;
    const auto held = [&](int from) {
      return sharded.level < from || is_small ? elements : elements / std::max(sharers, 1.0);
    };
    out.owned += static_cast<double>(size_of(type.dtype)) * held(3) + b.states * held(1);
    out.gradients += b.gradient * held(2);
  }
  const PartWork& part = works_[at(p)];
  for (std::size_t i = 0; i < part.kept.size(); ++i)
    if (part.kept[i] > 0)
      out.kept += part.kept[i] * problem.operand_elements(p, static_cast<int>(i)) * size(node.operands[i]) /
                  level.inner /
                  (problem.operand_cut(p, static_cast<int>(i), loop) >= 0 ? level.halving.parts : 1);
  for (int i : part.kept_results)  // a partial result is reduced, and scattered, before it is kept
    out.kept += problem.result_elements(p, i) * size(node.results[at(i)]) / level.inner /
                (problem.result_cut(p, i, loop) != not_cut ? level.halving.parts : 1);
  out.kept *= holding_.slots;
  return out;
}

void PartCosts::set_memory(CutTotals& totals, const Held& all, bool accumulates) {
  totals.memory = accumulates ? all.all() : all.owned + std::max(all.gradients, all.kept);
  totals.least_memory = accumulates ? all.all() : all.owned + all.kept;
}

CutTotals PartCosts::totals(const CutProblem& problem) const {
  const AxisLevel all{};
  CutTotals out;
  Held held;
  for (int part = 0; part < problem.size(); ++part) {
    const double count = problem.part(part).count;
    out.compute += count * compute(problem, part, no_loop_dim, all);
    held.add(memory(problem, part, no_loop_dim, all), count);
  }
  set_memory(out, held, accumulates_);
  return out;
}

}  // namespace shardwright::space
