#include "shardwright/lower/cut_products.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "shardwright/base/index.h"
#include "shardwright/cost/kernel_work.h"
#include "shardwright/graph/builder.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/rewrite.h"
#include "shardwright/lower/program.h"
#include "shardwright/lower/row_dims.h"
#include "shardwright/ops/calls.h"

namespace shardwright {
namespace {

/// Into so many pieces, if each rank's rows can be cut so; else into as few.
constexpr std::int64_t most_pieces = 4, fewest_pieces = 2;

/// `fine` is `coarse` but that dim `d` is split over more axes.
bool is_split_further(const Layout& fine, const Layout& coarse, std::size_t d) {
  const Axes &more = fine.dims[d], &few = coarse.dims[d];
  if (fine.has_halo() || fine.is_partial() || more.size() <= few.size() || more.prefix(few.size()) != few)
    return false;
  Layout same = fine;
  same.dims[d] = few;
  if (same.used().empty()) same.mesh = coarse.mesh;
  return same == coarse;
}

/// How an operator is done in pieces.
struct Cut {
  RowDims rows;
  std::int64_t parts = 1, pieces = 0;
  std::optional<Axes> gathered = {};  // over which rows of its only operand with rows are split before
  std::optional<Axes> summed = {};    // and those of its result behind it
};

/// A value in pieces of the rows that are its dim `dim`, of `parts` parts.
struct InPieces {
  std::vector<ValueId> of;
  std::size_t dim = 0;
  std::int64_t parts = 1;
};

class Cutting {
 public:
  explicit Cutting(const Graph& graph)
      : graph_(graph),
        calls_(graph),
        users_(graph),
        is_held_(held_values(graph)),
        out_(graph),
        builder_(out_),
        moved_(graph.nodes.size()),
        is_whole_(graph.values.size(), false) {
    out_.nodes.clear();
  }

  Graph run() && {
    bool has_any = false;
    for (const NodeId id : graph_.node_ids()) {
      Node node = graph_.node(id);
      if (node.forward.is_valid()) node.forward = moved_[at(node.forward.index)];
      const std::optional<Cut> cut = cut_of(id);
      if (cut)
        add_pieces(node, id, *cut);
      else
        keep(std::move(node), id);
      has_any = has_any || cut;
      moved_[at(id.index)] = {static_cast<int>(out_.nodes.size()) - 1};
    }
    if (!has_any) return graph_;
    const std::vector<NodeId> all = out_.node_ids();
    const std::vector<ValueId> same(out_.values.size());
    return rebuild(std::move(out_), all, same);
  }

 private:
  // ---- what is done in pieces ----

  NodeLayouts layouts(NodeId id) const { return layouts_of(calls_.rule(id), *graph_.node(id).strategy); }

  /// As it is made, or kept; nothing where it is brought elsewhere at once.
  std::optional<Layout> made(ValueId v) const {
    const Value& value = graph_.value(v);
    const Node& node = graph_.node(value.producer);
    if (node.op->kind != OpKind::compute) return value.layout;
    if (!node.strategy || value.layout) return std::nullopt;
    return layouts(value.producer).results[at(value.result)];
  }

  /// It is kept from step to step, perhaps in another type: what gathers it starts ahead anyway.
  bool is_weight(ValueId v) const {
    const Node* node = &graph_.node(graph_.value(v).producer);
    while (node->op->kind == OpKind::compute && node->operands.size() == 1)
      node = &graph_.node(graph_.value(node->operands.front()).producer);
    return node->op->kind == OpKind::parameter || node->op->kind == OpKind::state;
  }

  bool is_product(NodeId id) const {
    const Node& node = graph_.node(id);
    return node.results.size() == 1 && !node.op->routed &&
           work_kind(calls_.rule(id)) == WorkKind::contraction;
  }

  std::optional<Cut> cut_of(NodeId id) const {
    const Node& node = graph_.node(id);
    if (node.op->kind != OpKind::compute || !node.strategy || node.space == Space::host ||
        (!node.op->block && !is_product(id)))
      return std::nullopt;
    const Rule& rule = calls_.rule(id);
    for (int l = 0; l < static_cast<int>(rule.loops.size()); ++l)
      if (!rule.loops[at(l)].stays_whole())
        if (const auto rows = rows_along(rule, l))
          if (auto cut = cut_along(id, *rows, rule.loops[at(l)].size);
              cut && is_alike_in_pieces(graph_, node, *rows, cut->pieces))
            return cut;
    return std::nullopt;
  }

