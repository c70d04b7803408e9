// Lets values lie in the memory formats that fast kernels like, with as few bytes put into another format as possible.
//
// The backend says per call what its kernel takes (passes/formats.h), or that it has none: then it runs on the host. Some calls fix the formats of their values;
// others take any one format for several of them: these nodes choose, parameters and states among them, so that
// weights and what the optimizer keeps lie for ever as the kernels want them. What comes from outside and goes there
// is row-major.
//
// Each node chooses the format that leaves the fewest bytes to be put into another one between it and its neighbours:
// in the first round as far as they have chosen, then in two more rounds, in the opposite order and in this one. Where
// no neighbour has chosen, a node waits.
// Then `reformat` nodes are put where a user wants another format than the value has.

#include <algorithm>
#include <map>
#include <unordered_set>

#include "shardwright/base/index.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/rewrite.h"
#include "shardwright/layout/uneven.h"
#include "shardwright/ops/calls.h"
#include "shardwright/passes/optimize.h"

namespace shardwright {
namespace {

/// A value and where it is wanted or made: the format there is the node's common one, unless it is fixed.
struct End {
  NodeId node;
  std::optional<Format> fixed;
};

class Chooser {
 public:
  Chooser(const Graph& graph, const FormatsOf& formats_of)
      : graph_(graph), calls_(graph), alike_(at(calls_.size())), common_(graph.nodes.size()) {
    formats_.reserve(graph.nodes.size());
    for (NodeId id : graph.node_ids()) {
      formats_.push_back(formats(id, formats_of));
      names_blocks_ = names_blocks_ || names_a_block(formats_.back());
    }
  }

  /// Unless some kernel does, everything is row-major.
  bool names_blocks() const { return names_blocks_; }

  bool has_kernel(NodeId id) const { return formats_[at(id.index)].has_kernel; }

  void choose() {
    find_ends();
    for (NodeId id : graph_.node_ids())
      if (!is_free(id)) common_[at(id.index)] = Format{};
    std::vector<NodeId> order;
    for (NodeId id : graph_.node_ids())
      if (is_free(id)) order.push_back(id);
    for (int round = 0; round < 3; ++round) {
      for (NodeId id : order)
        if (has_chosen_neighbour(id)) common_[at(id.index)] = best(id);
      std::reverse(order.begin(), order.end());
    }
  }

  /// The format in which `v` is made.
  Format format_of(ValueId v) const { return chosen(made(v)).value_or(Format{}); }
  /// The format in which `id` takes operand `i`.
  Format wanted(NodeId id, std::size_t i) const {
    return chosen({id, formats_[at(id.index)].operands[i]}).value_or(Format{});
  }

 private:
  void find_ends() {
    const Graph& graph = graph_;
    ends_.resize(graph.values.size());
    for (NodeId id : graph.node_ids()) {
      const Node& node = graph.node(id);
      const Formats& f = formats_[at(id.index)];
      for (std::size_t i = 0; i < node.operands.size(); ++i)
        ends_[at(node.operands[i].index)].push_back({id, f.operands[i]});
    }
    for (const Update& u : graph.updates) {  // the new value goes where the leaf lies
      ends_[at(u.value.index)].push_back({graph.value(u.leaf).producer, {}});
      ends_[at(u.leaf.index)].push_back({graph.value(u.value).producer, made(u.value).fixed});
    }
    for (const auto* values : {&graph.outputs, &graph.sends})
      for (ValueId v : *values) ends_[at(v.index)].push_back({graph.value(v).producer, Format{}});
  }

  Formats formats(NodeId id, const FormatsOf& formats_of) {
    const Node& node = graph_.node(id);
    Formats out;
    const OpKind kind = node.op->kind;
    const bool is_kept = kind == OpKind::parameter || kind == OpKind::state || kind == OpKind::accumulator;
    const bool is_sent =
        std::find(graph_.sends.begin(), graph_.sends.end(), node.results.front()) != graph_.sends.end();
    if (is_kept && is_sent) return row_major(node);
    if (is_kept ||
        (node.op->step && *node.op->step == StepKind::all_reduce)) {  // any order of elements will do
      out.operands.resize(node.operands.size());
      out.results.resize(node.results.size());
      out.takes_any = true;
      return out;
    }
    if (node.op->kind != OpKind::compute) return row_major(node);
    std::vector<NodeId>& alike = alike_[at(calls_.of(id))];
    for (NodeId other : alike)
      if (lie_alike(graph_.node(other), node)) return formats_[at(other.index)];
    alike.push_back(id);
    out = formats_of(*node.op, local_call(graph_, node, 0).call());
    if (!out.has_kernel && !node.op->is_alias) return row_major(node, false);
    if (out.operands.empty() && out.results.empty()) return row_major(node);
    require(out.operands.size() == node.operands.size() && out.results.size() == node.results.size(),
            "formats of {} are for another call", graph_.name_of(id));
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      if (out.operands[i] && !can_lie(graph_.value(node.operands[i]), *out.operands[i]))
        return row_major(node);
    for (std::size_t r = 0; r < node.results.size(); ++r)
      if (out.results[r] && !can_lie(graph_.value(node.results[r]), *out.results[r])) return row_major(node);
    return out;
  }

