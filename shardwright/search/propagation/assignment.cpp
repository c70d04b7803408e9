#include "shardwright/search/propagation/assignment.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "shardwright/base/index.h"
#include "shardwright/graph/forward_operator.h"
#include "shardwright/graph/op.h"
#include "shardwright/layout/uneven.h"
#include "shardwright/plan/batch.h"
#include "shardwright/search/space/candidates.h"

namespace shardwright::propagation {
namespace {

/// On meshes of at most so many axes all strategies are listed; their number grows as (loop dims + 1)^axes.
constexpr int most_listed_axes = 3;

/// The price of a redistribution that the user does not want: above all that are real.
constexpr double unwanted_seconds = 1e3;

}  // namespace

Assignment::Assignment(const Problem& problem, const SearchOptions& options)
    : problem_(problem),
      options_(options),
      graph_(*problem.graph),
      chosen_(graph_.nodes.size(), -1),
      is_fixed_(graph_.nodes.size(), false),
      candidates_(graph_.nodes.size()),
      edges_(graph_.nodes.size()),
      readers_(graph_.values.size()),
      readers_as_(graph_.values.size()) {
  collect();
}

void Assignment::collect() {
  for (NodeId id : graph_.node_ids()) {
    const Node& node = graph_.node(id);
    if (!is_forward_operator(node)) continue;
    nodes_.push_back(id.index);
    collect_candidates(id);
    for (ValueId v : node.operands) readers_[at(v.index)].push_back(id.index);
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const Value& v = graph_.value(node.operands[i]);
      if (graph_.node(v.producer).op->kind != OpKind::compute) continue;
      const Edge in{v.producer.index, static_cast<int>(i), v.result, true, node.operands[i]};
      edges_[at(id.index)].push_back(in);
      edges_[at(v.producer.index)].push_back({id.index, in.operand, in.result, false, in.value});
    }
  }
}

void Assignment::collect_candidates(NodeId id) {
  const Node& node = graph_.node(id);
  const Rule rule = rule_of(graph_, node);
  auto& out = candidates_[at(id.index)];
  if (const auto& fixed = problem_.fixed.strategies[at(id.index)]) {
    out.push_back(candidate(node, rule, *fixed));
    is_fixed_[at(id.index)] = true;
    return;
  }
  for (const Strategy& s : space::candidates_of(problem_, problem_.fixed, id, rule, options_,
                                                {.all_orders = true, .most_axes = most_listed_axes}))
    out.push_back(candidate(node, rule, s));
}

bool Assignment::lists_all() const {
  return std::ranges::all_of(problem_.fixed.meshes,
                             [](const Mesh& m) { return m.axis_count() <= most_listed_axes; });
}

void Assignment::add(int n, const Rule& rule, const Strategy& s) {
  auto& all = candidates_[at(n)];
  const bool is_known =
      std::any_of(all.begin(), all.end(), [&](const Candidate& k) { return k.strategy == s; });
  if (!is_known && space::is_allowed(problem_, problem_.fixed, NodeId{n}, rule, s, options_))
    all.push_back(candidate(graph_.nodes[at(n)], rule, s));
}

void Assignment::add_suggested(int n) {
  if (lists_all() || is_fixed_[at(n)]) return;
  const Node& node = graph_.nodes[at(n)];
  const Rule rule = rule_of(graph_, node);
  Strategy together = whole(rule);
  const auto suggest = [&](const RuleTensor& tensor, const Layout& layout) {
    Strategy alone = whole(rule);
    alone.mesh = layout.mesh;
    follow(alone, rule, tensor, layout);
    if (used_axes(alone).empty()) return;
    add(n, rule, alone);
    if (used_axes(together).empty()) together.mesh = layout.mesh;
    if (together.mesh == layout.mesh) follow(together, rule, tensor, layout);
  };
  for (const Edge& e : edges_[at(n)]) {
    if (!is_decided(e.node)) continue;
    if (e.is_incoming)
      suggest(rule.operands[at(e.operand)], offered(choice(e.node), e));
    else
      suggest(rule.results[at(e.result)], reduced(choice(e.node).layouts.operands[at(e.operand)]));
  }
  for (std::size_t i = 0; i < node.operands.size(); ++i)
    if (const Layout* data = leaf_layout(node.operands[i])) suggest(rule.operands[i], *data);
  if (!used_axes(together).empty()) add(n, rule, together);
}

void Assignment::follow(Strategy& s, const Rule& rule, const RuleTensor& tensor, const Layout& layout) const {
  const Mesh& mesh = problem_.fixed.meshes[at(layout.mesh)];
  for (std::size_t d = 0; d < tensor.dims.size() && d < layout.dims.size(); ++d) {
    if (tensor.dims[d].empty() || layout.dims[d].empty()) continue;
    Strategy wider = s;
    wider.loops[at(tensor.dims[d].front())] = layout.dims[d];
    if (!violation_if_even(rule, wider, mesh)) s = std::move(wider);
  }
}

Candidate Assignment::candidate(const Node& node, const Rule& rule, const Strategy& s) {
  Candidate c{.strategy = s, .layouts = layouts_of(rule, s)};
  for (std::size_t i = 0; i < node.results.size(); ++i)
    if (c.layouts.results[i].is_partial())
      c.own_seconds += communication(c.layouts.results[i], reduced(c.layouts.results[i]), node.results[i]);
  c.points = 1;
  const Mesh& mesh = problem_.fixed.meshes[at(s.mesh)];
  for (std::size_t l = 0; l < rule.loops.size(); ++l)
    c.points *= static_cast<double>(rule.loops[l].size) / mesh.count(s.loops[l]);
  return c;
}

