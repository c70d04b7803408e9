#include "shardwright/search/space/cuts.h"

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/base/random.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/op.h"

namespace shardwright::space {
namespace {

/// The dim of `tensor` that `loop` is behind, or -1.
int dim_of(const RuleTensor& tensor, int loop) {
  for (std::size_t d = 0; d < tensor.dims.size(); ++d)
    for (int l : tensor.dims[d])
      if (l == loop) return static_cast<int>(d);
  return -1;
}

std::vector<double> elements(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<double> out;
  for (ValueId v : values) out.push_back(static_cast<double>(element_count(graph.value(v).type.shape)));
  return out;
}

std::uint64_t hash_of(const Layout& layout) { return std::hash<Layout>()(layout); }

std::uint64_t hash_of(const Strategy& strategy) {
  std::vector<Axes> all = strategy.loops;
  all.insert(all.end(), strategy.linear.begin(), strategy.linear.end());
  return hash_of(Layout{.dims = std::move(all), .mesh = strategy.mesh});
}

/// Nodes that the user treats differently are not alike.
std::vector<std::uint64_t> labels_of(const Graph& graph, const FixedChoices& fixed) {
  std::vector<std::uint64_t> out(graph.nodes.size(), 0);
  for (std::size_t n = 0; n < out.size(); ++n)
    if (fixed.strategies[n]) out[n] = splitmix64(hash_of(*fixed.strategies[n]) + 1);
  for (const auto& [v, layout] : fixed.layouts)
    out[at(graph.value(v).producer.index)] ^= splitmix64(hash_of(layout) + 2);
  return out;
}

/// In `(h d)`, d may be cut only where h is cut down to 1.
bool is_behind_a_whole_dim(const CutPart& part, const RuleTensor& tensor, int loop) {
  for (const auto& loops : tensor.dims) {
    const auto it = std::find(loops.begin(), loops.end(), loop);
    for (auto major = loops.begin(); it != loops.end() && major != it; ++major)
      if (part.parts[at(*major)] != part.rule->loops[at(*major)].size) return true;
  }
  return false;
}

/// A dim that a window slides over must be cut evenly too, and every part read something.
bool breaks_a_window(const RuleTensor& tensor, int loop, int parts) {
  for (std::size_t d = 0; d < tensor.windows.size(); ++d) {
    const Window& w = tensor.windows[d];
    if (w.loop == 0 || tensor.dims[d].front() != loop) continue;
    if (tensor.shape[d] % parts) return true;
    for (int i = 0; i < parts; ++i)
      if (const Range r = w.of(tensor.shape[d], parts, i); r.begin == r.end) return true;
  }
  return false;
}

}  // namespace

bool are_layers_folded(const SearchOptions& options) {
  const bool is_said = options.said.test(static_cast<std::size_t>(Setting::fold_layers));
  return options.fold_layers && (is_said || !options.is_described);
}

Fold fold_of(const Problem& problem, bool folds_layers) {
  const std::vector<std::uint64_t> labels = labels_of(*problem.graph, problem.fixed);
  return fold(*problem.graph, *problem.calls, {.is_on = folds_layers, .labels = labels});
}

bool is_followed(const Problem& problem, const SearchOptions& options, const CutValue& v) {
  return options.elementwise_follow && !v.asked &&
         problem.graph->node(problem.graph->value(v.example).producer).op->block;
}

CutProblem::CutProblem(const Graph& graph, const Calls& calls, const Fold& fold, const FixedChoices& fixed)
    : graph_(&graph) {
  collect_parts(calls, fold, fixed);
  collect_values(fold, fixed);
}

void CutProblem::collect_parts(const Calls& calls, const Fold& fold, const FixedChoices& fixed) {
  std::vector<int> part_of_class(at(fold.size()), -1);
  for (int c = 0; c < fold.size(); ++c) {
    const NodeId id = fold.members[at(c)].front();
    if (graph_->node(id).op->kind != OpKind::compute) continue;
    part_of_class[at(c)] = static_cast<int>(parts_.size());
    const Rule& rule = calls.rule(id);
    CutPart part{.example = id,
                 .count = static_cast<double>(fold.members[at(c)].size()),
                 .rule = &rule,
                 .strategy = whole(rule),
                 .parts = std::vector<int>(rule.loops.size(), 1),
                 .operands = elements(*graph_, graph_->node(id).operands),
                 .results = elements(*graph_, graph_->node(id).results),
                 .fixed = fixed.strategies[at(id.index)]};
    part.is_elsewhere = part.fixed && part.fixed->mesh != 0;
    parts_.push_back(std::move(part));
  }
  part_of_.assign(graph_->nodes.size(), -1);
  for (std::size_t n = 0; n < part_of_.size(); ++n)
    if (fold.class_of[n] >= 0) part_of_[n] = part_of_class[at(fold.class_of[n])];
}

void CutProblem::collect_values(const Fold& fold, const FixedChoices& fixed) {
  std::vector<bool> has_gradient(graph_->values.size(), false), gives_rows = has_gradient;
  for (const Node& node : graph_->nodes)
    if (updates_rows(node)) gives_rows[at(node.operands[0].index)] = true;
  for (const Value& v : graph_->values)
    for (ValueId of : v.gradient_of) has_gradient[at(of.index)] = true;
  constexpr int most_results = 8;
  std::vector<int> value_of(at(fold.size() * most_results), -1);
  const auto known = [&](ValueId v) -> CutValue& {
    const Value& value = graph_->value(v);
    const int c = fold.class_of[at(value.producer.index)];
    int& index = value_of[at(c * most_results + std::min(value.result, most_results - 1))];
    if (index < 0) {
      index = static_cast<int>(values_.size());
      const Node& producer = graph_->node(value.producer);
      const auto asked = fixed.layouts.find(v);
      values_.push_back(
          {.example = v,
           .count = static_cast<double>(fold.members[at(c)].size()),
           .producer = part_of(value.producer),
           .result = value.result,
           .uses = {},
           .has_gradient = has_gradient[at(v.index)],
           .gives_rows = gives_rows[at(v.index)],
           .is_parameter = producer.op->kind == OpKind::parameter,
           .asked = asked == fixed.layouts.end() ? std::nullopt : std::optional(asked->second)});
    }
    return values_[at(index)];
  };
  for (NodeId id : graph_->node_ids()) {
    const int part = part_of(id);
    if (part < 0) continue;
    const Node& node = graph_->node(id);
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      auto& uses = known(node.operands[i]).uses;
      const auto it = std::find_if(uses.begin(), uses.end(), [&](const CutUse& u) {
        return u.part == part && u.operand == static_cast<int>(i);
      });
      if (it == uses.end())
        uses.push_back({part, static_cast<int>(i), 1});
      else
        ++it->count;
    }
    for (ValueId v : node.results) known(v);
  }
}