  /// Two nodes of one call are split in the same way, so that each rank makes the same call.
  bool lie_alike(const Node& a, const Node& b) const {
    const auto same = [this](ValueId v, ValueId w) {
      return graph_.value(v).layout == graph_.value(w).layout;
    };
    return a.strategy == b.strategy &&
           std::equal(a.operands.begin(), a.operands.end(), b.operands.begin(), same) &&
           std::equal(a.results.begin(), a.results.end(), b.results.begin(), same);
  }

  static bool names_a_block(const Formats& f) {
    const auto is_block = [](const std::optional<Format>& format) {
      return format && !format->is_row_major();
    };
    return std::any_of(f.operands.begin(), f.operands.end(), is_block) ||
           std::any_of(f.results.begin(), f.results.end(), is_block) ||
           std::any_of(f.common.begin(), f.common.end(), is_block);
  }

  static Formats row_major(const Node& node, bool has_kernel = true) {
    Formats out{.has_kernel = has_kernel};
    out.operands.assign(node.operands.size(), Format{});
    out.results.assign(node.results.size(), Format{});
    return out;
  }

  bool is_free(NodeId id) const {
    const Formats& f = formats_[at(id.index)];
    const auto is_open = [](const auto& format) { return !format; };
    return std::any_of(f.operands.begin(), f.operands.end(), is_open) ||
           std::any_of(f.results.begin(), f.results.end(), is_open);
  }

  End made(ValueId v) const {
    const Value& value = graph_.value(v);
    return {value.producer, formats_[at(value.producer.index)].results[at(value.result)]};
  }
  std::optional<Format> chosen(const End& end) const {
    return end.fixed ? end.fixed : common_[at(end.node.index)];
  }

  /// Calls `use(value, other end)` for every neighbour of the values of `id` that lie in its common format.
  template <class F>
  void for_each_neighbour(NodeId id, F use) const {
    const Node& node = graph_.node(id);
    const Formats& f = formats_[at(id.index)];
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      if (!f.operands[i]) use(node.operands[i], made(node.operands[i]));
    for (std::size_t r = 0; r < node.results.size(); ++r)
      if (!f.results[r])
        for (const End& end : ends_[at(node.results[r].index)]) use(node.results[r], end);
  }

  /// A node that nobody tells anything waits: what it chose at random would count as its wish.
  bool has_chosen_neighbour(NodeId id) const {
    bool out = false;
    for_each_neighbour(id, [&](ValueId, const End& end) { out = out || chosen(end); });
    return out;
  }

  /// Every rank's part of the value can lie in `format`.
  bool can_lie(const Value& value, const Format& format) const {
    if (!fits(format, value.type.shape)) return false;
    if (!value.layout || format.is_row_major()) return true;
    const Mesh& mesh = graph_.meshes[at(value.layout->mesh)];
    const Shape whole = value.global_type().shape;
    for (std::size_t d = 0; d < whole.size(); ++d)
      if (is_cut_unevenly(*value.layout, mesh, whole, d) ||
          whole[d] % (mesh.count(value.layout->dims[d]) * format.block_of(d)) != 0)
        return false;
    return true;
  }

  std::vector<Format> candidates(NodeId id) const {
    std::vector<Format> out = formats_[at(id.index)].common;
    if (formats_[at(id.index)].takes_any)
      for_each_neighbour(id, [&](ValueId, const End& end) {
        if (const auto format = chosen(end)) out.push_back(*format);
      });
    out.emplace_back();
    for_each_neighbour(id, [&](ValueId v, const End&) {
      std::erase_if(out, [&](const Format& f) { return !can_lie(graph_.value(v), f); });
    });
    return out;
  }

  std::int64_t bytes_to_move(NodeId id, const Format& format) const {
    std::int64_t bytes = 0;
    for_each_neighbour(id, [&](ValueId v, const End& end) {
      const auto other = chosen(end);
      if (other && *other != format && end.node != id) bytes += graph_.value(v).type.bytes();
    });
    return bytes;
  }

