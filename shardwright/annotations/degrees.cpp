#include "shardwright/annotations/degrees.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "shardwright/annotations/context_split.h"
#include "shardwright/annotations/degree_checks.h"
#include "shardwright/annotations/expert_axes.h"
#include "shardwright/annotations/forward_readers.h"
#include "shardwright/annotations/grains.h"
#include "shardwright/annotations/low_rank.h"
#include "shardwright/annotations/operator_splits.h"
#include "shardwright/annotations/sequence_dims.h"
#include "shardwright/annotations/spread_axes.h"
#include "shardwright/base/index.h"
#include "shardwright/cost/compute.h"
#include "shardwright/graph/forward_operator.h"
#include "shardwright/graph/op.h"
#include "shardwright/layout/rule_dims.h"
#include "shardwright/plan/batch.h"

namespace shardwright {
namespace {

bool are_equal(const std::vector<int>& shares) {
  return std::ranges::all_of(shares, [&](int share) { return share == shares.front(); });
}

/// One walk over the operators, on a mesh on which dp and tp are one axis or several.
class Splitter {
 public:
  Splitter(const Graph& graph, const Calls& calls, const Constraints& asked, const DegreeParts& parts,
           bool has_equal_parts)
      : graph_(graph),
        calls_(calls),
        batch_(batch_dims(graph)),
        grains_(graph, calls, has_equal_parts),
        readers_(graph),
        said_(graph, asked),
        low_rank_(low_rank_of(graph, calls)),
        by_sequence_parallel_(asked.sequence_parallel.value_or(false)) {
    if (by_sequence_parallel_ || parts.context.back() > 1) sequence_ = sequence_dims(graph, calls);
    data_ = add_axes(mesh_, "dp", parts.data), context_ = add_axes(mesh_, "cp", parts.context);
    tensor_ = add_axes(mesh_, "tp", parts.tensor);
    if (asked.batch_shares && !data_.empty() && !are_equal(*asked.batch_shares)) {
      mesh_.axes[at(data_[0])].shares = *asked.batch_shares;
      batch_axes_ = data_.by_shares();
    } else {
      batch_axes_ = data_;
    }
    context_split_ = {&graph, &sequence_, &mesh_, context_, asked.context};
    experts_ = expert_axes(mesh_, asked.degrees), routing_ = routing_nodes(graph);
    split_.resize(graph.values.size());
    is_weight_.resize(graph.values.size());
    out_.meshes = {mesh_};
    out_.strategies.resize(graph.nodes.size());
    out_.reasons.resize(graph.nodes.size());
  }

  /// The strategies; they are good where no axis must be cut.
  FixedChoices run() {
    for (NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      if (node.phase != Phase::forward) break;
      if (is_forward_operator(node))
        decide(id, node);
      else
        read_leaf(node);
    }
    for (int n = static_cast<int>(graph_.nodes.size()); n-- > 0;)
      if (is_forward_operator(graph_.nodes[at(n)])) follow_readers({n});
    return std::move(out_);
  }

  /// Where an axis of tp is longer than a dim has parts.
  struct Cut {
    std::size_t part = 0;  // of tp
    int devices = 0;       // that the dim has parts for; 0: there is none such
  };
  const Cut& cut() const { return cut_; }
  bool splits_tensor() const { return splits_tensor_; }
  const ContextSplit& context() const { return context_split_; }

 private:
  /// Axes of tp behind each dim of a value, as it is after sums over tp.
  using Dims = std::vector<Axes>;

  void read_leaf(const Node& node) {
    const ValueId v = node.results.front();
    split_[at(v.index)].resize(graph_.value(v).type.shape.size());
    const OpKind kind = node.op->kind;
    is_weight_[at(v.index)] =
        kind != OpKind::input && !(kind == OpKind::receive && !batch_dims_of_leaf(graph_, node).empty());
  }