  std::optional<Cut> cut_along(NodeId id, const RowDims& rows, std::int64_t size) const {
    const Node& node = graph_.node(id);
    const NodeLayouts lies = layouts(id);
    const Mesh& mesh = graph_.meshes[at(node.strategy->mesh)];
    Cut out{.rows = rows};
    const auto [first, dim] = rows.operands.front();
    if (is_product(id) && rows.operands.size() == 1 && !lies.results[0].is_partial())
      if (const auto has = made(node.operands[first]); has && has->mesh == node.strategy->mesh &&
                                                       !is_weight(node.operands[first]) &&
                                                       is_split_further(*has, lies.operands[first], dim)) {
        out.gathered = has->dims[dim];
        return sized(out, *out.gathered, mesh, size);
      }
    const InPieces* const theirs = common_pieces(node, rows, lies);
    if (node.results.size() == 1) out.summed = summed(node.results[0], lies.results[0], rows.results[0]);
    if (out.summed) {
      const std::int64_t parts = mesh.count(*out.summed);
      if (theirs && theirs->parts == parts) return of(std::move(out), *theirs);
      const auto is_partial = [&](const auto& rows_of) { return lies.operands[rows_of.first].is_partial(); };
      if (!is_product(id) || std::ranges::any_of(rows.operands, is_partial)) return std::nullopt;
      return sized(out, *out.summed, mesh, size);
    }
    return theirs ? std::optional(of(std::move(out), *theirs)) : std::nullopt;
  }

  static Cut of(Cut cut, const InPieces& theirs) {
    cut.parts = theirs.parts;
    cut.pieces = static_cast<std::int64_t>(theirs.of.size());
    return cut;
  }

  /// Rows of `size` that lie over `apart`, each part in as many pieces; nothing where these would be unequal.
  static std::optional<Cut> sized(Cut cut, const Axes& apart, const Mesh& mesh, std::int64_t size) {
    const std::int64_t parts = mesh.count(apart);
    if (!apart.is_cut_plainly()) return std::nullopt;
    for (std::int64_t pieces = most_pieces; pieces >= fewest_pieces; pieces /= 2)
      if (size % (parts * pieces) == 0 && size > pieces) {
        cut.parts = parts;
        cut.pieces = pieces;
        return cut;
      }
    return std::nullopt;
  }

  /// In which all operands with rows are there, as they are read; null: they are not, or some are in others.
  const InPieces* common_pieces(const Node& node, const RowDims& rows, const NodeLayouts& lies) const {
    const InPieces* out = nullptr;
    for (const auto& [i, dim] : rows.operands) {
      const auto has = had_.find(node.operands[i]);
      if (has == had_.end() || has->second.dim != dim || made(node.operands[i]) != lies.operands[i])
        return nullptr;
      if (out && (out->parts != has->second.parts || out->of.size() != has->second.of.size())) return nullptr;
      out = &has->second;
    }
    return out;
  }

  /// Over which dim `d` of `v`, made in `makes`, is split when it has been added up, for all who read it; nothing where it is not, or
  /// is the gradient of a parameter, which is added up when all of it is there.
  std::optional<Axes> summed(ValueId v, const Layout& makes, std::size_t d) const {
    const auto is_parameter = [&](ValueId of) {
      return graph_.node(graph_.value(of).producer).op->kind == OpKind::parameter;
    };
    if (makes.sum.empty() || !makes.max.empty() || is_held_[at(v.index)] ||
        std::ranges::any_of(graph_.value(v).gradient_of, is_parameter))
      return std::nullopt;
    const std::optional<Layout> wanted = wanted_of_all(v);
    if (!wanted || (wanted->mesh != makes.mesh && !wanted->used().empty())) return std::nullopt;
    const Layout whole = reduced(makes);
    if (*wanted == whole) return whole.dims[d];
    const bool is_scattered =
        is_split_further(*wanted, whole, d) && wanted->dims[d].without(whole.dims[d]).sorted() == makes.sum;
    return is_scattered ? std::optional(wanted->dims[d]) : std::nullopt;
  }