  Format best(NodeId id) const {
    const std::vector<Format> all = candidates(id);
    return *std::min_element(all.begin(), all.end(), [&](const Format& a, const Format& b) {
      return bytes_to_move(id, a) < bytes_to_move(id, b);
    });
  }

  const Graph& graph_;
  const Calls calls_;
  std::vector<std::vector<NodeId>> alike_;  // by call: a node of each way in which its values lie
  std::vector<Formats> formats_;            // by node
  bool names_blocks_ = false;
  std::vector<std::optional<Format>> common_;  // by node: what it has chosen
  std::vector<std::vector<End>> ends_;         // by value: where it is wanted
};

/// Writes the chosen formats into the graph and puts reformat nodes between those that disagree.
class Writer {
 public:
  Writer(const Graph& graph, const Chooser& chooser)
      : out_(graph), chooser_(chooser), updates_of_(graph.values.size()) {
    for (std::size_t u = 0; u < graph.updates.size(); ++u)
      updates_of_[at(graph.updates[u].value.index)].push_back(u);
    for (const Value& v : graph.values) names_.insert(v.name);
    for (std::size_t v = 0; v < graph.values.size(); ++v)
      out_.values[v].format = chooser.format_of({static_cast<int>(v)});
  }

  Graph run(const Graph& graph) {
    for (NodeId id : graph.node_ids()) {
      for (std::size_t i = 0; i < graph.node(id).operands.size(); ++i) {
        const ValueId v = in_format(graph.node(id).operands[i], chooser_.wanted(id, i), graph.node(id).phase);
        out_.node(id).operands[i] = v;
      }
      order_.push_back(id);
      for (ValueId v : graph.node(id).results) hand_out(v);
    }
    const std::vector<ValueId> same(out_.values.size());
    return rebuild(std::move(out_), order_, same);
  }

 private:
  /// Outputs are row-major, and a new value lies as its leaf.
  void hand_out(ValueId made) {
    const Phase phase = out_.node(out_.value(made).producer).phase;
    for (auto* values : {&out_.outputs, &out_.sends})
      for (ValueId& v : *values)
        if (v == made) v = in_format(v, {}, phase);
    for (std::size_t u : updates_of_[at(made.index)])
      out_.updates[u].value = in_format(made, out_.value(out_.updates[u].leaf).format, phase);
  }

  /// The value in `format`, made at the end of `order_` if it is not there. Each phase makes its own, rather than
  /// keep one alive in between.
  ValueId in_format(ValueId v, const Format& format, Phase phase) {
    if (out_.value(v).format == format) return v;
    const auto [it, is_new] = made_.try_emplace({v, to_text(format), phase});
    if (!is_new) return it->second;
    const NodeId id{static_cast<int>(out_.nodes.size())};
    it->second = {static_cast<int>(out_.values.size())};
    Value value = out_.value(v);
    value.name =
        fresh_name(fmt::format("{}.{}", value.name, format.is_row_major() ? "plain" : to_text(format)));
    value.producer = id;
    value.result = 0;
    value.format = format;
    Node node{
        .op = &reformat_op(), .operands = {v}, .results = {it->second}, .attributes = {}, .phase = phase};
    node.owner = out_.node(out_.value(v).producer).owner;
    if (value.layout) node.strategy = strategy_of(*value.layout);
    out_.values.push_back(std::move(value));
    out_.nodes.push_back(std::move(node));
    order_.push_back(id);
    return it->second;
  }

  /// Each dim as it lies; one with a halo is not cut evenly and counts as whole.
  static Strategy strategy_of(const Layout& layout) {
    Strategy out{.loops = layout.dims, .linear = {layout.sum}, .mesh = layout.mesh};
    for (std::size_t d = 0; d < layout.windows.size(); ++d)
      if (layout.windows[d].loop > 0) out.loops[d] = {};
    if (used_axes(out).empty()) out.mesh = 0;
    return out;
  }

  std::string fresh_name(std::string name) {
    while (!names_.insert(name).second) name += "_";
    return name;
  }

  Graph out_;
  const Chooser& chooser_;
  std::vector<std::vector<std::size_t>> updates_of_;  // by value that a leaf takes
  std::unordered_set<std::string> names_;
  std::vector<NodeId> order_;
  std::map<std::tuple<ValueId, std::string, Phase>, ValueId> made_;
};

}  // namespace

Program choose_formats(Program program, const PassContext& context) {
  if (!context.formats) return program;
  Chooser chooser(program.graph, context.formats);
  for (NodeId id : program.graph.node_ids())
    if (!chooser.has_kernel(id)) program.graph.node(id).space = Space::host;
  if (!chooser.names_blocks()) return program;
  chooser.choose();
  program.graph = Writer(program.graph, chooser).run(program.graph);
  return program;
}

}  // namespace shardwright