  void decide(NodeId id, const Node& node) {
    const Rule& rule = calls_.rule(id);
    Strategy s = whole(rule);
    std::string reason = "made of weights: as it is read";
    by_sequence_ = -1;
    const bool reads_data = !std::all_of(node.operands.begin(), node.operands.end(),
                                         [&](ValueId v) { return is_weight_[at(v.index)]; });
    if (auto said = said_.choice_of(id, rule, mesh_, grains_)) {
      s = std::move(said->strategy);
      reason = std::move(said->reason);
      for (int axis : used_axes(s)) splits_tensor_ = splits_tensor_ || tensor_.contains(axis);
      by_sequence_ = sequence_loop(node, rule, s);
    } else if (reads_data && node.op->routed) {
      reason = split_experts(node, rule, s);
    } else if (reads_data) {
      split_batch(node, rule, s);
      const bool goes_round = has_round(rule);
      if (!goes_round) context_split_.by_sequence(node, rule, s);
      reason = tensor_.empty() ? "dp: the batch is split" : split_tensor(id, node, rule, s);
      if (goes_round) context_split_.around(node, rule, s);
      if (context_split_.is_in(s)) reason += ", cp: " + context_split_.why();
    }
    const NodeLayouts layouts = layouts_of(rule, s);
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      Dims& dims = split_[at(node.results[i].index)];
      for (const Axes& axes : layouts.results[i].dims)
        dims.push_back(features_of(axes, i, rule, dims.size()));
      is_weight_[at(node.results[i].index)] = !reads_data;
    }
    out_.strategies[at(id.index)] = std::move(s);
    out_.reasons[at(id.index)] = std::move(reason);
  }

  /// Of the axes that shard a dim those of tp; what is split by the sequence counts as whole, for everybody may ask for
  /// it so.
  Axes features_of(const Axes& axes, std::size_t result, const Rule& rule, std::size_t dim) const {
    if (by_sequence_ >= 0) {
      const std::vector<int>& loops = rule.results[result].dims[dim];
      if (!loops.empty() && loops[0] == by_sequence_) return {};
    }
    const Axes out = axes.without(data_).without(context_);
    return out.size() == axes.size() ? axes : out;
  }

  bool is_legal(const Rule& rule, const Strategy& s) const {
    for (std::size_t l = 0; l < s.loops.size(); ++l) {
      const bool is_uneven = s.loops[l].grain() == 0 && rule.loops[l].size % mesh_.count(s.loops[l]);
      if (is_uneven || (!s.loops[l].empty() && rule.loops[l].stays_whole())) return false;
    }
    return !violation_as_asked(rule, s, mesh_);
  }

  void split_batch(const Node& node, const Rule& rule, Strategy& s) const {
    if (data_.empty()) return;
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      for (std::size_t d = 0; d < rule.operands[i].dims.size(); ++d) {
        if (!batch_[at(node.operands[i].index)][d] || rule.operands[i].dims[d].empty()) continue;
        const int loop = rule.operands[i].dims[d][0];
        Strategy tried = s;
        tried.loops[at(loop)] = grains_.fit(batch_axes_, node, rule, loop, mesh_);
        if (is_legal(rule, tried)) {
          s = std::move(tried);
          return;
        }
        check_unsplit(graph_, node, rule.loops[at(loop)], mesh_.count(data_), batch_axes_.is_by_shares());
      }
  }

  /// Says why.
  std::string split_tensor(NodeId id, const Node& node, const Rule& rule, Strategy& s) {
    if (routing_.contains(id))  // of a few numbers for each row
      return split_sequence(node, rule, s) ? "tp: by the sequence"
                                           : "repeated over tp: it says which experts";
    if (take_over(node, rule, s)) return "tp: as what it reads is split";
    if (split_table(node, rule, s)) return "tp: the rows of its table are split";
    const bool is_product = reads_weight(node) && work_kind(rule) != WorkKind::streaming;
    if (is_product && is_narrow_beside(id))  // not worth its transfers: each makes all of it, or its tokens'
      return split_sequence(node, rule, s) ? "tp: by the sequence" : "repeated over tp, as it is of low rank";
    if (is_product)
      return split_columns(node, rule, s) ? "tp: by columns"
                                          : "repeated over tp: its weight is not cut so often";
    if (split_sequence(node, rule, s)) return "tp: by the sequence";
    return "repeated over tp";
  }

  /// Experts over ep, the features of each over etp; rows over what is left of dp, and of tp by the sequence.
  std::string split_experts(const Node& node, const Rule& rule, Strategy& s) {
    const std::size_t rows = node.op->routed->rows, x = at(node.operands[rows].index);
    std::vector<Axes> of_rows;
    for (std::size_t d = 0; d < rule.operands[rows].dims.size(); ++d)
      of_rows.push_back(batch_[x][d]                            ? data_
                        : sequence_.empty() || !sequence_[x][d] ? Axes()
                        : by_sequence_parallel_                 ? context_.with(tensor_)
                                                                : context_);
    for (const auto& [loop, axes] : expert_loops(node, rule, experts_, of_rows)) {
      Strategy tried = s;
      tried.loops[at(loop)] = grains_.fit(axes, node, rule, loop, mesh_);
      if (is_legal(rule, tried)) s = std::move(tried);
      for (int a : axes) splits_tensor_ = splits_tensor_ || tensor_.contains(a);
    }
    by_sequence_ = sequence_loop(node, rule, s);
    if (!experts_.experts.empty()) return "ep: experts are split";
    const bool is_split = std::ranges::any_of(used_axes(s), [&](int a) { return tensor_.contains(a); });
    return is_split ? "tp: the features of each expert are split" : "repeated over tp";
  }

