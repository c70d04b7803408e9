#include "shardwright/plan/complete.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <unordered_map>

#include "shardwright/autodiff/accumulate.h"
#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/numbers.h"
#include "shardwright/plan/update_wishes.h"

namespace shardwright {
namespace {

constexpr int no_loop = -1;
using DimLoops = std::vector<std::vector<int>>;  // per tensor dim the loop dims of the forward node behind it

Axes common(const Axes& a, const Axes& b) { return a.without(a.without(b)); }

/// One call under one strategy, and the numbers of the layouts that follow. Many nodes share one.
struct Form {
  Strategy strategy;
  std::vector<int> operands;
  std::vector<int> results;
};

class Completion {
 public:
  Completion(Graph& graph, Redistributor& redistributor, const std::map<ValueId, Layout>& update_layouts,
             const Calls& calls)
      : graph_(graph),
        redistributor_(redistributor),
        update_layouts_(update_layouts),
        calls_(calls),
        form_of_(graph.nodes.size(), -1),
        layouts_(graph.values.size(), -1),
        passed_on_(graph.values.size(), -1),
        existing_(graph.values.size()),
        is_added_(graph.values.size(), false) {}

  void run() {
    lay_out_states(graph_);
    wishes_ = update_wishes(graph_, update_layouts_);
    for (const Node& node : graph_.nodes)
      if (is_gradient_sum(node))
        for (ValueId v : node.operands) is_added_[at(v.index)] = true;
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      const NodeId id{n};
      Node& node = graph_.node(id);
      if (node.op->kind != OpKind::compute) {
        const ValueId v = node.results.front();
        if (node.op->kind == OpKind::accumulator) continue;  // lies as what it adds up
        if (!graph_.value(v).layout) graph_.value(v).layout = leaf_layout(node);
        settle(v, layout_numbers_.of(*graph_.value(v).layout));
        continue;
      }
      const int form = node.strategy ? form_for(id, *node.strategy) : choose(id);
      if (!node.strategy) node.strategy = forms_[at(form)].strategy;
      settle_node(id, form);
    }
  }

 private:
  const Rule& rule(NodeId id) const { return calls_.rule(id); }
  const Layout& layout(ValueId v) const { return layout_numbers_[layouts_[at(v.index)]]; }
  LayoutOf layouts_now() const {
    return [this](ValueId v) -> const Layout& { return layout(v); };
  }

  /// A gradient is received as the value lies whose gradient it is.
  Layout leaf_layout(const Node& node) const {
    const Value& v = graph_.value(node.results.front());
    if (node.op->kind != OpKind::receive || v.gradient_of.empty()) return replicated(v.type.shape.size());
    return without_halo(reduced(layout(v.gradient_of.front())));
  }

  bool is_gradient_sum(const Node& node) const {
    return node.phase != Phase::forward && !node.forward.is_valid() && node.operands.size() > 1 &&
           node.op->kind == OpKind::compute && !graph_.value(node.results.front()).gradient_of.empty();
  }

  /// The form in which `id` takes `strategy`. Throws: Error if that is not legal.
  int form_for(NodeId id, const Strategy& strategy) {
    const auto [it, is_new] =
        known_forms_.try_emplace({calls_.of(id), strategy}, static_cast<int>(forms_.size()));
    if (!is_new) return it->second;
    const Mesh& mesh = redistributor_.meshes()[at(strategy.mesh)];
    if (const auto why = violation_as_asked(rule(id), strategy, mesh))
      throw error("{}: {}", graph_.name_of(id), *why);
    Form form{.strategy = strategy, .operands = {}, .results = {}};
    const NodeLayouts layouts = layouts_of(rule(id), strategy);
    for (const Layout& l : layouts.operands) form.operands.push_back(layout_numbers_.of(l));
    for (const Layout& l : layouts.results) form.results.push_back(layout_numbers_.of(l));
    forms_.push_back(std::move(form));
    return it->second;
  }

  int choose(NodeId id) {
    const Node& node = graph_.node(id);
    if (is_accumulation(graph_, node)) return of_accumulation(id);
    if (node.phase == Phase::forward)
      throw error("{}: has no strategy; {{}} is that of a whole one", graph_.name_of(id));
    if (node.op->optimizer) return of_update(id);
    if (node.forward.is_valid()) return inherited(id);
    if (is_gradient_sum(node)) return of_gradient_sum(id);
    if (node.phase == Phase::update) return beside_update(id);
    return form_for(id, as_its_operand(graph_, node, rule(id), layouts_now()));
  }