  /// In which all who read it have it.
  std::optional<Layout> wanted_of_all(ValueId v) const {
    std::optional<Layout> out = graph_.value(v).layout;
    for (const NodeId user : users_[at(v.index)]) {
      const Node& node = graph_.node(user);
      if (!node.strategy) return std::nullopt;
      const NodeLayouts lies = layouts(user);
      for (std::size_t i = 0; i < node.operands.size(); ++i) {
        if (node.operands[i] != v) continue;
        if (out && *out != lies.operands[i]) return std::nullopt;
        out = lies.operands[i];
      }
    }
    return out;
  }

  // ---- what it becomes ----

  void keep(Node node, NodeId id) {
    const bool reads_layouts = node.op->kind == OpKind::compute && node.strategy;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      put_together(node.operands[i], node);
      if (reads_layouts) node.operands[i] = gathered_whole(node, i, id);
    }
    const NodeId fresh{static_cast<int>(out_.nodes.size())};
    for (ValueId v : node.results) {
      out_.value(v).producer = fresh;
      is_whole_[at(v.index)] = true;
    }
    out_.nodes.push_back(std::move(node));
  }

  /// Defines `v` where it is read by `reader`, if so far it is there in pieces alone.
  void put_together(ValueId v, const Node& reader) {
    if (is_whole_[at(v.index)]) return;
    const InPieces& pieces = had_.at(v);
    const std::size_t first = begin(reader);
    define(v, of_pieces(builder_, pieces.of, pieces.dim, pieces.parts));
    lay_out(first, layouts(graph_.value(v).producer).results[at(graph_.value(v).result)], reader);
  }

  void define(ValueId v, ValueId made) {
    Value& value = out_.value(v);
    value.producer = out_.value(made).producer;
    value.result = out_.value(made).result;
    std::ranges::replace(out_.node(value.producer).results, made, v);
    is_whole_[at(v.index)] = true;
  }

  /// What others of this phase have had gathered in pieces, where operand `i` is that; else as it is.
  ValueId gathered_whole(const Node& node, std::size_t i, NodeId id) {
    const auto known = gathered_.find({node.operands[i], node.phase});
    if (known == gathered_.end()) return node.operands[i];
    auto& [pieces, layout, whole] = known->second;
    if (layouts(id).operands[i] != layout) return node.operands[i];
    if (!whole.is_valid()) {
      const std::size_t first = begin(node);
      whole = of_pieces(builder_, pieces.of, pieces.dim, pieces.parts);
      lay_out(first, layout, node);
    }
    return whole;
  }

  void add_pieces(const Node& node, NodeId id, const Cut& cut) {
    const NodeLayouts lies = layouts(id);
    std::map<std::size_t, InPieces> rows;  // by operand
    for (const auto& [i, dim] : cut.rows.operands) rows[i] = rows_of(node, i, dim, cut, lies.operands[i]);
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      if (!rows.contains(i)) put_together(node.operands[i], node);
    if (cut.gathered) {
      const std::size_t i = cut.rows.operands.front().first;
      gathered_.try_emplace({node.operands[i], node.phase}, Gathered{rows.at(i), lies.operands[i], {}});
    }
    std::vector<InPieces> results;
    for (const std::size_t dim : cut.rows.results) results.push_back({{}, dim, cut.parts});
    for (std::size_t k = 0; k < at(static_cast<int>(cut.pieces)); ++k) {
      std::vector<ValueId> operands = node.operands;
      for (const auto& [i, pieces] : rows) operands[i] = pieces.of[k];
      const std::size_t first = begin(node);
      const std::vector<ValueId> made = builder_.call_all(*node.op, std::move(operands), node.attributes);
      for (std::size_t r = 0; r < made.size(); ++r) results[r].of.push_back(made[r]);
      out_.nodes[first].strategy = node.strategy;
      finish(first, node);
    }
    if (cut.summed) return add_sum(node, results.front(), lies.results[0], *cut.summed);
    for (std::size_t r = 0; r < results.size(); ++r) {
      const ValueId v = node.results[r];
      had_[v] = std::move(results[r]);
      if (is_held_[at(v.index)] || graph_.value(v).layout) put_together(v, node);
    }
  }

