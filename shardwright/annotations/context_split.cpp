#include "shardwright/annotations/context_split.h"

#include <algorithm>
#include <utility>

#include "shardwright/base/index.h"
#include "shardwright/graph/forward_operator.h"
#include "shardwright/graph/op.h"
#include "shardwright/layout/rule_dims.h"

namespace shardwright {
namespace {

double elements_of(const Rule& rule, const RuleTensor& tensor) {
  double out = 1;
  for (const auto& loops : tensor.dims)
    for (int l : loops) out *= static_cast<double>(rule.loops[at(l)].size);
  return out;
}

}  // namespace

bool has_round(const Rule& rule) {
  return std::ranges::any_of(rule.loops, [](const LoopDim& l) { return l.kind == LoopKind::round; });
}

std::int64_t longest_sequence(const Graph& graph) {
  std::int64_t out = 0;
  for (const Node& node : graph.nodes) {
    if (!is_forward_operator(node)) continue;
    for (const LoopDim& loop : rule_of(graph, node).loops)
      if (loop.kind == LoopKind::round) out = std::max(out, loop.size);
  }
  return out;
}

bool ContextSplit::is_sequence(const Node& node, std::size_t operand, std::size_t d) const {
  return (*sequence_)[at(node.operands[operand].index)][d];
}

bool ContextSplit::is_in(const Strategy& s) const {
  return std::ranges::any_of(used_axes(s), [&](int a) { return axes_.contains(a); });
}

void ContextSplit::by_sequence(const Node& node, const Rule& rule, Strategy& s) {
  for (std::size_t i = 0; i < node.operands.size() && !axes_.empty(); ++i)
    for (std::size_t d = 0; d < rule.operands[i].dims.size(); ++d) {
      if (!is_sequence(node, i, d) || rule.operands[i].dims[d].empty()) continue;
      const int loop = rule.operands[i].dims[d][0];
      Strategy tried = s;
      tried.loops[at(loop)] = s.loops[at(loop)].with(axes_);
      if (rule.loops[at(loop)].stays_whole() || violation(rule, tried, *mesh_)) continue;
      s = std::move(tried);
      why_ = "by the sequence";
      splits_ = true;
      return;
    }
}

ContextSplit::RoundDims ContextSplit::round_dims(const Node& node, const Rule& rule) const {
  RoundDims out;
  for (std::size_t i = 0; i < node.operands.size(); ++i)
    for (std::size_t d = 0; d < rule.operands[i].dims.size(); ++d) {
      if (!is_sequence(node, i, d) || rule.operands[i].dims[d].empty()) continue;
      const int loop = rule.operands[i].dims[d][0];
      const LoopKind kind = rule.loops[at(loop)].kind;
      if (kind == LoopKind::round) out.round = loop;
      if (kind == LoopKind::plain && out.asking < 0) out.asking = loop;
    }
  return out;
}

void ContextSplit::around(const Node& node, const Rule& rule, Strategy& s) {
  if (axes_.empty()) return;
  const RoundDims dims = round_dims(node, rule);
  if (dims.asking < 0) return;
  const std::string& name = graph_->value(node.results.front()).name;
  const int parts = mesh_->count(axes_);
  Strategy gathered = s;
  gathered.loops[at(dims.asking)] = s.loops[at(dims.asking)].with(axes_);
  if (const auto why = violation(rule, gathered, *mesh_)) throw error("cp={}: {}: {}", parts, name, *why);
  std::optional<Strategy> round;
  std::string why = "its keys are no part of the sequence";
  if (dims.round >= 0) {
    round = gathered;
    round->loops[at(dims.round)] = axes_;
    if (auto found = violation_as_asked(rule, *round, *mesh_)) why = *std::move(found), round.reset();
  }
  const std::optional<Strategy> exchanged = this->exchanged(rule, s);
  if (asked_ == ContextWay::ring && !round) throw error("context=ring: {}: {}; leave context out", name, why);
  if (asked_ == ContextWay::exchange && !exchanged)
    throw error("context=exchange: cp={} does not divide the heads of {} on each device; use context=ring",
                parts, name);
  splits_ = true;
  switch (asked_.value_or(least_sent(rule, dims.round, round.has_value(), exchanged.has_value()))) {
    case ContextWay::gather: s = std::move(gathered), why_ = "by the sequence, keys are gathered"; break;
    case ContextWay::exchange: s = *exchanged, why_ = "by heads, of the whole sequence"; break;
    case ContextWay::ring: s = *std::move(round), why_ = "by the sequence, keys go round"; break;
  }
}

/// What goes round is sent once to each of the others; an exchange moves nearly all of a part of everything.
ContextWay ContextSplit::least_sent(const Rule& rule, int round, bool may_go_round, bool may_exchange) const {
  double everything = 0, goes_round = 0;
  for (const auto* side : {&rule.operands, &rule.results})
    for (const RuleTensor& tensor : *side) {
      everything += elements_of(rule, tensor);
      if (has_loop(tensor, round)) goes_round += elements_of(rule, tensor);
    }
  const bool sends_less = everything < mesh_->count(axes_) * goes_round;
  if (may_exchange && (sends_less || !may_go_round)) return ContextWay::exchange;
  return may_go_round ? ContextWay::ring : ContextWay::gather;
}

/// Heads are a dim of several loop dims: those that keys have, and those that share one of them.
std::optional<Strategy> ContextSplit::exchanged(const Rule& rule, const Strategy& s) const {
  for (const std::vector<int>& heads : rule.results.front().dims) {
    if (heads.size() < 2) continue;
    Strategy tried = s;
    for (int loop : heads) {
      const std::int64_t left = rule.loops[at(loop)].size / mesh_->count(s.loops[at(loop)]);
      if (left == 1) continue;
      tried.loops[at(loop)] = s.loops[at(loop)].with(axes_);
      if (!violation(rule, tried, *mesh_)) return tried;
      break;
    }
  }
  return std::nullopt;
}

}  // namespace shardwright