bool CutProblem::can_cut(const CutPart& part, int loop, int parts) const {
  const LoopDim& dim = part.rule->loops[at(loop)];
  const int all = part.parts[at(loop)] * parts;
  if (dim.stays_whole() || dim.size % all) return false;
  for (const auto* side : {&part.rule->operands, &part.rule->results})
    for (const RuleTensor& tensor : *side)
      if (is_behind_a_whole_dim(part, tensor, loop) || breaks_a_window(tensor, loop, all)) return false;
  return true;
}

std::vector<int> CutProblem::choices(int p, const Halving& halving) const {
  const CutPart& part = this->part(p);
  const int loops = static_cast<int>(part.rule->loops.size());
  if (part.fixed) {
    for (int l = 0; l < loops && !part.is_elsewhere; ++l)
      if (part.fixed->loops[at(l)].contains(halving.axis)) return {l};
    return {no_loop_dim};
  }
  std::vector<int> out{no_loop_dim};
  for (int l = 0; l < loops; ++l)
    if (can_cut(part, l, halving.parts)) out.push_back(l);
  return out;
}

void CutProblem::cut(int p, int loop, const Halving& halving) {
  if (loop == no_loop_dim) return;
  parts_[at(p)].strategy.loops[at(loop)].push_back(halving.axis);
  divide(parts_[at(p)], loop, halving.parts);
}

void CutProblem::divide(CutPart& part, int loop, int parts) {
  part.parts[at(loop)] *= parts;
  for (std::size_t i = 0; i < part.operands.size(); ++i)
    if (dim_of(part.rule->operands[i], loop) >= 0) part.operands[i] /= parts;
  for (std::size_t i = 0; i < part.results.size(); ++i)
    if (dim_of(part.rule->results[i], loop) >= 0) part.results[i] /= parts;
}

void CutProblem::set(int p, const Strategy& strategy, const Mesh& mesh) {
  CutPart& part = parts_[at(p)];
  const Node& node = graph_->node(part.example);
  part.strategy = strategy;
  part.parts.assign(part.rule->loops.size(), 1);
  part.operands = elements(*graph_, node.operands);
  part.results = elements(*graph_, node.results);
  for (std::size_t l = 0; l < strategy.loops.size(); ++l)
    if (const int parts = mesh.count(strategy.loops[l]); parts > 1) divide(part, static_cast<int>(l), parts);
}

Cut CutProblem::operand_cut(int p, int operand, int loop) const {
  return loop == no_loop_dim ? not_cut : dim_of(part(p).rule->operands[at(operand)], loop);
}

Cut CutProblem::gradient_cut(int p, int operand, int loop) const {
  const Cut cut = operand_cut(p, operand, loop);
  return loop != no_loop_dim && cut == not_cut ? partial_cut : cut;
}

Cut CutProblem::result_cut(int p, int result, int loop) const {
  if (loop == no_loop_dim) return not_cut;
  const int dim = dim_of(part(p).rule->results[at(result)], loop);
  return dim < 0 ? partial_cut : dim;
}

bool CutProblem::shards_a_parameter(int p, int loop) const {
  const Node& node = graph_->node(part(p).example);
  for (std::size_t i = 0; i < node.operands.size(); ++i)
    if (graph_->node(graph_->value(node.operands[i]).producer).op->kind == OpKind::parameter &&
        operand_cut(p, static_cast<int>(i), loop) >= 0)
      return true;
  return false;
}

double CutProblem::extent(int p, int loop) const {
  return static_cast<double>(part(p).rule->loops[at(loop)].size) / part(p).parts[at(loop)];
}

}  // namespace shardwright::space