bool Assignment::is_parameter(ValueId v) const {
  return graph_.node(graph_.value(v).producer).op->kind == OpKind::parameter;
}

void Assignment::seed_by_batch() {
  const Mesh& mesh = problem_.fixed.meshes[0];
  for (const Node& node : graph_.nodes) {
    const std::vector<std::size_t> dims = batch_dims_of_leaf(graph_, node);
    if (node.op->kind != OpKind::input && dims.empty()) continue;
    const Shape& shape = graph_.value(node.results[0]).type.shape;
    Layout layout = replicated(shape.size());
    for (int a = 0; !dims.empty() && a < mesh.axis_count(); ++a) {
      Axes& axes = layout.dims[dims.front()];
      if (shape[dims.front()] % (mesh.count(axes) * mesh.size_of(a)) == 0) axes.push_back(a);
    }
    data_[node.results[0]] = layout;
  }
}

const Layout* Assignment::leaf_layout(ValueId v) const {
  const auto own = data_.find(v);
  if (own != data_.end()) return &own->second;
  if (graph_.node(graph_.value(v).producer).op->kind == OpKind::compute) return nullptr;
  const auto asked = problem_.fixed.layouts.find(v);
  return asked == problem_.fixed.layouts.end() ? nullptr : &asked->second;
}

double Assignment::communication(const Layout& from, const Layout& to, ValueId v) {
  double seconds = 0;
  for (const Step& step : problem_.redistributor->find(from, to, graph_.value(v).type).steps)
    if (!is_local(step.kind)) seconds += step.seconds;
  return seconds;
}

double Assignment::local_copies(const Layout& from, const Layout& to, ValueId v) {
  double seconds = 0;
  for (const Step& step : problem_.redistributor->find(from, to, graph_.value(v).type).steps)
    if (is_local(step.kind)) seconds += step.seconds;
  return seconds;
}

double Assignment::unwanted(const Layout& from, const Layout& to, ValueId v) {
  const bool is_pointwise = static_cast<bool>(graph_.node(graph_.value(v).producer).op->block);
  if (!options_.elementwise_follow || !is_pointwise) return 0;
  return problem_.redistributor->find(from, to, graph_.value(v).type).steps.empty() ? 0 : unwanted_seconds;
}

Layout Assignment::offered(const Candidate& producer, const Edge& e) const {
  const auto asked = problem_.fixed.layouts.find(e.value);
  if (asked != problem_.fixed.layouts.end()) return asked->second;
  return reduced(producer.layouts.results[at(e.result)]);
}

Price Assignment::price(int n, const Candidate& c) {
  double moves = 0, copies = 0;
  const auto add = [&](const Layout& from, const Layout& to, ValueId v) {
    moves += communication(from, to, v) + unwanted(from, to, v);
    copies += local_copies(from, to, v);
  };
  for (const Edge& e : edges_[at(n)]) {
    if (!is_decided(e.node)) continue;
    if (e.is_incoming)
      add(offered(choice(e.node), e), c.layouts.operands[at(e.operand)], e.value);
    else
      add(offered(c, e), choice(e.node).layouts.operands[at(e.operand)], e.value);
  }
  const Node& node = graph_.nodes[at(n)];
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    if (const Layout* data = leaf_layout(node.operands[i]))
      add(*data, c.layouts.operands[i], node.operands[i]);
    if (const Layout* other = nearest_at_other_users(n, node.operands[i], c.layouts.operands[i]))
      add(*other, c.layouts.operands[i], node.operands[i]);
  }
  const auto ns = [](double seconds) { return std::round(seconds * 1e9); };
  return {ns(moves), ns(c.own_seconds), ns(copies), c.points};
}

const Layout* Assignment::nearest_at_other_users(int n, ValueId v, const Layout& to) {
  if (!comes_as_wanted(v)) return nullptr;
  const Layout* nearest = nullptr;
  std::pair<double, double> least;
  for (const auto& [layout, readers] : readers_as_[at(v.index)]) {
    if (readers == 1 && is_decided(n) && reads(n, v, layout)) continue;
    const std::pair price{communication(layout, to, v), local_copies(layout, to, v)};
    if (nearest && price >= least) continue;
    nearest = &layout;
    least = price;
  }
  return nearest;
}

bool Assignment::comes_as_wanted(ValueId v) const {
  return graph_.node(graph_.value(v).producer).op->kind != OpKind::compute && !leaf_layout(v);
}

bool Assignment::reads(int n, ValueId v, const Layout& layout) const {
  bool out = false;
  for_each_read(n, [&](ValueId w, const Layout& l) { out = out || (w == v && l == layout); });
  return out;
}

void Assignment::choose(int n, int candidate) {
  if (is_decided(n))
    for_each_read(n, [this](ValueId v, const Layout& layout) {
      auto& readers = readers_as_[at(v.index)];
      if (--readers.at(layout) == 0) readers.erase(layout);
    });
  chosen_[at(n)] = candidate;
  for_each_read(n, [this](ValueId v, const Layout& layout) { ++readers_as_[at(v.index)][layout]; });
}

std::set<int> Assignment::witnesses(int n) const {
  std::set<int> out{n};
  for (const Edge& e : edges_[at(n)]) out.insert(e.node);
  for_each_read(n, [&](ValueId v, const Layout& layout) {
    if (readers_as_[at(v.index)].at(layout) <= 2)
      out.insert(readers_[at(v.index)].begin(), readers_[at(v.index)].end());
  });
  return out;
}

}  // namespace shardwright::propagation
