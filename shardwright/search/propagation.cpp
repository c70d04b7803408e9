// Sharding propagation: strategies spread from the fixed operators (annotated, or fed by data whose batch is
// split) to all others, with the fewest redistributions. Two stages:
//
// 1. Waves. In each wave every undecided node next to a decided one is chosen at once, seeing only earlier
//    waves; a node whose other operands are still undecided waits while others can go on (Frontier). The
//    choice is the legal strategy with the least (communication on the edges to decided neighbours, own
//    reduction, local copies, work per device), then the first in lexicographic order (Price).
// 2. Sweeps. While some node that is not fixed can change to lower the communication of all its edges, the one
//    with the largest gain (ties: by name) changes. The sum falls each time, so this ends.
//
// Both see sets, never the order of nodes, so the result does not depend on the order in which operators were
// annotated or written. After the sharding propagation of seeds 000 and 002 (docs/search.md).
// Both follow what changes: a wave looks at the nodes beside the last one, and a change has the prices of those judged
// again that see it. Complexity: O(nodes * candidates * edges) look-ups of known redistributions.

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "shardwright/graph/op.h"
#include "shardwright/plan/batch.h"
#include "shardwright/search/planning/problem.h"

namespace shardwright::search {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// On meshes of at most so many axes all strategies are listed; their number grows as (loop dims + 1)^axes.
constexpr int most_listed_axes = 3;

/// The price of a redistribution that the user does not want: above all that are real.
constexpr double unwanted_seconds = 1e3;

struct Candidate {
  Strategy strategy;
  NodeLayouts layouts;
  double own_seconds = 0;  // reducing partial results
  double points = 0;       // loop points per device
};

/// Smaller is better; seconds are rounded to nanoseconds so that equal sums compare equal.
using Price = std::tuple<double, double, double, double>;

struct Edge {
  int node = 0;     // the other end
  int operand = 0;  // of the consumer
  int result = 0;   // of the producer
  bool is_incoming = false;
  ValueId value;
};

class Propagation {
 public:
  Propagation(const Problem& problem, const SearchOptions& options)
      : problem_(problem),
        options_(options),
        graph_(*problem.graph),
        chosen_(graph_.nodes.size(), -1),
        is_fixed_(graph_.nodes.size(), false),
        candidates_(graph_.nodes.size()),
        edges_(graph_.nodes.size()),
        readers_(graph_.values.size()),
        readers_as_(graph_.values.size()),
        reasons_(graph_.nodes.size()) {}

  SearchResult run() {
    collect();
    // Whole data (full_batch) say how they are read, not how to compute.
    const auto& asked = problem_.constraints.layouts;
    const bool is_silent =
        std::all_of(asked.begin(), asked.end(), [](const auto& l) { return l.second.is_replicated(); });
    if (is_silent && !has_fixed_) seed_by_batch();
    waves();
    sweeps();
    SearchResult out{.status = SearchStatus::feasible};
    out.choices.resize(graph_.nodes.size());
    for (int n : nodes_) out.choices[at(n)] = {choice(n).strategy, reasons_[at(n)]};
    return out;
  }

 private:
  // ---- the problem in indices ----