  void settle(ValueId v, int layout) {
    layouts_[at(v.index)] = layout;
    if (is_added_[at(v.index)]) existing_[at(v.index)] = {layout};
  }

  void settle_node(NodeId id, int number) {
    const Node& node = graph_.node(id);
    const Form& form = forms_[at(number)];
    form_of_[at(id.index)] = number;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      if (!is_added_[at(node.operands[i].index)]) continue;
      auto& known = existing_[at(node.operands[i].index)];
      if (layout_numbers_[form.operands[i]].has_halo()) continue;  // nothing leads away from it
      if (std::find(known.begin(), known.end(), form.operands[i]) == known.end())
        known.push_back(form.operands[i]);
    }
    for (std::size_t i = 0; i < node.results.size(); ++i) settle(node.results[i], form.results[i]);
  }

  // ---- backward nodes ----

  /// Where the loop dims behind the dims of `v` are to be found, if v is one of the values of `forward`, their
  /// gradients, or computed from those by other nodes that differentiate it.
  enum Source { nowhere, an_operand, a_result, passed_on };
  struct Behind {
    Source source = nowhere;
    int index = 0;
  };

  Behind behind(ValueId v, NodeId forward) const {
    const Node& node = graph_.node(forward);
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      if (node.operands[i] == v) return {an_operand, static_cast<int>(i)};
    const Value& value = graph_.value(v);
    for (std::size_t i = 0; i < node.results.size(); ++i)
      if (node.results[i] == v || is_gradient_of(value, node.results[i]))
        return {a_result, static_cast<int>(i)};
    if (passed_on_[at(v.index)] >= 0 && graph_.node(value.producer).forward == forward)
      return {passed_on, passed_on_[at(v.index)]};
    return {};
  }

  const DimLoops& loops_of(const Behind& behind, NodeId forward) const {
    static const DimLoops none;
    switch (behind.source) {
      case an_operand: return rule(forward).operands[at(behind.index)].dims;
      case a_result: return rule(forward).results[at(behind.index)].dims;
      case passed_on: return passed_[at(behind.index)];
      default: return none;
    }
  }

  static bool is_gradient_of(const Value& gradient, ValueId v) {
    return std::find(gradient.gradient_of.begin(), gradient.gradient_of.end(), v) !=
           gradient.gradient_of.end();
  }

  /// Per operand, then per result, of a backward node.
  std::vector<Behind> all_behind(const Node& node) const {
    std::vector<Behind> out;
    out.reserve(node.operands.size() + node.results.size());
    for (ValueId v : node.operands) out.push_back(behind(v, node.forward));
    // Dims that only the result has (a broadcast's) are those of the operand whose gradient it is.
    for (ValueId v : node.results) {
      Behind found;
      for (ValueId of : graph_.value(v).gradient_of)
        if (loops_of(found, node.forward).empty()) found = behind(of, node.forward);
      out.push_back(found);
    }
    return out;
  }

  /// What an inherited strategy is, and what it tells the nodes behind.
  struct Inheritance {
    int form = 0;
    std::vector<int> passed;  // per result, into passed_
  };

  int inherited(NodeId id) {
    const Node& node = graph_.node(id);
    const std::vector<Behind> found = all_behind(node);
    Key key{calls_.of(id), form_of_[at(node.forward.index)], calls_.of(node.forward)};
    for (const Behind& b : found) key.push_back(b.index * 4 + b.source);
    auto it = known_inheritances_.find(key);
    if (it == known_inheritances_.end())
      it = known_inheritances_.emplace(std::move(key), inheritance(id, found)).first;
    for (std::size_t i = 0; i < node.results.size(); ++i)
      passed_on_[at(node.results[i].index)] = it->second.passed[i];
    return it->second.form;
  }

