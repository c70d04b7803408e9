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

std::string text_of(const ContextWays& ways) {
  Constraints said;
  said.context = ways;
  return constraint_word("context").print(said, "context");
}

/// Elements of all that an exchange moves, and of what goes round.
struct Sent {
  double everything = 0, goes_round = 0;
};
/// But for masks, which are made where they are read.
Sent sent_of(const Rule& rule, int round) {
  Sent out;
  const auto add = [&](const RuleTensor& tensor) {
    out.everything += elements_of(rule, tensor);
    if (has_loop(tensor, round)) out.goes_round += elements_of(rule, tensor);
  };
  for (std::size_t i = 0; i < rule.operands.size(); ++i)
    if (keys_of_mask(rule, i, round) < 0) add(rule.operands[i]);
  std::ranges::for_each(rule.results, add);
  return out;
}

}  // namespace

bool has_round(const Rule& rule) {
  return std::ranges::any_of(rule.loops, [](const LoopDim& l) { return l.kind == LoopKind::round; });
}

bool is_part_of(int exchanged, int context) { return context % exchanged == 0 && exchanged < context; }

std::vector<int> context_parts(const Constraints& asked) {
  const int context = asked.degrees.sharing(Sharing::sequence);
  const int inner = asked.context.value_or(ContextWays()).exchanged;
  if (inner == 1 || context == 1) return {context};
  if (!is_part_of(inner, context))
    throw error("context={}: {} should be a part of cp={}{}", text_of(*asked.context), inner, context,
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

void ContextSplit::around(const Node& node, const Rule& rule, Strategy& s) {
  if (axes_.empty()) return;
  const RoundDims dims = round_dims(node, rule);
  if (dims.asking < 0) return;
  splits_ = has_ways_ = true;
  Ways ways{.parted = parted(node, rule, s, axes_), .exchanged = exchanged(rule, s, axes_), .both = {}};
  if (const auto heads = axes_.size() > 1 ? exchanged(rule, s, inner()) : std::nullopt)
    ways.both = parted(node, rule, *heads, axes_.without(inner()));
  if (asked_)
    take_asked(node, std::move(ways), s);
  else
    take_least(rule, dims.round, std::move(ways), s);
}

void ContextSplit::take_parted(Parted parted, bool goes_round, bool has_heads, Strategy& s) {
  s = goes_round ? *std::move(parted.round) : std::move(parted.gathered);
  why_ = fmt::format("{}by the sequence, keys {}", has_heads ? "by heads, and " : "",
                     goes_round ? "go round" : "are gathered");
}

void ContextSplit::take_exchanged(Strategy exchanged, Strategy& s) {
  s = std::move(exchanged);
  why_ = "by heads, of the whole sequence";
}

void ContextSplit::take_asked(const Node& node, Ways ways, Strategy& s) {
  const std::string& name = graph_->value(node.results.front()).name;
  const std::string said = "context=" + text_of(*asked_);
  const bool has_heads = asked_->exchanged > 1, goes_round = asked_->way == ContextWay::ring;
  if (has_heads ? !ways.both : asked_->way == ContextWay::exchange && !ways.exchanged)
    throw error("{}: {} does not divide the heads of {} on each device; use context=ring", said,
                has_heads ? fmt::format("{}", asked_->exchanged) : fmt::format("cp={}", mesh_->count(axes_)),
                name);
  if (asked_->way == ContextWay::exchange) return take_exchanged(*std::move(ways.exchanged), s);
  Parted parted = has_heads ? *std::move(ways.both) : std::move(ways.parted);
  if (goes_round && !parted.round) throw error("{}: {}: {}; leave context out", said, name, parted.why);
  take_parted(std::move(parted), goes_round, has_heads, s);
}

/// What goes round is sent once to each of the others; an exchange moves nearly all of a part of everything.
void ContextSplit::take_least(const Rule& rule, int round, Ways ways, Strategy& s) {
  const auto [everything, goes_round] = sent_of(rule, round);
  const int parts = mesh_->count(axes_);
  if (ways.exchanged && (!ways.parted.round || everything < parts * goes_round))
    return take_exchanged(*std::move(ways.exchanged), s);
  const auto both = [&](int among) {
    return everything * (among - 1) / among + goes_round * (parts / among - 1);
  };
  const double alone = goes_round * (parts - 1);
  const int heads = heads_of_keys(rule, s, round);
  if (const int among = std::gcd(heads, parts); axes_.size() == 1 && among < parts && both(among) < alone)
    exchanged_ = std::max(exchanged_, among);
  const bool has_heads =
      ways.both && heads % mesh_->count(inner()) == 0 && both(mesh_->count(inner())) < alone;
  Parted parted = has_heads ? *std::move(ways.both) : std::move(ways.parted);
  const bool may_go_round = parted.round.has_value();
  take_parted(std::move(parted), may_go_round, has_heads, s);
}

/// Heads are a dim of several loop dims: those that keys have, and those that share one of them. The first with parts left.
int ContextSplit::head_loop(const Rule& rule, const Strategy& s) const {
  for (const std::vector<int>& heads : rule.results.front().dims) {
    if (heads.size() < 2) continue;
    for (int loop : heads)
      if (rule.loops[at(loop)].size > mesh_->count(s.loops[at(loop)])) return loop;
  }
  return -1;
}

/// Those that each device has; 1: queries of one head of keys are all that could be split, and these all need its keys.
int ContextSplit::heads_of_keys(const Rule& rule, const Strategy& s, int round) const {
  const int loop = head_loop(rule, s);
  const bool have_keys = loop >= 0 && std::ranges::any_of(rule.operands, [&](const RuleTensor& tensor) {
                           return has_loop(tensor, round) && has_loop(tensor, loop);
                         });
  return have_keys ? static_cast<int>(rule.loops[at(loop)].size / mesh_->count(s.loops[at(loop)])) : 1;
}

std::optional<Strategy> ContextSplit::exchanged(const Rule& rule, const Strategy& s, const Axes& axes) const {
  const int loop = head_loop(rule, s);
  if (loop < 0) return std::nullopt;
  Strategy out = s;
  out.loops[at(loop)] = s.loops[at(loop)].with(axes);
  if (rule.loops[at(loop)].size % mesh_->count(out.loops[at(loop)])) return std::nullopt;
  return violation(rule, out, *mesh_) ? std::nullopt : std::optional(std::move(out));
}

}  // namespace shardwright