  /// Of a pair beside a product: the first, and the second unless columns of what it is added to are split.
  bool is_narrow_beside(NodeId id) const {
    if (low_rank_.low.contains(id)) return true;
    const auto high = low_rank_.beside.find(id);
    return high != low_rank_.beside.end() &&
           std::ranges::all_of(split_[at(high->second.index)], &Axes::empty);
  }

  bool reads_weight(const Node& node) const {
    return std::ranges::any_of(node.operands, [&](ValueId v) { return is_weight_[at(v.index)]; });
  }

  bool take_over(const Node& node, const Rule& rule, Strategy& s) {
    bool found = false;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const Dims& dims = split_[at(node.operands[i].index)];
      for (std::size_t d = 0; d < dims.size(); ++d) {
        if (dims[d].empty() || rule.operands[i].dims[d].empty()) continue;
        Strategy tried = s;
        const bool fits = spread(dims[d], rule, rule.operands[i].dims[d], split_loops(rule, i, d), tried);
        if (!fits) check_may_be_whole(node, rule, rule.operands[i].dims[d][0]);
        if (!fits || !is_legal(rule, tried)) continue;
        s = std::move(tried);
        found = true;
      }
    }
    if (found && reads_weight(node) && work_kind(rule) != WorkKind::streaming) check_uses_all(node, s);
    splits_tensor_ = splits_tensor_ || found;
    return found;
  }

  /// Keys may have fewer heads than tp, but what they are asked by may not: some devices would repeat all of it.
  void check_uses_all(const Node& node, const Strategy& s) const {
    const int used = mesh_.count(used_axes(s).without(data_).without(context_));
    if (cut_.devices == 0 && used < mesh_.count(tensor_))
      throw error("tp={}: there are {} parts (heads) in front of {}", mesh_.count(tensor_), used,
                  graph_.value(node.results.front()).name);
  }

  /// Features that tp divides may be heads that it does not. To gather them would be another plan than was asked for.
  void check_may_be_whole(const Node& node, const Rule& rule, int loop) const {
    const std::int64_t size = rule.loops[at(loop)].size;
    if (size == 1 || rule.loops[at(loop)].stays_whole() || cut_.devices > 0) return;
    if (size % mesh_.count(tensor_))
      throw error(
          "tp={}: cannot share the {} parts (heads) of {}; heads of keys should be as many or divide it",
          mesh_.count(tensor_), size, graph_.value(node.results.front()).name);
  }

  /// Puts the axes behind a dim made of `loops` on those that may take some.
  bool spread(const Axes& axes, const Rule& rule, const std::vector<int>& loops,
              std::span<const int> may_take, Strategy& s) {
    const SpreadAxes out = spread_axes(axes, rule, loops, may_take, mesh_, tensor_, s);
    if (out.devices > 0) cut_ = {static_cast<std::size_t>(out.cut - tensor_[0]), out.devices};
    return out.fits;
  }

