#include "shardwright/lower/recompute.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>

#include "shardwright/base/index.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/rewrite.h"
#include "shardwright/lower/cheap_nodes.h"
#include "shardwright/lower/spmd.h"
#include "shardwright/ops/keep.h"
#include "shardwright/plan/leaves.h"

namespace shardwright {
namespace {

/// `layout`, sharded over the axes along which it is replicated as far as they divide a dim: the first that can be.
Layout over_replicas(const Layout& layout, const Mesh& mesh, const Shape& shape) {
  Layout out = layout;
  for (int a : mesh.all_axes().without(layout.used()))
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const Axes wider = out.dims[d].with({a});
      if (mesh.size_of(a) == 1 || largest_part(wider, mesh, shape[d]) * mesh.count(wider) != shape[d])
        continue;
      out.dims[d] = wider;
      break;
    }
  return out;
}

/// What the regions say of nodes and values; nothing is changed yet.
class Decision {
 public:
  Decision(const Graph& graph, const std::vector<RecomputeRegion>& regions, Redistributor& redistributor)
      : graph_(graph),
        redistributor_(redistributor),
        calls_(graph),
        users_(users_of(graph)),
        regions_(regions),
        region_of_(graph.nodes.size(), -1),
        is_kept_(held_values(graph)),
        layouts_(graph.nodes.size()) {
    for (std::size_t r = 0; r < regions_.size(); ++r)
      for (NodeId id : regions_[r].nodes) region_of_[at(id.index)] = static_cast<int>(r);
    for (const Node& node : graph.nodes)
      for (ValueId v : node.results)
        if (!region_of(v) || is_read_outside(v) || keeps_communicated(v)) is_kept_[at(v.index)] = true;
    for (const RecomputeRegion& region : regions_)
      for (NodeId id : region.kept) keep_results(id);
    keep_what_moves_on();
    select();
  }

  bool is_kept(ValueId v) const { return is_kept_[at(v.index)]; }

  /// The region whose forward or backward `id` belongs to, or nullptr.
  const RecomputeRegion* region_of(NodeId id) const {
    const Node& node = graph_.node(id);
    const NodeId forward = node.phase == Phase::forward ? id : node.forward;
    if (!forward.is_valid() || region_of_[at(forward.index)] < 0) return nullptr;
    return &regions_[at(region_of_[at(forward.index)])];
  }

  /// The layout in which the backward of `region` finds the kept value `v`, where that is not simply as it is.
  std::optional<Layout> layout_of_kept(ValueId v, const RecomputeRegion& region) {
    const OpKind kind = graph_.node(producer(v)).op->kind;
    if (kind == OpKind::parameter || kind == OpKind::state) return std::nullopt;  // they stay as they are
    const Layout base = stored(made_in(v));
    const Shape& shape = graph_.value(v).type.shape;
    if (region.options.shard_kept) {
      const Layout sharded = over_replicas(base, graph_.meshes[at(base.mesh)], shape);
      if (sharded != base) return sharded;
    }
    const std::optional<Layout> form = communicated_form(v, base);
    if (form && region.options.communication) return base;
    if (!form || form->has_halo()) return std::nullopt;
    return region.is_selective && is_gathered(v, base, *form) ? base : form;
  }

  const Rule& rule(NodeId id) const { return calls_.rule(id); }
  /// In their order.
  std::span<const NodeId> readers(ValueId v) const { return users_[at(v.index)]; }

 private:
  NodeId producer(ValueId v) const { return graph_.value(v).producer; }
  const RecomputeRegion* region_of(ValueId v) const { return region_of(producer(v)); }

  void keep_results(NodeId id) {
    for (ValueId v : graph_.node(id).results) is_kept_[at(v.index)] = true;
  }

  /// What reads a state that the forward changes: the backward may find it changed.
  void keep_what_moves_on() {
    for (const Update& u : graph_.updates)
      if (graph_.node(producer(u.value)).phase == Phase::forward)
        for (NodeId reader : users_[at(u.leaf.index)]) keep_results(reader);
  }

  /// By the forward of another region, or by the backward or update of anything else.
  bool is_read_outside(ValueId v) const {
    const RecomputeRegion* own = region_of(v);
    return std::any_of(users_[at(v.index)].begin(), users_[at(v.index)].end(), [&](NodeId user) {
      const RecomputeRegion* region = region_of(user);
      return region != own && (region || graph_.node(user).phase != Phase::forward);
    });
  }

  bool keeps_communicated(ValueId v) {
    return !region_of(v)->options.communication && communicated_form(v, made_in(v)).has_value();
  }

  const NodeLayouts& layouts_of_node(NodeId id) {
    auto& layouts = layouts_[at(id.index)];
    if (!layouts) layouts = layouts_of(rule(id), *graph_.node(id).strategy);
    return *layouts;
  }

