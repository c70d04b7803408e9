#include "shardwright/annotations/context_split.h"

#include <algorithm>
#include <numeric>
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

/// Elements of all that an exchange moves, and of what goes round.
struct Sent {
  double everything = 0, goes_round = 0;
};
Sent sent_of(const Rule& rule, int round) {
  Sent out;
  for (const auto* side : {&rule.operands, &rule.results})
    for (const RuleTensor& tensor : *side) {
      out.everything += elements_of(rule, tensor);
      if (has_loop(tensor, round)) out.goes_round += elements_of(rule, tensor);
    }
  return out;
}

}  // namespace

bool has_round(const Rule& rule) {
  return std::ranges::any_of(rule.loops, [](const LoopDim& l) { return l.kind == LoopKind::round; });
}

std::vector<int> context_parts(const Constraints& asked) {
  const int context = asked.degrees.sharing(Sharing::sequence);
  const int inner = asked.context.value_or(ContextWays()).exchanged;
  if (inner == 1) return {context};
  if (context % inner != 0 || context == inner)
    throw error("context=exchange:{}: should be a part of cp={}{}", inner, context,
                context == inner ? "; all of it is context=exchange" : ", which it does not divide");
  return {context / inner, inner};
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

ContextSplit::Parted ContextSplit::parted(const Node& node, const Rule& rule, const Strategy& s,
                                          const Axes& axes) const {
  const RoundDims dims = round_dims(node, rule);
  Parted out{.gathered = s, .why = "its keys are no part of the sequence"};
  out.gathered.loops[at(dims.asking)] = s.loops[at(dims.asking)].with(axes);
  if (const auto why = violation(rule, out.gathered, *mesh_))
    throw error("cp={}: {}: {}", mesh_->count(axes_), graph_->value(node.results.front()).name, *why);
  if (dims.round < 0) return out;
  out.round = out.gathered;
  out.round->loops[at(dims.round)] = axes;
  if (auto why = violation_as_asked(rule, *out.round, *mesh_)) out.why = *std::move(why), out.round.reset();
  return out;
}

void ContextSplit::take(ContextWay way, Parted parted, Strategy& s) {
  s = way == ContextWay::ring ? *std::move(parted.round) : std::move(parted.gathered);
  why_ = way == ContextWay::ring ? "by the sequence, keys go round" : "by the sequence, keys are gathered";
}

void ContextSplit::around(const Node& node, const Rule& rule, Strategy& s) {
  if (axes_.empty()) return;
  const RoundDims dims = round_dims(node, rule);
  if (dims.asking < 0) return;
  splits_ = true;
  const std::string& name = graph_->value(node.results.front()).name;
  const bool is_cut = axes_.size() > 1;
  const int parts = mesh_->count(is_cut ? axes_.without(outer()) : axes_);
  const std::optional<Strategy> exchanged = this->exchanged(rule, s, is_cut ? axes_.without(outer()) : axes_);
  if (asked_ && (is_cut || asked_->way == ContextWay::exchange) && !exchanged)
    throw error("context=exchange{}: {} does not divide the heads of {} on each device; use context=ring",
                is_cut ? fmt::format(":{}", parts) : "",
                is_cut ? fmt::format("{}", parts) : fmt::format("cp={}", parts), name);
  const bool is_both = is_cut && exchanged;
  Parted parted = this->parted(node, rule, is_both ? *exchanged : s, is_both ? outer() : axes_);
  if (asked_ && asked_->way == ContextWay::ring && !parted.round)
    throw error("context=ring: {}: {}; leave context out", name, parted.why);
  if (!asked_ && !is_cut && !exchanged) note_exchange(rule, s, dims.round);
  const ContextWay least = least_sent(rule, dims.round, parted.round.has_value(), exchanged && !is_cut);
  const ContextWay way = asked_ ? asked_->way : least;
  if (way == ContextWay::exchange)
    s = *exchanged, why_ = "by heads, of the whole sequence";
  else
    take(way, std::move(parted), s);
  if (is_both) why_ = "by heads, and " + why_;
}

/// What goes round is sent once to each of the others; an exchange moves nearly all of a part of everything.
ContextWay ContextSplit::least_sent(const Rule& rule, int round, bool may_go_round, bool may_exchange) const {
  const auto [everything, goes_round] = sent_of(rule, round);
  const bool sends_less = everything < mesh_->count(axes_) * goes_round;
  if (may_exchange && (sends_less || !may_go_round)) return ContextWay::exchange;
  return may_go_round ? ContextWay::ring : ContextWay::gather;
}

/// As many as the heads that come first can be cut into, if then less is sent than by all keys going round.
void ContextSplit::note_exchange(const Rule& rule, const Strategy& s, int round) {
  const auto [everything, goes_round] = sent_of(rule, round);
  const int parts = mesh_->count(axes_);
  for (const std::vector<int>& heads : rule.results.front().dims) {
    if (heads.size() < 2) continue;
    for (int loop : heads) {
      const std::int64_t left = rule.loops[at(loop)].size / mesh_->count(s.loops[at(loop)]);
      if (left == 1) continue;
      const int inner = static_cast<int>(std::gcd(left, std::int64_t{parts}));
      const double both = everything * (inner - 1) / inner + goes_round * (parts / inner - 1);
      if (inner < parts && both < goes_round * (parts - 1)) exchanged_ = std::max(exchanged_, inner);
      return;
    }
  }
}

/// Heads are a dim of several loop dims: those that keys have, and those that share one of them.
std::optional<Strategy> ContextSplit::exchanged(const Rule& rule, const Strategy& s, const Axes& axes) const {
  for (const std::vector<int>& heads : rule.results.front().dims) {
    if (heads.size() < 2) continue;
    Strategy tried = s;
    for (int loop : heads) {
      const std::int64_t left = rule.loops[at(loop)].size / mesh_->count(s.loops[at(loop)]);
      if (left == 1) continue;
      tried.loops[at(loop)] = s.loops[at(loop)].with(axes);
      if (!violation(rule, tried, *mesh_)) return tried;
      break;
    }
  }
  return std::nullopt;
}

}  // namespace shardwright
