// Which strategy each forward node has by now in a propagation, what else it could have, and what each would cost beside
// its neighbours. How the choices spread is propagation.cpp's.
#pragma once

#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "shardwright/search/planning/problem.h"

namespace shardwright::propagation {

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

class Assignment {
 public:
  Assignment(const Problem& problem, const SearchOptions& options);

  const std::vector<int>& nodes() const { return nodes_; }
  const std::vector<Edge>& edges(int n) const { return edges_[static_cast<std::size_t>(n)]; }
  const std::vector<Candidate>& candidates(int n) const { return candidates_[static_cast<std::size_t>(n)]; }
  bool is_fixed(int n) const { return is_fixed_[static_cast<std::size_t>(n)]; }

  /// On meshes of many axes strategies are not listed; those that decided neighbours and data suggest are
  /// offered: that of each neighbour alone, and of all together as far as they agree.
  void add_suggested(int n);

  bool is_parameter(ValueId v) const;

  const Candidate& choice(int n) const {
    return candidates(n)[static_cast<std::size_t>(chosen_[static_cast<std::size_t>(n)])];
  }

  bool is_decided(int n) const { return chosen_[static_cast<std::size_t>(n)] >= 0; }

  /// Without anything fixed, the data's batch is split over all devices (over as many axes as divide it).
  void seed_by_batch();

  /// How a leaf lies, if that is fixed or seeded.
  const Layout* leaf_layout(ValueId v) const;

  /// The layout in which the producer offers the value: as asked for, or reduced.
  Layout offered(const Candidate& producer, const Edge& e) const;

  /// Over edges to decided neighbours, and to data and shared parameters.
  Price price(int n, const Candidate& c);

  void choose(int n, int candidate);

  /// Those whose prices see whether `n` chooses as it does: neighbours, and who reads what it reads, unless two others
  /// read that in the same layout.
  std::set<int> witnesses(int n) const;

 private:
  void collect();

  bool comes_as_wanted(ValueId v) const;

  /// Calls `use(value, layout)` for what `n` reads by its choice of values that come as wanted, once for each.
  template <class F>
  void for_each_read(int n, F use) const {
    const auto& operands = graph_.nodes[static_cast<std::size_t>(n)].operands;
    const auto& layouts = choice(n).layouts.operands;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      bool is_new = comes_as_wanted(operands[i]);
      for (std::size_t j = 0; j < i; ++j)
        is_new = is_new && (operands[j] != operands[i] || layouts[j] != layouts[i]);
      if (is_new) use(operands[i], layouts[i]);
    }
  }

  void collect_candidates(NodeId id);

  void add(int n, const Rule& rule, const Strategy& s);

  /// Splits the loop dims of `tensor` as `layout` does, where that is legal beside what `s` splits already.
  void follow(Strategy& s, const Rule& rule, const RuleTensor& tensor, const Layout& layout) const;

  Candidate candidate(const Node& node, const Rule& rule, const Strategy& s);

  /// Or else strategies that neighbours suggest.
  bool lists_all() const;

  double communication(const Layout& from, const Layout& to, ValueId v);

  double local_copies(const Layout& from, const Layout& to, ValueId v);

  /// Elementwise follow: what a point-wise operator has made is read as it lies, whatever else that costs.
  double unwanted(const Layout& from, const Layout& to, ValueId v);

  /// Of a parameter, or of data that come as their users want them: the layout nearest to `to` in which
  /// another decided node reads it. All users count alike, whichever stands first.
  const Layout* nearest_at_other_users(int n, ValueId v, const Layout& to);

  bool reads(int n, ValueId v, const Layout& layout) const;

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
  std::map<ValueId, Layout> data_;  // seeded
};

}  // namespace shardwright::propagation
