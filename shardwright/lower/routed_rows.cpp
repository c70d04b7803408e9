#include "shardwright/lower/routed_rows.h"

#include <algorithm>
#include <optional>

#include "shardwright/base/index.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/op.h"
#include "shardwright/lower/program.h"

namespace shardwright {
namespace {

/// Of an operator that routes rows to experts which are split.
std::optional<Routing> routing_of(const Graph& graph, const Node& node) {
  if (node.op->kind != OpKind::compute || !node.op->routed || !node.strategy) return std::nullopt;
  const Rule rule = rule_of(graph, node);
  const auto loop = at(rule.loop(node.op->routed->experts));
  const Type& ids = graph.value(node.operands[node.op->routed->ids]).type;
  const bool are_ids = ids.dtype == DType::i32 || ids.dtype == DType::i64;
  if (!are_ids || node.strategy->loops[loop].empty() || ids.shape.empty()) return std::nullopt;
  return Routing{rule.loops[loop].size, node.strategy->loops[loop], ids.shape.back()};
}

/// Rows of both lie alike, and each is whole.
bool have_rows_alike(const Graph& graph, ValueId a, ValueId b) {
  const Layout x = layout_of(graph.value(a)), y = layout_of(graph.value(b));
  const std::size_t dims = x.dims.size();
  return dims > 1 && y.dims.size() == dims && x.mesh == y.mesh && !x.has_halo() && !y.has_halo() &&
         x.dims.back().empty() && y.dims.back().empty() &&
         std::equal(x.dims.begin(), x.dims.end() - 1, y.dims.begin());
}

const Node& producer(const Graph& graph, ValueId v) { return graph.node(graph.value(v).producer); }

/// `ids`, or what they were gathered from, where rows lie as those of `rows`; invalid: nowhere.
ValueId ids_beside(const Graph& graph, ValueId ids, ValueId rows) {
  while (!have_rows_alike(graph, ids, rows)) {
    const Node& node = producer(graph, ids);
    if (node.op->step != StepKind::all_gather) return {};
    ids = node.operands.front();
  }
  return ids;
}

/// Passes its operand on as it is: by way of the host, or under another name.
bool passes_on(const Node& node) {
  return (node.op->step && is_of_host(*node.op->step)) || (node.op->is_alias && node.operands.size() == 1);
}

/// What `v` is passed on from.
ValueId passed_from(const Graph& graph, ValueId v) {
  while (passes_on(producer(graph, v))) v = producer(graph, v).operands.front();
  return v;
}

/// Whether `ids` are gathered, perhaps in several steps, from `from`, or are these.
bool are_gathered_from(const Graph& graph, ValueId ids, ValueId from) {
  from = passed_from(graph, from);
  for (ids = passed_from(graph, ids); ids != from;
       ids = passed_from(graph, producer(graph, ids).operands.front()))
    if (producer(graph, ids).op->step != StepKind::all_gather) return false;
  return true;
}

/// It makes integers of integers alone, which are the same wherever it runs.
bool is_exact(const Graph& graph, const Node& node) {
  const auto is_integer = [&](ValueId v) { return !is_floating(graph.value(v).type.dtype); };
  return node.op->kind == OpKind::compute && node.operands.size() == 1 && is_integer(node.operands.front()) &&
         is_integer(node.results.front());
}

/// All members of the group of `step` have the same ids: these were gathered over its axes, too. What each had computed by
/// itself might differ in a bit where hosts do, and what one sends would not be what the other takes.
bool are_of_one_origin(const Graph& graph, ValueId ids, const Node& step) {
  Axes left = step_of(graph, step).axes;
  for (;;) {
    const Node& node = producer(graph, ids);
    const bool is_gather = node.op->step == StepKind::all_gather;
    if (!is_gather && !passes_on(node) && !is_exact(graph, node)) return left.empty();
    if (is_gather) left = left.without(step_of(graph, node).axes);
    ids = node.operands.front();
  }
}

/// The side of a step on which rows are together.
ValueId gathered_side(const Node& step) {
  return step.op->step == StepKind::all_gather ? step.results.front() : step.operands.front();
}

/// `node` routes rows so, by `ids`.
bool routes_by(const Graph& graph, const Node& node, ValueId ids, const Routing& routing) {
  return routing_of(graph, node) == routing &&
         passed_from(graph, node.operands[node.op->routed->ids]) == passed_from(graph, ids);
}

/// `node` reads of `v` rows of its own experts alone, by `ids`.
bool reads_by_row(const Graph& graph, const Node& node, ValueId v, ValueId ids, const Routing& routing) {
  if (!routes_by(graph, node, ids, routing)) return false;
  for (std::size_t i = 0; i < node.operands.size(); ++i)
    if (node.operands[i] == v && std::ranges::find(node.op->routed->reads, i) == node.op->routed->reads.end())
      return false;
  return true;
}

/// It makes `v`, in which rows of none of its experts are zero, by `ids`.
bool makes_by_row(const Graph& graph, ValueId v, ValueId ids, const Routing& routing) {
  const Node& node = producer(graph, v);
  if (!routes_by(graph, node, ids, routing)) return false;
  const std::vector<std::size_t>& makes = node.op->routed->makes;
  return std::ranges::find(makes, at(graph.value(v).result)) != makes.end();
}

class Marking {
 public:
  explicit Marking(Graph graph) : graph_(std::move(graph)), users_(graph_), is_held_(held_values(graph_)) {}