  Inheritance inheritance(NodeId id, const std::vector<Behind>& found) {
    const Node& node = graph_.node(id);
    const Rule& own = rule(id);
    std::vector<int> source(own.loops.size(), no_loop);  // per own loop dim, that of the forward node
    const auto learn = [&](const RuleTensor& tensor, const DimLoops& dims) {
      for (std::size_t d = 0; dims.size() == tensor.dims.size() && d < dims.size(); ++d) {
        const auto& mine = tensor.dims[d];
        for (std::size_t k = 0; mine.size() == dims[d].size() && k < mine.size(); ++k)
          if (source[at(mine[k])] == no_loop) source[at(mine[k])] = dims[d][k];
      }
    };
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      learn(own.operands[i], loops_of(found[i], node.forward));
    for (std::size_t i = 0; i < node.results.size(); ++i)
      learn(own.results[i], loops_of(found[node.operands.size() + i], node.forward));
    Inheritance out{.form = form_for(id, restricted(id, source)), .passed = {}};
    for (const RuleTensor& result : own.results) {
      DimLoops dims;
      for (const auto& mine : result.dims) {
        auto& loops = dims.emplace_back();
        for (int l : mine) loops.push_back(source[at(l)]);
      }
      out.passed.push_back(static_cast<int>(passed_.size()));
      passed_.push_back(std::move(dims));
    }
    return out;
  }

  Strategy restricted(NodeId id, const std::vector<int>& source) const {
    const Node& node = graph_.node(id);
    const Strategy& forward = *graph_.node(node.forward).strategy;
    const Mesh& mesh = redistributor_.meshes()[at(forward.mesh)];
    Strategy out = whole(rule(id));
    out.mesh = forward.mesh;
    for (std::size_t l = 0; l < source.size(); ++l) {
      if (source[l] == no_loop) continue;
      Strategy wider = out;
      wider.loops[l] = forward.loops[at(source[l])];
      if (!violation_as_asked(rule(id), wider, mesh)) out = std::move(wider);
    }
    if (used_axes(out).empty()) out.mesh = 0;
    return out;
  }

  /// Seconds from the nearest existing layout of `v` to `to`.
  double cheapest(ValueId v, const Layout& to) {
    double best = -1;
    for (int from : existing_[at(v.index)]) {
      const double s = redistributor_.find(layout_numbers_[from], to, graph_.value(v).type).seconds;
      if (best < 0 || s < best) best = s;
    }
    return best;
  }

  /// The sum lies as the gradient comes out, even if that is partial; the accumulator lies as the sum does.
  int of_accumulation(NodeId id) {
    const Node& node = graph_.node(id);
    Value& accumulator = graph_.value(node.operands[0]);
    const Layout from = accumulator.layout ? *accumulator.layout : without_halo(layout(node.operands[1]));
    Strategy s = whole(rule(id));
    s.mesh = from.mesh;
    for (std::size_t d = 0; d < from.dims.size(); ++d)
      if (const int l = rule(id).results[0].dims[d][0]; !rule(id).loops[at(l)].stays_whole())
        s.loops[at(l)] = from.dims[d];
    if (!s.linear.empty()) s.linear[0] = from.sum;
    if (used_axes(s).empty()) s.mesh = 0;
    const int form = form_for(id, s);
    accumulator.layout = layout_numbers_[forms_[at(form)].results[0]];
    settle(node.operands[0], forms_[at(form)].results[0]);
    return form;
  }

  int of_gradient_sum(NodeId id) {
    const Node& node = graph_.node(id);
    Key key{calls_.of(id), layouts_[at(graph_.value(node.results.front()).gradient_of.front().index)]};
    for (ValueId v : node.operands) {
      key.push_back(-layouts_[at(v.index)] - 1);
      key.insert(key.end(), existing_[at(v.index)].begin(), existing_[at(v.index)].end());
    }
    const auto it = known_sums_.find(key);
    if (it != known_sums_.end()) return it->second;
    return known_sums_[std::move(key)] = form_for(id, gradient_sum(id));
  }