  Layout made_in(ValueId v) {
    if (graph_.node(producer(v)).op->kind != OpKind::compute) return *graph_.value(v).layout;
    return layouts_of_node(producer(v)).results[at(graph_.value(v).result)];
  }

  /// The first layout in which some forward node wants it and that takes a collective.
  std::optional<Layout> communicated_form(ValueId v, const Layout& from) {
    const Value& value = graph_.value(v);
    const auto moves = [&](const Layout& to) {
      return redistributor_.find(from, to, value.type).collective_count() > 0;
    };
    if (value.layout && moves(*value.layout)) return value.layout;
    for (NodeId user : users_[at(v.index)]) {
      const Node& node = graph_.node(user);
      if (node.phase != Phase::forward) continue;
      for (std::size_t i = 0; i < node.operands.size(); ++i)
        if (node.operands[i] == v && moves(layouts_of_node(user).operands[i]))
          return layouts_of_node(user).operands[i];
    }
    return std::nullopt;
  }

  /// Kept as it is gathered it takes a part of each device's: a backward without recompute has only its own, too.
  bool is_gathered(ValueId v, const Layout& from, const Layout& to) {
    const Redistribution& way = redistributor_.find(from, to, graph_.value(v).type);
    return std::ranges::any_of(
        way.steps, [&](const Step& s) { return is_gathered_again(s, graph_.value(v).type, redistributor_); });
  }

  /// In selective regions what is not cheap is kept.
  void select() {
    std::vector<bool> is_open(graph_.nodes.size());
    bool is_selective = false;
    for (const RecomputeRegion& region : regions_)
      for (NodeId id : region.nodes) {
        is_open[at(id.index)] = region.is_selective;
        is_selective = is_selective || region.is_selective;
      }
    if (!is_selective) return;
    std::vector<double> bytes(graph_.values.size());
    for (std::size_t v = 0; v < bytes.size(); ++v) bytes[v] = local_bytes({static_cast<int>(v)});
    const std::vector<bool> is_chosen = cheap_nodes(
        {.graph = graph_, .calls = calls_, .bytes = bytes, .is_kept = is_kept_, .is_open = is_open});
    for (NodeId id : graph_.node_ids())
      if (is_open[at(id.index)] && !is_chosen[at(id.index)]) keep_results(id);
  }

  double local_bytes(ValueId v) {
    const Type& type = graph_.value(v).type;
    const Layout layout = stored(made_in(v));
    const Shape local = largest_local_shape(layout, graph_.meshes[at(layout.mesh)], type.shape);
    return static_cast<double>(Type{type.dtype, local}.bytes());
  }

  const Graph& graph_;
  Redistributor& redistributor_;
  Calls calls_;
  Users users_;  // by value
  const std::vector<RecomputeRegion>& regions_;
  std::vector<int> region_of_;  // by forward node
  std::vector<bool> is_kept_;   // by value
  std::vector<std::optional<NodeLayouts>> layouts_;
};

/// Adds copies to a graph and lets the backward read them.
class Recomputation {
 public:
  Recomputation(const Graph& graph, Decision& decision)
      : graph_(graph),
        decision_(decision),
        out_(graph),
        copy_of_(graph.nodes.size()),
        kept_as_(graph.values.size()),
        keeps_behind_(graph.nodes.size()) {
    for (const Value& v : graph.values) names_.insert(v.name);
  }

  Graph run() {
    for (NodeId id : graph_.node_ids())
      if (graph_.node(id).phase == Phase::backward) read_again(id, decision_.region_of(id));
    for (NodeId id : graph_.node_ids()) {
      if (graph_.node(id).phase == Phase::backward) put_copies_for(id);
      order_.push_back(id);
      for (NodeId keep : keeps_behind_[at(id.index)]) order_.push_back(keep);
    }
    const std::vector<ValueId> same(out_.values.size());
    return rebuild(std::move(out_), order_, same);
  }

 private:
  NodeId producer(ValueId v) const { return graph_.value(v).producer; }

  /// Lets node `id` of out_, which reads for the backward of `region`, read what is there then.
  void read_again(NodeId id, const RecomputeRegion* region) {
    std::vector<ValueId> operands = out_.node(id).operands;  // what is added meanwhile moves nodes
    for (ValueId& v : operands)
      if (graph_.node(producer(v)).phase == Phase::forward)
        v = decision_.is_kept(v) ? kept(v, region) : copied(v);
    out_.node(id).operands = std::move(operands);
  }

  std::string fresh_name(const std::string& name, std::string_view suffix) {
    std::string out = fmt::format("{}.{}", name, suffix);
    for (int n = 2; !names_.insert(out).second; ++n) out = fmt::format("{}.{}_{}", name, suffix, n);
    return out;
  }