  Graph run() && {
    for (const NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      const std::optional<Routing> routing = routing_of(graph_, node);
      if (!routing) continue;
      const RoutedFacet& of = *node.op->routed;
      const std::vector<ValueId> operands = node.operands, results = node.results;
      for (const std::size_t i : of.reads) mark_gathers(operands[i], operands[of.ids], *routing);
      for (const std::size_t r : of.makes) mark_sums(results[r], operands[of.ids], *routing);
    }
    if (!has_any_) return std::move(graph_);
    const std::vector<NodeId> nodes = order();
    const std::vector<ValueId> same(graph_.values.size());
    return rebuild(std::move(graph_), nodes, same);
  }

 private:
  /// Of the gathers that make `v`, the last first.
  void mark_gathers(ValueId v, ValueId ids, const Routing& routing) {
    NodeId next;  // that reads what this one makes
    for (NodeId id = graph_.value(v).producer; is_step(id, StepKind::all_gather);
         next = id, v = graph_.node(id).operands.front(), id = graph_.value(v).producer) {
      const auto fits = [&](NodeId user) {
        return user == next || reads_by_row(graph_, graph_.node(user), v, ids, routing);
      };
      if (is_held_[at(v.index)] || !std::ranges::all_of(users_[at(v.index)], fits)) return;
      ids = ids_beside(graph_, ids, v);
      if (!ids.is_valid() || !mark(id, ids, routing)) return;
    }
  }

  /// Of what reads `v` the sums, the first first.
  void mark_sums(ValueId v, ValueId ids, const Routing& routing) {
    while (users_[at(v.index)].size() == 1 && !is_held_[at(v.index)]) {
      const NodeId id = users_[at(v.index)].front();
      if (!is_step(id, StepKind::reduce_scatter)) return;
      const ValueId beside = ids_beside(graph_, ids, v);
      if (!beside.is_valid() || !mark(id, beside, routing)) return;
      v = graph_.node(id).results.front();
    }
  }

  bool is_step(NodeId id, StepKind kind) const { return graph_.node(id).op->step == kind; }