  /// A reduced dim that only one weight has: rows are chosen of it.
  bool split_table(const Node& node, const Rule& rule, Strategy& s) {
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      if (!is_weight_[at(node.operands[i].index)]) continue;
      for (int loop : own_loops(rule, i))
        if (std::ranges::none_of(rule.results, [&](const RuleTensor& t) { return has_loop(t, loop); }) &&
            put(loop, node, rule, s))
          return true;
    }
    return false;
  }

  bool split_columns(const Node& node, const Rule& rule, Strategy& s) {
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      if (!is_weight_[at(node.operands[i].index)]) continue;
      for (int loop : own_loops(rule, i))
        if (put(loop, node, rule, s)) return true;
    }
    return false;
  }

  bool put(int loop, const Node& node, const Rule& rule, Strategy& s) {
    Strategy tried = s;
    tried.loops[at(loop)] = grains_.fit(s.loops[at(loop)].with(tensor_), node, rule, loop, mesh_);
    if (!is_legal(rule, tried)) return false;
    s = std::move(tried);
    splits_tensor_ = true;
    return true;
  }

  /// The loop dim of the sequence that `s` splits over tp; -1 if there is none.
  int sequence_loop(const Node& node, const Rule& rule, const Strategy& s) const {
    for (std::size_t i = 0; i < node.operands.size() && by_sequence_parallel_; ++i)
      for (std::size_t d = 0; d < rule.operands[i].dims.size(); ++d)
        for (int loop : rule.operands[i].dims[d])
          if (sequence_[at(node.operands[i].index)][d] &&
              std::ranges::any_of(s.loops[at(loop)], [&](int a) { return tensor_.contains(a); }))
            return loop;
    return -1;
  }

  bool split_sequence(const Node& node, const Rule& rule, Strategy& s) {
    if (!by_sequence_parallel_)
      return false;  // else of what has features: a number for each token is repeated
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      for (std::size_t d = 0; d + 1 < rule.operands[i].dims.size(); ++d) {
        if (!sequence_[at(node.operands[i].index)][d] || rule.operands[i].dims[d].empty()) continue;
        const int loop = rule.operands[i].dims[d][0];
        if (!put(loop, node, rule, s)) continue;
        by_sequence_ = loop;
        return true;
      }
    return false;
  }

  // ---- from what comes behind ----

  /// What is made of weights alone is made where it is read. What is made in more parts than all its readers want is made
  /// in theirs: keys of few heads.
  void follow_readers(NodeId id) {
    if (said_.has(id)) return;
    const Node& node = graph_.node(id);
    const Rule& rule = calls_.rule(id);
    Strategy& s = *out_.strategies[at(id.index)];
    const std::optional<Layout> wanted = readers_.wanted(node.results.front(), calls_, out_.strategies);
    if (!wanted) return;
    const RuleTensor& result = rule.results.front();
    Strategy tried = s;
    const Axes used = used_axes(s);
    for (std::size_t d = 0; d < result.dims.size(); ++d) {
      if (result.dims[d].empty() || wanted->dims[d].empty()) continue;
      const int loop = result.dims[d][0];
      Axes& has = tried.loops[at(loop)];
      const Axes& asked = wanted->dims[d];
      if (std::ranges::any_of(has, [&](int a) { return context_.contains(a); })) continue;
      if (has.size() > asked.size() && has.prefix(asked.size()) == asked)
        has = asked;
      else if (has.empty() && std::ranges::none_of(asked, [&](int a) { return used.contains(a); }))
        spread(asked, rule, result.dims[d], result.dims[d], tried);
    }
    if (tried != s && is_legal(rule, tried)) s = std::move(tried);
  }

  const Graph& graph_;
  const Calls& calls_;
  BatchDims batch_;
  Grains grains_;
  ForwardReaders readers_;
  SaidOperators said_;
  LowRank low_rank_;
  bool by_sequence_parallel_;
  SequenceDims sequence_;  // empty: nothing is split by it
  Mesh mesh_;
  Axes data_, context_, tensor_;
  Axes batch_axes_;  // dp, by shares where the batch has some
  ContextSplit context_split_;
  ExpertAxes experts_;
  std::set<NodeId> routing_;
  std::vector<Dims> split_;      // per value
  std::vector<bool> is_weight_;  // per value: made of parameters and constants alone
  int by_sequence_ = -1;         // loop dim of the node at hand
  Cut cut_;
  bool splits_tensor_ = false;
  FixedChoices out_;
};

}  // namespace

FixedChoices fixed_choices_of(const Graph& graph, const Calls& calls, const Constraints& constraints,
                              bool has_equal_parts) {
  check_data(graph, calls, constraints, has_equal_parts);
  DegreeParts parts = expert_parts(constraints.degrees);
  parts.context = context_parts(constraints);
  for (;;) {
    Splitter splitter(graph, calls, constraints, parts, has_equal_parts);
    FixedChoices out = splitter.run();
    if (const auto [part, devices] = splitter.cut(); devices > 0) {
      parts.tensor.insert(parts.tensor.begin() + static_cast<std::ptrdiff_t>(part) + 1,
                          parts.tensor[part] / devices);
      parts.tensor[part] = devices;
      continue;
    }
    const int inner = splitter.context().exchanged();
    if (inner > 1) parts.context = {parts.context.front() / inner, inner};
    if (inner > 1) continue;
    out.repeats_tensor = constraints.degrees.sharing(Sharing::work) > 1 && !splitter.splits_tensor();
    out.has_context_ways = splitter.context().has_ways();
    out.repeats_context = constraints.degrees.sharing(Sharing::sequence) > 1 && !splitter.context().splits();
    return out;
  }
}

}  // namespace shardwright
