// The minimum of a sum of tables over choices of one and of two variables.
//
//   minimize  sum over v of a_v(x_v) + sum over pairs of b_uv(x_u, x_v),   x_v in {0, .., n_v - 1}
//
// By elimination of variables (Bertele and Brioschi 1972): a variable with at most two neighbours is replaced by a
// table over them, min over x_v. Exact where that goes through to the end, as in chains, trees, and the series and
// parallel branches of networks. Where it does not, the variable with the most neighbours is fixed to what looks best,
// and afterwards single variables change while that lowers the sum.
// Cost: O(variables * n^3).
#pragma once

#include <span>
#include <vector>

#include "shardwright/search/planning/deadline.h"

namespace shardwright::space {

class TableSum {
 public:
  /// A variable with so many choices, all free of charge so far. Variables are numbered from 0 on.
  int add_variable(int choices);
  int size() const { return static_cast<int>(variables_.size()); }
  int choices_of(int v) const { return variables_[static_cast<std::size_t>(v)].choices; }

  /// a_v.
  std::span<double> single(int v) {
    return {numbers_.data() + place_of(v), static_cast<std::size_t>(choices_of(v))};
  }
  std::span<const double> single(int v) const {
    return {numbers_.data() + place_of(v), static_cast<std::size_t>(choices_of(v))};
  }
  /// Adds `table`, of x_u times choices of v plus x_v, to b_uv. For u = v its diagonal counts.
  void add(int u, int v, std::span<const double> table);

  struct Minimum {
    std::vector<int> choices;  // per variable
    double value = 0;
    bool is_proven = false;  // elimination went through to the end
  };
  /// When time is over, the variables that are left are fixed one by one.
  Minimum minimum(const Deadline& deadline = {}) const;

  /// The sum if all are as `choices` says.
  double value(std::span<const int> choices) const;
  /// The sum as a function of one variable, the others being as `choices` says; without what does not depend on it.
  std::vector<double> along(int v, std::span<const int> choices) const;
  /// The choices of one variable by that, the least first.
  std::vector<int> ranked(int v, std::span<const int> choices) const;

  /// b_uv, of pairs of different variables.
  struct Pair {
    int u = 0, v = 0;
    std::size_t place = 0;  // of b_uv in numbers_, [x_u][x_v]
  };
  std::span<const Pair> pairs() const { return pairs_; }
  /// Cubes of choices added up: what eliminating all of them takes.
  double work() const;
  double number(const Pair& pair, int xu, int xv) const { return numbers_[entry(pair, pair.u, xu, xv)]; }

 private:
  friend class Elimination;
  struct Variable {
    int choices = 0;
    std::size_t place = 0;   // of a_v in numbers_
    std::vector<int> pairs;  // into pairs_
  };
  std::size_t place_of(int v) const { return variables_[static_cast<std::size_t>(v)].place; }
  std::size_t new_place(std::size_t count);
  int pair_of(int u, int v) const;
  int connect(int u, int v);
  /// Where b(x_v = i, x_other = j) stands.
  std::size_t entry(const Pair& pair, int v, int i, int j) const {
    const auto columns = static_cast<std::size_t>(choices_of(pair.v));
    const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j);
    return pair.place + (pair.u == v ? a * columns + b : b * columns + a);
  }
  int other(const Pair& pair, int v) const { return pair.u == v ? pair.v : pair.u; }

  std::vector<Variable> variables_;
  std::vector<Pair> pairs_;
  std::vector<double> numbers_;  // of all tables
};

}  // namespace shardwright::space