  bool mark(NodeId id, ValueId ids, const Routing& routing) {
    Node& node = graph_.node(id);
    const Layout gathered = layout_of(graph_.value(gathered_side(node)));
    const auto last = static_cast<std::int64_t>(gathered.dims.size()) - 1;
    if (node.attributes.integer("dim", last) == last || routed_axes(routing, gathered).empty()) return false;
    if (node.operands.size() > 1) return node.operands[1] == ids;  // by another reader
    if (!are_of_one_origin(graph_, ids, node)) return false;
    const int mesh = std::max(layout_of(graph_.value(node.operands.front())).mesh,
                              layout_of(graph_.value(node.results.front())).mesh);
    node.operands.push_back(ids);
    node.attributes.set("experts", routing.experts);
    node.attributes.set("among", to_text(routing.axes, graph_.meshes[at(mesh)]));
    return has_any_ = true;
  }

  /// Steps stand behind the ids that they read.
  std::vector<NodeId> order() const {
    std::vector<NodeId> out, waiting;
    std::vector<bool> is_there(graph_.nodes.size(), false);
    const auto add = [&](NodeId id) {
      const auto is_made = [&](ValueId v) { return is_there[at(graph_.value(v).producer.index)]; };
      if (!std::ranges::all_of(graph_.node(id).operands, is_made)) return false;
      is_there[at(id.index)] = true;
      out.push_back(id);
      return true;
    };
    for (const NodeId id : graph_.node_ids()) {
      if (!add(id)) {
        waiting.push_back(id);
        continue;
      }
      // In their order, of which a later one may read an earlier one.
      if (!waiting.empty()) std::erase_if(waiting, add);
    }
    require(waiting.empty(), "ids of experts are made from the rows that they route");
    return out;
  }

  Graph graph_;
  Users users_;
  std::vector<bool> is_held_;
  bool has_any_ = false;
};

}  // namespace

Graph with_routed_rows(Graph graph) {
  const auto is_routed = [](const Node& node) { return node.op->kind == OpKind::compute && node.op->routed; };
  if (std::ranges::none_of(graph.nodes, is_routed)) return graph;
  return Marking(std::move(graph)).run();
}

std::string unfit_routing(const Graph& graph, const Users& users, const std::vector<bool>& is_held,
                          NodeId step) {
  const Node& node = graph.node(step);
  const Routing routing = *step_of(graph, node).routing;
  const ValueId ids = node.operands[1], v = gathered_side(node);
  if (!have_rows_alike(graph, ids, v))
    return fmt::format("moves rows of %{} by %{}, which lie otherwise", graph.value(v).name,
                       graph.value(ids).name);
  const auto is_step_by = [&](const Node& other, auto are_of) {
    return other.op == node.op && other.operands.size() > 1 && step_of(graph, other).routing == routing &&
           are_of(other.operands[1]);
  };
  const auto origin = [&]() -> std::string {
    if (are_of_one_origin(graph, ids, node)) return {};
    return fmt::format("moves rows by %{}, which its ranks have not gathered alike", graph.value(ids).name);
  };
  if (node.op->step == StepKind::reduce_scatter) {
    const bool fits =
        makes_by_row(graph, v, ids, routing) ||
        is_step_by(producer(graph, v), [&](ValueId before) { return are_gathered_from(graph, before, ids); });
    return fits ? origin()
                : fmt::format("adds up rows by %{}, by which %{} is not made", graph.value(ids).name,
                              graph.value(v).name);
  }
  if (is_held[at(v.index)]) return "brings some rows of what is handed out";
  std::vector<ValueId> open{v};  // under all its names
  while (!open.empty()) {
    const ValueId name = open.back();
    open.pop_back();
    for (const NodeId user : users[at(name.index)]) {
      const Node& reader = graph.node(user);
      if (passes_on(reader)) {
        open.push_back(reader.results.front());
      } else if (!reads_by_row(graph, reader, name, ids, routing) &&
                 !is_step_by(reader, [&](ValueId later) { return are_gathered_from(graph, later, ids); })) {
        return fmt::format("brings rows by %{}, of which {} reads all", graph.value(ids).name,
                           graph.name_of(user));
      }
    }
  }
  return origin();
}

}  // namespace shardwright