  void collect() {
    for (NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      if (node.op->kind != OpKind::compute || node.phase != Phase::forward) continue;
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

  void collect_candidates(NodeId id) {
    const Node& node = graph_.node(id);
    const Rule rule = rule_of(graph_, node);
    auto& out = candidates_[at(id.index)];
    if (const auto& fixed = problem_.constraints.strategies[at(id.index)]) {
      out.push_back(candidate(node, rule, *fixed));
      is_fixed_[at(id.index)] = has_fixed_ = true;
      reasons_[at(id.index)] = problem_.constraints.reasons[at(id.index)];
      return;
    }
    const auto& meshes = problem_.constraints.meshes;
    for (std::size_t m = 0; m < meshes.size(); ++m) {
      if (meshes[m].axis_count() > most_listed_axes) {
        add(id.index, rule, whole(rule));
        continue;
      }
      for (Strategy& s : legal_strategies(rule, meshes[m], {.linear = false, .all_orders = true})) {
        s.mesh = used_axes(s).empty() ? 0 : static_cast<int>(m);
        if (m == 0 || s.mesh > 0) add(id.index, rule, s);
      }
    }
  }

  void add(int n, const Rule& rule, const Strategy& s) {
    if (options_.fully_use_devices && !is_all_or_nothing(s, problem_.constraints.meshes[at(s.mesh)])) return;
    auto& all = candidates_[at(n)];
    Candidate c = candidate(graph_.nodes[at(n)], rule, s);
    const bool is_known =
        std::any_of(all.begin(), all.end(), [&](const Candidate& k) { return k.strategy == s; });
    if (is_known || (problem_.parameters_stay_whole && !keeps_parameters_whole(graph_.nodes[at(n)], c)))
      return;
    all.push_back(std::move(c));
  }

  /// On meshes of many axes strategies are not listed; those that decided neighbours and data suggest are
  /// offered: that of each neighbour alone, and of all together as far as they agree.
  void add_suggested(int n) {
    const auto& meshes = problem_.constraints.meshes;
    const bool lists_all = std::all_of(meshes.begin(), meshes.end(),
                                       [](const Mesh& m) { return m.axis_count() <= most_listed_axes; });
    if (lists_all || is_fixed_[at(n)]) return;
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

  /// Splits the loop dims of `tensor` as `layout` does, where that is legal beside what `s` splits already.
  void follow(Strategy& s, const Rule& rule, const RuleTensor& tensor, const Layout& layout) const {
    const Mesh& mesh = problem_.constraints.meshes[at(layout.mesh)];
    for (std::size_t d = 0; d < tensor.dims.size() && d < layout.dims.size(); ++d) {
      if (tensor.dims[d].empty() || layout.dims[d].empty()) continue;
      Strategy wider = s;
      wider.loops[at(tensor.dims[d].front())] = layout.dims[d];
      if (!violation(rule, wider, mesh)) s = std::move(wider);
    }
  }

  Candidate candidate(const Node& node, const Rule& rule, const Strategy& s) {
    Candidate c{.strategy = s, .layouts = layouts_of(rule, s)};
    for (std::size_t i = 0; i < node.results.size(); ++i)
      if (c.layouts.results[i].is_partial())
        c.own_seconds += communication(c.layouts.results[i], reduced(c.layouts.results[i]), node.results[i]);
    c.points = 1;
    const Mesh& mesh = problem_.constraints.meshes[at(s.mesh)];
    for (std::size_t l = 0; l < rule.loops.size(); ++l)
      c.points *= static_cast<double>(rule.loops[l].size) / mesh.count(s.loops[l]);
    return c;
  }

  bool is_parameter(ValueId v) const {
    return graph_.node(graph_.value(v).producer).op->kind == OpKind::parameter;
  }

  bool keeps_parameters_whole(const Node& node, const Candidate& c) const {
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      if (is_parameter(node.operands[i]) && !c.layouts.operands[i].is_replicated()) return false;
    }
    return true;
  }

  const Candidate& choice(int n) const { return candidates_[at(n)][at(chosen_[at(n)])]; }
  bool is_decided(int n) const { return chosen_[at(n)] >= 0; }

  /// Without anything fixed, the data's batch is split over all devices (over as many axes as divide it).
  void seed_by_batch() {
    const Mesh& mesh = problem_.constraints.meshes[0];
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

  /// How a leaf lies, if that is fixed or seeded.
  const Layout* leaf_layout(ValueId v) const {
    const auto own = data_.find(v);
    if (own != data_.end()) return &own->second;
    if (graph_.node(graph_.value(v).producer).op->kind == OpKind::compute) return nullptr;
    const auto asked = problem_.constraints.layouts.find(v);
    return asked == problem_.constraints.layouts.end() ? nullptr : &asked->second;
  }

  // ---- prices ----

  double communication(const Layout& from, const Layout& to, ValueId v) {
    double seconds = 0;
    for (const Step& step : problem_.redistributor->find(from, to, graph_.value(v).type).steps)
      if (!is_local(step.kind)) seconds += step.seconds;
    return seconds;
  }

  double local_copies(const Layout& from, const Layout& to, ValueId v) {
    double seconds = 0;
    for (const Step& step : problem_.redistributor->find(from, to, graph_.value(v).type).steps)
      if (is_local(step.kind)) seconds += step.seconds;
    return seconds;
  }

  /// Elementwise follow: what a point-wise operator has made is read as it lies, whatever else that costs.
  double unwanted(const Layout& from, const Layout& to, ValueId v) {
    const bool is_pointwise = static_cast<bool>(graph_.node(graph_.value(v).producer).op->block);
    if (!options_.elementwise_follow || !is_pointwise) return 0;
    return problem_.redistributor->find(from, to, graph_.value(v).type).steps.empty() ? 0 : unwanted_seconds;
  }

  /// The layout in which the producer offers the value: as asked for, or reduced.
  Layout offered(const Candidate& producer, const Edge& e) const {
    const auto asked = problem_.constraints.layouts.find(e.value);
    if (asked != problem_.constraints.layouts.end()) return asked->second;
    return reduced(producer.layouts.results[at(e.result)]);
  }

  /// Over edges to decided neighbours, and to data and shared parameters.
  Price price(int n, const Candidate& c) {
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

  /// Of a parameter, or of data that come as their users want them: the layout nearest to `to` in which
  /// another decided node reads it. All users count alike, whichever stands first.
  const Layout* nearest_at_other_users(int n, ValueId v, const Layout& to) {
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

  bool comes_as_wanted(ValueId v) const {
    return graph_.node(graph_.value(v).producer).op->kind != OpKind::compute && !leaf_layout(v);
  }

  /// Calls `use(value, layout)` for what `n` reads by its choice of values that come as wanted, once for each.
  template <class F>
  void for_each_read(int n, F use) const {
    const auto& operands = graph_.nodes[at(n)].operands;
    const auto& layouts = choice(n).layouts.operands;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      bool is_new = comes_as_wanted(operands[i]);
      for (std::size_t j = 0; j < i; ++j)
        is_new = is_new && (operands[j] != operands[i] || layouts[j] != layouts[i]);
      if (is_new) use(operands[i], layouts[i]);
    }
  }

  bool reads(int n, ValueId v, const Layout& layout) const {
    bool out = false;
    for_each_read(n, [&](ValueId w, const Layout& l) { out = out || (w == v && l == layout); });
    return out;
  }

  void choose(int n, int candidate) {
    if (is_decided(n))
      for_each_read(n, [this](ValueId v, const Layout& layout) {
        auto& readers = readers_as_[at(v.index)];
        if (--readers.at(layout) == 0) readers.erase(layout);
      });
    chosen_[at(n)] = candidate;
    for_each_read(n, [this](ValueId v, const Layout& layout) { ++readers_as_[at(v.index)][layout]; });
  }

  struct Best {
    int index = 0;
    Price price;
  };
  Best best(int n) {
    Best out;
    const auto& all = candidates_[at(n)];
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Price p = price(n, all[i]);
      if (i == 0 || p < out.price ||
          (p == out.price && is_before(all[i].strategy, all[at(out.index)].strategy)))
        out = {static_cast<int>(i), p};
    }
    return out;
  }

  /// Splits of earlier loop dims come first (rows before columns before a sum), and axes in the mesh's order.
  static bool is_before(const Strategy& a, const Strategy& b) {
    for (std::size_t l = 0; l < a.loops.size(); ++l) {
      if (a.loops[l] == b.loops[l]) continue;
      if (a.loops[l].size() != b.loops[l].size()) return a.loops[l].size() > b.loops[l].size();
      return a.loops[l] < b.loops[l];
    }
    return false;
  }

  // ---- waves ----

  /// Undecided nodes beside decided ones or fixed data, in their order.
  struct Frontier {
    std::set<int> ready;    // all operands that come from nodes are decided, or reached from behind
    std::set<int> waiting;  // some are not
  };

  /// Puts `n` where it belongs by now.
  void place(int n, Frontier& frontier) const {
    frontier.ready.erase(n);
    frontier.waiting.erase(n);
    if (is_decided(n)) return;
    bool has_decided = false, misses_operand = false, is_from_behind = false;
    for (const Edge& e : edges_[at(n)]) {
      has_decided = has_decided || is_decided(e.node);
      if (e.is_incoming && !is_decided(e.node)) misses_operand = true;
      if (!e.is_incoming && is_decided(e.node)) is_from_behind = true;
    }
    for (ValueId v : graph_.nodes[at(n)].operands) has_decided = has_decided || leaf_layout(v);
    if (has_decided) (misses_operand && !is_from_behind ? frontier.waiting : frontier.ready).insert(n);
  }

  void waves() {
    for (int n : nodes_)
      if (is_fixed_[at(n)]) choose(n, 0);
    Frontier frontier;
    for (int n : nodes_) place(n, frontier);
    for (;;) {
      const std::set<int>& next = frontier.ready.empty() ? frontier.waiting : frontier.ready;
      std::vector<int> wave(next.begin(), next.end());
      if (wave.empty()) wave = undecided();  // nothing leads there: each by itself
      if (wave.empty()) return;
      std::vector<int> found;
      for (int n : wave) add_suggested(n);
      for (int n : wave) found.push_back(best(n).index);
      for (std::size_t i = 0; i < wave.size(); ++i)
        reasons_[at(wave[i])] = reason(wave[i], candidates_[at(wave[i])][at(found[i])]);
      for (std::size_t i = 0; i < wave.size(); ++i) choose(wave[i], found[i]);
      for (int n : wave) {
        place(n, frontier);
        for (const Edge& e : edges_[at(n)]) place(e.node, frontier);
      }
    }
  }

  std::vector<int> undecided() const {
    std::vector<int> out;
    for (int n : nodes_)
      if (!is_decided(n)) out.push_back(n);
    return out;
  }

  // ---- sweeps ----

  static double total(const Price& p) { return std::get<0>(p) + std::get<1>(p); }

  struct Change {
    double gain = 0;
    int to = 0;
  };

  /// The change of `n` that gains most, if that is half a nanosecond.
  std::optional<Change> best_change(int n) {
    std::optional<Change> out;
    if (is_fixed_[at(n)]) return out;
    const double now = total(price(n, choice(n)));
    for (std::size_t i = 0; i < candidates_[at(n)].size(); ++i) {
      const double gain = now - total(price(n, candidates_[at(n)][i]));
      if (gain >= 0.5 && (!out || gain > out->gain)) out = {gain, static_cast<int>(i)};
    }
    return out;
  }

  /// Those whose prices see whether `n` chooses as it does: neighbours, and who reads what it reads, unless two others
  /// read that in the same layout.
  std::set<int> witnesses(int n) const {
    std::set<int> out{n};
    for (const Edge& e : edges_[at(n)]) out.insert(e.node);
    for_each_read(n, [&](ValueId v, const Layout& layout) {
      if (readers_as_[at(v.index)].at(layout) <= 2)
        out.insert(readers_[at(v.index)].begin(), readers_[at(v.index)].end());
    });
    return out;
  }

  void sweeps() {
    for (int n : nodes_) add_suggested(n);
    using Place = std::tuple<double, std::string_view, int>;  // the largest gain first, ties by name
    std::set<Place> order;
    std::vector<std::optional<Change>> changes(graph_.nodes.size());
    const auto judge = [&](int n) {
      std::optional<Change>& change = changes[at(n)];
      if (change) order.erase({-change->gain, name(n), n});
      change = best_change(n);
      if (change) order.insert({-change->gain, name(n), n});
    };
    for (int n : nodes_) judge(n);
    for (std::size_t round = 0; round < 4 * nodes_.size() && !order.empty(); ++round) {
      const int n = std::get<2>(*order.begin());
      std::set<int> to_judge = witnesses(n);
      choose(n, changes[at(n)]->to);
      to_judge.merge(witnesses(n));
      reasons_[at(n)] = reason(n, choice(n)) + ", changed to move less in all";
      for (int m : to_judge) judge(m);
    }
  }

  const std::string& name(int n) const { return graph_.name_of(NodeId{n}); }

  // ---- reasons ----

  std::string reason(int n, const Candidate& c) {
    std::string out;
    const auto say = [&](std::string_view from, std::string_view who, const Layout& has, const Layout& wants,
                         ValueId v) {
      const Redistribution& r = problem_.redistributor->find(has, wants, graph_.value(v).type);
      out += fmt::format(
          "{}{} {}: {}", out.empty() ? "" : "; ", from, who,
          r.collective_count() ? to_text(r, problem_.redistributor->meshes()) : "no communication");
    };
    for (const Edge& e : edges_[at(n)]) {
      if (!is_decided(e.node)) continue;
      if (e.is_incoming)
        say("from", name(e.node), offered(choice(e.node), e), c.layouts.operands[at(e.operand)], e.value);
      else
        say("to", name(e.node), offered(c, e), choice(e.node).layouts.operands[at(e.operand)], e.value);
    }
    for (std::size_t i = 0; i < graph_.nodes[at(n)].operands.size(); ++i) {
      const ValueId v = graph_.nodes[at(n)].operands[i];
      if (const Layout* data = leaf_layout(v))
        say(is_parameter(v) ? "from" : "from data", graph_.value(v).name, *data, c.layouts.operands[i], v);
    }
    return out.empty() ? "nothing leads there" : out;
  }

  const Problem& problem_;
  const SearchOptions& options_;
  const Graph& graph_;
  std::vector<int> nodes_;  // forward compute nodes
  std::vector<int> chosen_;
  std::vector<bool> is_fixed_;
  std::vector<std::vector<Candidate>> candidates_;
  std::vector<std::vector<Edge>> edges_;
  std::vector<std::vector<int>> readers_;  // by value
  /// By value that comes as wanted: how many decided nodes read it in which layouts.
  std::vector<std::map<Layout, int>> readers_as_;
  std::vector<std::string> reasons_;
  std::map<ValueId, Layout> data_;  // seeded
  bool has_fixed_ = false;
};

SearchResult run(const Problem& problem, const SearchOptions& options) {
  return Propagation(problem, options).run();
}

}  // namespace

std::vector<Searcher> propagation() {
  return {{.name = "propagation",
           .aliases = {"sharding_propagation"},
           .doc = "spread the strategies of the fixed operators with the fewest redistributions",
           .ignores = {Setting::costs, Setting::order, Setting::mem_coeff, Setting::fold_layers,
                       Setting::described, Setting::log},
           .run = run}};
}

}  // namespace shardwright::search
