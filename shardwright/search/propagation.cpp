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
// Where nothing is fixed there are several starts (space/seeds.h): the batch split, nothing split, products split
// column then row. Each spreads by itself, and the best of their programs is taken.
//
// Both see sets, never the order of nodes, so the result does not depend on the order in which operators were
// annotated or written. After the sharding propagation of seeds 000 and 002 (docs/search.md).
// Both follow what changes: a wave looks at the nodes beside the last one, and a change has the prices of those judged
// again that see it. Complexity: O(nodes * candidates * edges) look-ups of known redistributions.

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "shardwright/base/index.h"
#include "shardwright/search/propagation/assignment.h"
#include "shardwright/search/space/seeds.h"

namespace shardwright::search {
using namespace propagation;
using namespace space;
namespace {

class Propagation {
 public:
  Propagation(const Problem& problem, const SearchOptions& options)
      : problem_(problem), graph_(*problem.graph), now_(problem, options), reasons_(graph_.nodes.size()) {}

  SearchResult run() {
    if (is_free(problem_)) now_.seed_by_batch();
    waves();
    sweeps();
    SearchResult out{.status = SearchStatus::feasible};
    out.choices.resize(graph_.nodes.size());
    for (int n : now_.nodes()) out.choices[at(n)] = {now_.choice(n).strategy, reasons_[at(n)]};
    return out;
  }

 private:
  struct Best {
    int index = 0;
    Price price;
  };
  Best best(int n) {
    Best out;
    const auto& all = now_.candidates(n);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Price p = now_.price(n, all[i]);
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
    if (now_.is_decided(n)) return;
    bool has_decided = false, misses_operand = false, is_from_behind = false;
    for (const Edge& e : now_.edges(n)) {
      has_decided = has_decided || now_.is_decided(e.node);
      if (e.is_incoming && !now_.is_decided(e.node)) misses_operand = true;
      if (!e.is_incoming && now_.is_decided(e.node)) is_from_behind = true;
    }
    for (ValueId v : graph_.nodes[at(n)].operands) has_decided = has_decided || now_.leaf_layout(v);
    if (has_decided) (misses_operand && !is_from_behind ? frontier.waiting : frontier.ready).insert(n);
  }

  void waves() {
    for (int n : now_.nodes()) {
      if (!now_.is_fixed(n)) continue;
      now_.choose(n, 0);
      reasons_[at(n)] = problem_.fixed.reasons[at(n)];
    }
    Frontier frontier;
    for (int n : now_.nodes()) place(n, frontier);
    for (;;) {
      const std::set<int>& next = frontier.ready.empty() ? frontier.waiting : frontier.ready;
      std::vector<int> wave(next.begin(), next.end());
      if (wave.empty()) wave = undecided();  // nothing leads there: each by itself
      if (wave.empty()) return;
      std::vector<int> found;
      for (int n : wave) now_.add_suggested(n);
      for (int n : wave) found.push_back(best(n).index);
      for (std::size_t i = 0; i < wave.size(); ++i)
        reasons_[at(wave[i])] = reason(wave[i], now_.candidates(wave[i])[at(found[i])]);
      for (std::size_t i = 0; i < wave.size(); ++i) now_.choose(wave[i], found[i]);
      for (int n : wave) {
        place(n, frontier);
        for (const Edge& e : now_.edges(n)) place(e.node, frontier);
      }
    }
  }

  std::vector<int> undecided() const {
    std::vector<int> out;
    for (int n : now_.nodes())
      if (!now_.is_decided(n)) out.push_back(n);
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
    if (now_.is_fixed(n)) return out;
    const double now = total(now_.price(n, now_.choice(n)));
    for (std::size_t i = 0; i < now_.candidates(n).size(); ++i) {
      const double gain = now - total(now_.price(n, now_.candidates(n)[i]));
      if (gain >= 0.5 && (!out || gain > out->gain)) out = {gain, static_cast<int>(i)};
    }
    return out;
  }

  void sweeps() {
    for (int n : now_.nodes()) now_.add_suggested(n);
    using Place = std::tuple<double, std::string_view, int>;  // the largest gain first, ties by name
    std::set<Place> order;
    std::vector<std::optional<Change>> changes(graph_.nodes.size());
    const auto judge = [&](int n) {
      std::optional<Change>& change = changes[at(n)];
      if (change) order.erase({-change->gain, name(n), n});
      change = best_change(n);
      if (change) order.insert({-change->gain, name(n), n});
    };
    for (int n : now_.nodes()) judge(n);
    for (std::size_t round = 0; round < 4 * now_.nodes().size() && !order.empty(); ++round) {
      const int n = std::get<2>(*order.begin());
      std::set<int> to_judge = now_.witnesses(n);
      now_.choose(n, changes[at(n)]->to);
      to_judge.merge(now_.witnesses(n));
      reasons_[at(n)] = reason(n, now_.choice(n));
      reasons_[at(n)].notes.emplace_back("changed to move less in all");
      for (int m : to_judge) judge(m);
    }
  }

  const std::string& name(int n) const { return graph_.name_of(NodeId{n}); }

  // ---- reasons ----

  Reason reason(int n, const Candidate& c) {
    Reason out;
    using enum Reason::Neighbour::Kind;
    const auto say = [&](Reason::Neighbour::Kind kind, const std::string& who, const Layout& has,
                         const Layout& wants, ValueId v) {
      const Redistribution& r = problem_.redistributor->find(has, wants, graph_.value(v).type);
      out.neighbours.push_back(
          {kind, who, r.collective_count() ? to_text(r, problem_.redistributor->meshes()) : ""});
    };
    for (const Edge& e : now_.edges(n)) {
      if (!now_.is_decided(e.node)) continue;
      if (e.is_incoming)
        say(from, name(e.node), now_.offered(now_.choice(e.node), e), c.layouts.operands[at(e.operand)],
            e.value);
      else
        say(to, name(e.node), now_.offered(c, e), now_.choice(e.node).layouts.operands[at(e.operand)],
            e.value);
    }
    for (std::size_t i = 0; i < graph_.nodes[at(n)].operands.size(); ++i) {
      const ValueId v = graph_.nodes[at(n)].operands[i];
      if (const Layout* leaf = now_.leaf_layout(v))
        say(now_.is_parameter(v) ? from : data, graph_.value(v).name, *leaf, c.layouts.operands[i], v);
    }
    return out.is_empty() ? "nothing leads there" : out;
  }

  const Problem& problem_;
  const Graph& graph_;
  Assignment now_;
  std::vector<Reason> reasons_;
};

/// From products that are split as `seed` says, on its mesh.
SearchResult spread_from(const Problem& problem, const FixedChoices& seed, const SearchOptions& options) {
  Redistributor redistributor = redistributor_for(seed.meshes, *problem.cluster);
  Problem seeded = problem;
  seeded.fixed = seed;
  seeded.redistributor = &redistributor;
  SearchResult out = Propagation(seeded, options).run();
  out.meshes = seed.meshes;
  out.layouts = seed.layouts;
  return out;
}

SearchResult run(const Problem& problem, const SearchOptions& options) {
  return held_against_known(problem, options, Propagation(problem, options).run(), 3,
                            [&](const FixedChoices& seed) { return spread_from(problem, seed, options); });
}

}  // namespace

std::vector<Searcher> propagation() {
  return {{.name = "propagation",
           .aliases = {"sharding_propagation"},
           .doc = "spread the strategies of the fixed operators with the fewest redistributions",
           .heeds = {Setting::fully_use_devices, Setting::elementwise_follow},
           .preference = 2,
           .spreads = true,
           .run = run}};
}

}  // namespace shardwright::search