  Strategy gradient_sum(NodeId id) {
    const Node& node = graph_.node(id);
    const Value& result = graph_.value(node.results.front());
    const Layout goal = reduced(layout(result.gradient_of.front()));
    const Layout& first = layout(node.operands.front());
    Axes partial = first.sum;
    std::vector<Layout> candidates{goal};
    bool is_one_mesh = true;
    for (ValueId v : node.operands) {
      partial = common(partial, layout(v).sum);
      is_one_mesh = is_one_mesh && layout(v).mesh == first.mesh;
      const Layout as_it_is = reduced(layout(v));
      if (std::find(candidates.begin(), candidates.end(), as_it_is) == candidates.end())
        candidates.push_back(as_it_is);
    }
    std::optional<Strategy> best;
    std::tuple<double, std::int64_t, int> best_price{};
    for (const Layout& dims : candidates) {
      Strategy s = whole(rule(id));
      s.mesh = dims.mesh;
      for (std::size_t d = 0; d < dims.dims.size(); ++d)
        s.loops[at(rule(id).results[0].dims[d][0])] = dims.dims[d];
      if (is_one_mesh && (dims.used().empty() || dims.mesh == first.mesh)) {
        s.linear[0] = partial.without(dims.used());
        if (!s.linear[0].empty()) s.mesh = first.mesh;
      }
      const Mesh& mesh = redistributor_.meshes()[at(s.mesh)];
      if (violation(rule(id), s, mesh)) continue;
      const auto price = sum_price(id, s, goal);
      if (!best || price < best_price) {
        best = s;
        best_price = price;
      }
    }
    return best ? *best : whole(rule(id));
  }

  /// Redistribution in and on (rounded to picoseconds, so that equal sums tie), local bytes, collectives.
  std::tuple<double, std::int64_t, int> sum_price(NodeId id, const Strategy& s, const Layout& goal) {
    const Node& node = graph_.node(id);
    const Type& type = graph_.value(node.results.front()).type;
    const NodeLayouts layouts = layouts_of(rule(id), s);
    double seconds = 0;
    int collectives = 0;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      seconds += cheapest(node.operands[i], layouts.operands[i]);
      collectives +=
          redistributor_.find(layout(node.operands[i]), layouts.operands[i], type).collective_count();
    }
    const Redistribution& on = redistributor_.find(layouts.results[0], goal, type);
    const Mesh& mesh = redistributor_.mesh_of(layouts.results[0]);
    return {std::round((seconds + on.seconds) * 1e12),
            element_count(largest_local_shape(layouts.results[0], mesh, type.shape)),
            collectives + on.collective_count()};
  }

  // ---- updates ----

  int of_update(NodeId id) {
    const Node& node = graph_.node(id);
    const int number = layout_numbers_.of(layout_of_update(graph_, node, update_layouts_));
    const auto [it, is_new] = known_updates_.try_emplace(Key{calls_.of(id), number}, -1);
    if (!is_new) return it->second;
    const Layout& layout = layout_numbers_[number];
    Strategy s = whole(rule(id));
    s.mesh = layout.mesh;
    for (std::size_t d = 0; d < layout.dims.size(); ++d)
      s.loops[at(rule(id).operands[0].dims[d][0])] = layout.dims[d];
    return it->second = form_for(id, s);
  }

  /// What updates compute beside them: where they want what it reads or makes, else whole.
  int beside_update(NodeId id) {
    const Node& node = graph_.node(id);
    Strategy s = strategy_of_wishes(node, rule(id), wishes_)
                     .value_or(sum_of_partials(graph_, node, rule(id), layouts_now()));
    const Mesh& mesh = redistributor_.meshes()[at(s.mesh)];
    return form_for(id, violation(rule(id), s, mesh) ? whole(rule(id)) : s);
  }

  Graph& graph_;
  Redistributor& redistributor_;
  const std::map<ValueId, Layout>& update_layouts_;
  const Calls& calls_;
  std::vector<Form> forms_;
  std::unordered_map<StrategyKey, int, StrategyKeyHash> known_forms_;
  Numbers<Layout> layout_numbers_;
  std::vector<int> form_of_;                // per node
  std::vector<int> layouts_;                // in which each value is produced
  std::vector<DimLoops> passed_;            // loop dims of the forward node behind the dims of a result
  std::vector<int> passed_on_;              // per value, into passed_
  std::vector<std::vector<int>> existing_;  // layouts in which it will exist, as lowering shares them
  std::vector<bool> is_added_;              // per value: a gradient that is added to others
  std::unordered_map<Key, Inheritance, KeyHash> known_inheritances_;
  std::unordered_map<Key, int, KeyHash> known_sums_, known_updates_;
  std::map<ValueId, Layout> wishes_;  // of the update
};

}  // namespace

void complete(Graph& graph, Redistributor& redistributor, const std::map<ValueId, Layout>& update_layouts,
              const Calls& calls) {
  Completion(graph, redistributor, update_layouts, calls).run();
}

void complete(Graph& graph, Redistributor& redistributor, const std::map<ValueId, Layout>& update_layouts) {
  complete(graph, redistributor, update_layouts, Calls(graph));
}

}  // namespace shardwright
