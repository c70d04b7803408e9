#include "shardwright/plan/complete.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

constexpr int no_loop = -1;
using DimLoops = std::vector<std::vector<int>>;  // per tensor dim the loop dims of the forward node behind it

Axes common(const Axes& a, const Axes& b) { return a.without(a.without(b)); }

class Completion {
 public:
  Completion(Graph& graph, Redistributor& redistributor, const std::map<ValueId, Layout>& update_layouts)
      : graph_(graph),
        redistributor_(redistributor),
        update_layouts_(update_layouts),
        rules_(graph.nodes.size()),
        layouts_(graph.values.size()),
        existing_(graph.values.size()) {}

  void run() {
    lay_out_states();
    for (NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      if (node.op->kind != OpKind::compute) {
        const ValueId v = node.results.front();
        if (!graph_.value(v).layout) graph_.value(v).layout = replicated(graph_.value(v).type.shape.size());
        settle(v, *graph_.value(v).layout);
        continue;
      }
      rules_[at(id.index)] = rule_of(graph_, node);
      if (!node.strategy) graph_.node(id).strategy = choose(id);
      settle_node(id);
    }
  }

 private:
  const Rule& rule(NodeId id) const { return rules_[at(id.index)]; }

  Strategy choose(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.phase == Phase::forward)
      throw error("{}: has no strategy; {{}} is that of a whole one", graph_.name_of(id));
    if (node.op->optimizer) return of_update(id);
    if (node.forward.is_valid()) return inherited(id);
    const Value& result = graph_.value(node.results.front());
    if (node.phase == Phase::backward && !result.gradient_of.empty() && node.operands.size() > 1)
      return of_gradient_sum(id);
    return whole(rule(id));
  }

  void settle(ValueId v, const Layout& layout) {
    layouts_[at(v.index)] = layout;
    existing_[at(v.index)] = {layout};
  }

  void settle_node(NodeId id) {
    const Node& node = graph_.node(id);
    const Mesh& mesh = redistributor_.meshes()[at(node.strategy->mesh)];
    if (const auto why = violation(rule(id), *node.strategy, mesh))
      throw error("{}: {}", graph_.name_of(id), *why);
    const NodeLayouts layouts = layouts_of(rule(id), *node.strategy);
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      auto& known = existing_[at(node.operands[i].index)];
      if (layouts.operands[i].has_halo()) continue;  // nothing leads away from it
      if (std::find(known.begin(), known.end(), layouts.operands[i]) == known.end())
        known.push_back(layouts.operands[i]);
    }
    for (std::size_t i = 0; i < node.results.size(); ++i) settle(node.results[i], layouts.results[i]);
  }

  // ---- backward nodes ----

  /// Loop dims of `forward` behind the dims of `v`, if v is one of its values, their gradients, or computed
  /// from those by other nodes that differentiate it.
  DimLoops loops_behind(ValueId v, NodeId forward) const {
    const Node& node = graph_.node(forward);
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      if (node.operands[i] == v) return rule(forward).operands[i].dims;
    const Value& value = graph_.value(v);
    for (std::size_t i = 0; i < node.results.size(); ++i)
      if (node.results[i] == v || is_gradient_of(value, node.results[i]))
        return rule(forward).results[i].dims;
    const auto known = passed_on_.find(v);
    return known != passed_on_.end() && graph_.node(value.producer).forward == forward ? known->second
                                                                                       : DimLoops{};
  }

  static bool is_gradient_of(const Value& gradient, ValueId v) {
    return std::find(gradient.gradient_of.begin(), gradient.gradient_of.end(), v) !=
           gradient.gradient_of.end();
  }

  Strategy inherited(NodeId id) {
    const Node& node = graph_.node(id);
    const Rule& own = rule(id);
    std::vector<int> source(own.loops.size(), no_loop);  // per own loop dim, that of the forward node
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const DimLoops behind = loops_behind(node.operands[i], node.forward);
      if (behind.size() != own.operands[i].dims.size()) continue;
      for (std::size_t d = 0; d < behind.size(); ++d) {
        const auto& mine = own.operands[i].dims[d];
        for (std::size_t k = 0; mine.size() == behind[d].size() && k < mine.size(); ++k)
          if (source[at(mine[k])] == no_loop) source[at(mine[k])] = behind[d][k];
      }
    }
    // Dims that only the result has (a broadcast's) are those of the operand whose gradient it is.
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      DimLoops behind;
      for (ValueId of : graph_.value(node.results[i]).gradient_of)
        if (behind.empty()) behind = loops_behind(of, node.forward);
      if (behind.size() != own.results[i].dims.size()) continue;
      for (std::size_t d = 0; d < behind.size(); ++d) {
        const auto& mine = own.results[i].dims[d];
        for (std::size_t k = 0; mine.size() == behind[d].size() && k < mine.size(); ++k)
          if (source[at(mine[k])] == no_loop) source[at(mine[k])] = behind[d][k];
      }
    }
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      DimLoops passed;
      for (const auto& mine : own.results[i].dims) {
        auto& loops = passed.emplace_back();
        for (int l : mine) loops.push_back(source[at(l)]);
      }
      passed_on_[node.results[i]] = std::move(passed);
    }
    return restricted(id, source);
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
      if (!violation(rule(id), wider, mesh)) out = std::move(wider);
    }
    if (used_axes(out).empty()) out.mesh = 0;
    return out;
  }

  /// Seconds from the nearest existing layout of `v` to `to`.
  double cheapest(ValueId v, const Layout& to) {
    double best = -1;
    for (const Layout& from : existing_[at(v.index)]) {
      const double s = redistributor_.find(from, to, graph_.value(v).type).seconds;
      if (best < 0 || s < best) best = s;
    }
    return best;
  }

  Strategy of_gradient_sum(NodeId id) {
    const Node& node = graph_.node(id);
    const Value& result = graph_.value(node.results.front());
    const Layout goal = reduced(layouts_[at(result.gradient_of.front().index)]);
    Axes partial = layouts_[at(node.operands.front().index)].sum;
    std::vector<Layout> candidates{goal};
    bool is_one_mesh = true;
    for (ValueId v : node.operands) {
      const Layout& layout = layouts_[at(v.index)];
      partial = common(partial, layout.sum);
      is_one_mesh = is_one_mesh && layout.mesh == layouts_[at(node.operands.front().index)].mesh;
      candidates.push_back(reduced(layout));
    }
    std::optional<Strategy> best;
    std::tuple<double, std::int64_t, int> best_price{};
    for (const Layout& dims : candidates) {
      Strategy s = whole(rule(id));
      s.mesh = dims.mesh;
      for (std::size_t d = 0; d < dims.dims.size(); ++d)
        s.loops[at(rule(id).results[0].dims[d][0])] = dims.dims[d];
      const int addends_mesh = layouts_[at(node.operands.front().index)].mesh;
      if (is_one_mesh && (dims.used().empty() || dims.mesh == addends_mesh)) {
        s.linear[0] = partial.without(dims.used());
        if (!s.linear[0].empty()) s.mesh = addends_mesh;
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
      collectives += redistributor_.find(layouts_[at(node.operands[i].index)], layouts.operands[i], type)
                         .collective_count();
    }
    const Redistribution& on = redistributor_.find(layouts.results[0], goal, type);
    const Mesh& mesh = redistributor_.mesh_of(layouts.results[0]);
    return {std::round((seconds + on.seconds) * 1e12),
            element_count(local_shape(layouts.results[0], mesh, type.shape)),
            collectives + on.collective_count()};
  }

  // ---- updates ----

  /// States without a layout of their own lie as their parameter does.
  void lay_out_states() {
    for (const Node& node : graph_.nodes) {
      if (!node.op->optimizer) continue;
      for (std::size_t i = 0; i < node.op->optimizer->states.size(); ++i) {
        std::optional<Layout>& state = graph_.value(node.operands[2 + i]).layout;
        if (!state) state = graph_.value(node.operands[0]).layout;
      }
    }
  }

  Strategy of_update(NodeId id) {
    const Node& node = graph_.node(id);
    const ValueId weight = node.operands.front();
    const auto asked = update_layouts_.find(weight);
    const ValueId state = node.op->optimizer->states.empty() ? weight : node.operands[2];
    const Layout& layout = asked != update_layouts_.end() ? asked->second : *graph_.value(state).layout;
    Strategy s = whole(rule(id));
    s.mesh = layout.mesh;
    for (std::size_t d = 0; d < layout.dims.size(); ++d)
      s.loops[at(rule(id).operands[0].dims[d][0])] = layout.dims[d];
    return s;
  }

  Graph& graph_;
  Redistributor& redistributor_;
  const std::map<ValueId, Layout>& update_layouts_;
  std::vector<Rule> rules_;
  std::vector<Layout> layouts_;                // in which each value is produced
  std::vector<std::vector<Layout>> existing_;  // in which it will exist, as lowering shares them
  std::map<ValueId, DimLoops> passed_on_;      // of backward values: loop dims of their forward node
};

}  // namespace

void complete(Graph& graph, Redistributor& redistributor, const std::map<ValueId, Layout>& update_layouts) {
  Completion(graph, redistributor, update_layouts).run();
}

}  // namespace shardwright