  /// Operand `i` in pieces: as it is there, or split here.
  InPieces rows_of(const Node& node, std::size_t i, std::size_t dim, const Cut& cut, const Layout& reads) {
    const ValueId x = node.operands[i];
    const auto has = had_.find(x);
    if (!cut.gathered && has != had_.end() && has->second.dim == dim && has->second.parts == cut.parts &&
        std::ssize(has->second.of) == cut.pieces)
      return has->second;
    put_together(x, node);
    Layout apart = reads;
    if (cut.gathered) apart.dims[dim] = *cut.gathered;
    apart.mesh = apart.used().empty() ? 0 : node.strategy->mesh;
    auto& out = split_[{x, dim, cut.parts, cut.pieces, node.phase, apart}];
    if (out.empty()) {
      const std::size_t first = begin(node);
      out = in_pieces(builder_, x, dim, cut.parts, cut.pieces);
      lay_out(first, apart, node);
    }
    return {out, dim, cut.parts};
  }

  /// The result of `node` from its pieces, which are added up one by one.
  void add_sum(const Node& node, const InPieces& pieces, const Layout& makes, const Axes& apart) {
    Layout behind = reduced(makes);
    behind.dims[pieces.dim] = apart;
    behind.mesh = behind.used().empty() ? 0 : node.strategy->mesh;
    const std::size_t first = begin(node);
    define(node.results[0], of_pieces(builder_, pieces.of, pieces.dim, pieces.parts));
    lay_out(first, behind, node);
  }

  /// Nodes from here on are of `node`.
  std::size_t begin(const Node& node) {
    builder_.set_phase(node.phase);
    builder_.set_forward(node.forward);
    return out_.nodes.size();
  }

  void finish(std::size_t first, const Node& node) {
    for (std::size_t n = first; n < out_.nodes.size(); ++n) {
      out_.nodes[n].is_recomputed = node.is_recomputed;
      out_.nodes[n].owner = node.owner;
    }
  }

  /// Strategies of the nodes from `first` on, which move elements about: what they read from before lies in `layout`.
  void lay_out(std::size_t first, const Layout& layout, const Node& node) {
    std::map<ValueId, Layout> lies;
    for (std::size_t n = first; n < out_.nodes.size(); ++n) {
      Node& made = out_.nodes[n];
      const Rule rule = rule_of(out_, made);
      Strategy s = whole(rule);
      for (std::size_t i = 0; i < made.operands.size(); ++i) {
        const auto known = lies.find(made.operands[i]);
        const Layout& from = known == lies.end() ? layout : known->second;
        for (std::size_t d = 0; d < from.dims.size(); ++d)
          if (!from.dims[d].empty() && !rule.operands[i].dims[d].empty())
            s.loops[at(rule.operands[i].dims[d].front())] = from.dims[d];
        if (!from.sum.empty()) s.linear.at(0) = from.sum;
      }
      s.mesh = used_axes(s).empty() ? 0 : layout.mesh;
      const NodeLayouts made_in = layouts_of(rule, s);
      for (std::size_t r = 0; r < made.results.size(); ++r) lies[made.results[r]] = made_in.results[r];
      made.strategy = std::move(s);
    }
    finish(first, node);
  }

  /// A value that is gathered in pieces.
  struct Gathered {
    InPieces pieces;
    Layout layout;  // as it is read
    ValueId whole;  // of the pieces; invalid: nobody has asked for it
  };
  using Split = std::tuple<ValueId, std::size_t, std::int64_t, std::int64_t, Phase, Layout>;

  const Graph& graph_;
  const Calls calls_;
  const Users users_;
  const std::vector<bool> is_held_;
  Graph out_;
  Builder builder_;
  std::map<ValueId, InPieces> had_;  // what was computed in pieces
  std::map<Split, std::vector<ValueId>> split_;
  std::map<std::pair<ValueId, Phase>, Gathered> gathered_;
  std::vector<NodeId> moved_;   // per node the last of those in its stead
  std::vector<bool> is_whole_;  // per value of `graph_`: it is defined
};

}  // namespace

Graph with_cut_products(const Graph& graph) { return Cutting(graph).run(); }

}  // namespace shardwright
