// Every operator finds its operands as its rule wants them, and what it makes lies as the rule says.
//
// Nothing else ties layouts to what is computed: a partial gradient that an optimizer takes for whole, or an operand
// split along another axis of the same size, has complete boxes, right local shapes and steps that agree with it.
// Layouts of a rule and a strategy are worked out once for equal calls: networks repeat their layers.

#include <algorithm>
#include <map>

#include "shardwright/graph/calls.h"
#include "shardwright/graph/op.h"
#include "shardwright/lower/routed_rows.h"
#include "shardwright/ops/calls.h"
#include "shardwright/verify/violation.h"

namespace shardwright {
namespace {

class Rules {
 public:
  Rules(const Program& program, int stage, Violations& out)
      : graph_(program.graph),
        calls_(program.graph),
        users_(program.graph),
        is_held_(held_values(program.graph)),
        stage_(stage),
        out_(out) {}

  void check() {
    for (NodeId id : graph_.node_ids()) {
      const OpKind kind = graph_.node(id).op->kind;
      if (kind == OpKind::compute)
        check_node(id);
      else if (kind == OpKind::step && graph_.node(id).operands.size() > 1)
        check_routed(id);
      else if (kind != OpKind::step && kind != OpKind::accumulator)
        check_whole(graph_.node(id).results.front(), "kept from step to step or comes from outside");
    }
    for (const Update& u : graph_.updates) check_update(u);
    for (ValueId v : graph_.outputs) check_whole(v, "an output");
    for (ValueId v : graph_.sends) check_whole(v, "sent to another stage");
  }

 private:
  struct Wanted {
    std::optional<std::string> why_not;  // the strategy is illegal
    NodeLayouts layouts;
  };

  template <class... A>
  void bad(ValueId v, fmt::format_string<A...> text, A&&... a) {
    out_.push_back(violation("stage {}: %{} {}", stage_, graph_.value(v).name,
                             fmt::format(text, std::forward<A>(a)...)));
  }

  const Mesh& mesh(int m) const { return graph_.meshes[static_cast<std::size_t>(m)]; }
  std::string text(const Layout& layout) const { return to_text(layout, mesh(layout.mesh)); }

  const Wanted& wanted(NodeId id) {
    const Rule& rule = calls_.rule(id);
    Strategy strategy = graph_.node(id).strategy.value_or(whole(rule));
    const auto [place, is_new] = wanted_.try_emplace({calls_.of(id), std::move(strategy)});
    const auto& [call, used] = place->first;
    Wanted& out = place->second;
    if (!is_new) return out;
    out.why_not = shardwright::violation(rule, used, mesh(used.mesh));
    if (!out.why_not) out.layouts = layouts_of(rule, used);
    return out;
  }

  void check_node(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.op == &reformat_op()) return check_reformat(node);
    const Wanted& w = wanted(id);
    if (w.why_not) return bad(node.results.front(), "= {}: {}", node.op->name, *w.why_not);
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const Layout have = layout_of(graph_.value(node.operands[i]));
      if (have != w.layouts.operands[i])
        bad(node.results.front(), "= {}: %{} lies in {} but its rule reads {}", node.op->name,
            graph_.value(node.operands[i]).name, text(have), text(w.layouts.operands[i]));
    }
    for (std::size_t r = 0; r < node.results.size(); ++r) {
      const Layout have = layout_of(graph_.value(node.results[r]));
      if (have != w.layouts.results[r])
        bad(node.results[r], "= {} lies in {} but its rule makes {}", node.op->name, text(have),
            text(w.layouts.results[r]));
    }
  }

  /// Rows that are not moved are not read, or are zero.
  void check_routed(NodeId id) {
    const Node& node = graph_.node(id);
    if (const std::string why = unfit_routing(graph_, users_, is_held_, id); !why.empty())
      bad(node.results.front(), "= {}: {}", node.op->name, why);
  }

  /// Puts what is there into another order, be it partial or a part with a halo.
  void check_reformat(const Node& node) {
    const Layout from = layout_of(graph_.value(node.operands.front()));
    const Layout to = layout_of(graph_.value(node.results.front()));
    if (from != to)
      bad(node.results.front(), "= {} lies in {} but its operand in {}", node.op->name, text(to), text(from));
  }

  void check_update(const Update& u) {
    const Value &leaf = graph_.value(u.leaf), &value = graph_.value(u.value);
    if (layout_of(leaf) != layout_of(value))
      bad(u.leaf, "lies in {} but its new value %{} in {}", text(layout_of(leaf)), value.name,
          text(layout_of(value)));
    if (leaf.type != value.type || leaf.global_type() != value.global_type() || leaf.format != value.format)
      bad(u.leaf, "and its new value %{} are of different types or formats", value.name);
  }

  void check_whole(ValueId v, std::string_view what) {
    const Layout layout = layout_of(graph_.value(v));
    if (layout.is_partial()) bad(v, "is {} but partial: {}", what, text(layout));
  }

  const Graph& graph_;
  Calls calls_;
  Users users_;
  std::vector<bool> is_held_;
  int stage_;
  Violations& out_;
  std::map<std::pair<int, Strategy>, Wanted> wanted_;
};

}  // namespace

Violations broken_rules(const Pipeline& pipeline) {
  Violations out;
  for (int s = 0; s < pipeline.stage_count(); ++s) Rules(pipeline.stage(s), s, out).check();
  return out;
}

}  // namespace shardwright