  ValueId add_value(ValueId of, std::string_view suffix, NodeId from) {
    const Value& value = graph_.value(of);
    out_.values.push_back({.name = fresh_name(value.name, suffix),
                           .type = value.type,
                           .producer = from,
                           .result = value.result,
                           .gradient_of = {},
                           .layout = value.layout});
    return {static_cast<int>(out_.values.size()) - 1};
  }

  /// The same result of the copy of its node.
  ValueId copied(ValueId v) {
    const NodeId from = producer(v);
    NodeId& copy = copy_of_[at(from.index)];
    if (!copy.is_valid()) {
      copy = {static_cast<int>(out_.nodes.size())};
      Node node = graph_.node(from);
      for (ValueId& result : node.results) result = add_value(result, "again", copy);
      node.phase = Phase::backward;
      node.forward = from;
      node.is_recomputed = true;
      out_.nodes.push_back(std::move(node));
      read_again(copy, decision_.region_of(from));
    }
    return out_.node(copy_of_[at(from.index)]).results[at(graph_.value(v).result)];
  }

  /// What the backward reads of a value that is kept. All of it reads the same.
  ValueId kept(ValueId v, const RecomputeRegion* region) {
    ValueId& as = kept_as_[at(v.index)];
    if (as.is_valid()) return as;
    const auto layout = region ? decision_.layout_of_kept(v, *region) : std::nullopt;
    const auto strategy = layout ? strategy_of_keep(v, *layout) : std::nullopt;
    if (!strategy) return v;
    const NodeId id{static_cast<int>(out_.nodes.size())};
    as = add_value(v, "kept", id);
    Value& value = out_.value(as);
    value.result = 0;
    value.layout.reset();
    out_.nodes.push_back({.op = &keep_op(), .operands = {v}, .results = {as}, .attributes = {}});
    out_.nodes.back().strategy = strategy;
    out_.nodes.back().owner = graph_.node(graph_.value(v).producer).owner;
    keeps_behind_[at(first_reader(v).index)].push_back(id);
    return as;
  }

  std::optional<Strategy> strategy_of_keep(ValueId v, const Layout& layout) const {
    const Type& type = graph_.value(v).type;
    const Attributes none;
    const Rule rule = rule_of(keep_op(), {std::span(&type, 1), std::span(&type, 1), none});
    Strategy out = whole(rule);
    out.mesh = layout.mesh;
    for (std::size_t d = 0; d < layout.dims.size(); ++d)
      if (!layout.dims[d].empty()) out.loops[at(rule.results[0].dims[d].at(0))] = layout.dims[d];
    if (violation(rule, out, graph_.meshes[at(layout.mesh)])) return std::nullopt;
    return out;
  }

  /// By then the forms that the forward needs are there to start from.
  NodeId first_reader(ValueId v) const {
    const std::span<const NodeId> readers = decision_.readers(v);
    const bool is_read = !readers.empty() && graph_.node(readers.front()).phase == Phase::forward;
    return is_read ? readers.front() : producer(v);
  }

  /// The copies that `id` needs and that are not there yet, each behind what it needs itself.
  void put_copies_for(NodeId id) {
    for (ValueId v : out_.node(id).operands) {
      const NodeId from = out_.value(v).producer;
      if (!out_.node(from).is_recomputed || !is_put_.insert(from).second) continue;
      put_copies_for(from);
      order_.push_back(from);
    }
  }

  const Graph& graph_;
  Decision& decision_;
  Graph out_;                                      // copies and keeps stand behind all other nodes
  std::vector<NodeId> copy_of_;                    // by forward node
  std::vector<ValueId> kept_as_;                   // by value
  std::vector<std::vector<NodeId>> keeps_behind_;  // by node
  std::set<NodeId> is_put_;
  std::vector<NodeId> order_;
  std::unordered_set<std::string> names_;
};

}  // namespace

Graph with_recompute(const Graph& graph, const std::vector<RecomputeRegion>& regions,
                     Redistributor& redistributor) {
  if (regions.empty()) return graph;
  Decision decision(graph, regions, redistributor);
  return Recomputation(graph, decision).run();
}

std::vector<bool> repeated_owners(const Graph& graph, const std::vector<RecomputeRegion>& regions) {
  std::vector<bool> out;
  const auto mark = [&](const std::vector<NodeId>& nodes, bool is_repeated) {
    out.resize(graph.nodes.size());
    for (NodeId id : nodes)
      if (const NodeId owner = graph.node(id).owner; owner.is_valid()) out[at(owner.index)] = is_repeated;
  };
  for (const RecomputeRegion& region : regions) {
    if (region.is_selective) continue;
    mark(region.nodes, true);
    mark(region.kept, false);
  }
  return out;
}

}  // namespace shardwright
