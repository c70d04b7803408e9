// The minimum of a sum of tables under a limit of memory as an integer linear program, solved by CBC (coinor-libcbc-dev).
//
//   minimize    sum over v, i of a_vi x_vi + sum over pairs of b_uv[i][j] y_uvij
//   subject to  sum over i of x_vi = 1;  sum over j of y_uvij = x_ui;  sum over i of y_uvij = x_vj
//               sum over v, i of bytes_vi x_vi <= limit;  x in {0, 1},  y >= 0
//
// As y follows from x, only x is integer; where the relaxation has it so already, nothing is branched. Choices that are
// alike to a pair (equal rows or columns of b) share y.
// Formulation: after the integer program of Alpa (Zheng et al., OSDI 2022, section 4.2).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "shardwright/search/space/minimum.h"

namespace shardwright::integer {

/// What the solver says.
struct Solved {
  enum class Status { optimal, stopped, infeasible } status = Status::stopped;
  std::vector<int> choices;  // empty: none was found
  double value = 0;          // of these
  double bound = 0;          // no choices have less; 0: it does not know
  int variables = 0;
};

struct Limits {
  std::optional<double> bytes;  // in all
  double seconds = 60;          // of the solver
};

class Program {
 public:
  /// `bytes`: per variable and choice; a variable beyond its end takes none. Choices and pairs of `never` seconds or more may
  /// not be. `typical`: of sums of interest, as the solver's tolerances are absolute. `sum` must outlive it.
  Program(const space::TableSum& sum, std::span<const std::vector<double>> bytes, double never,
          double typical);
  ~Program();

  /// Each time from where the last left off.
  Solved solve(const Limits& limits);

 private:
  class Columns;
  void add_variable(int v, Columns& columns);
  void add_pair(const space::TableSum::Pair& pair, Columns& columns);
  bool is_integer() const;
  Solved branched(Solved out, double seconds);
  Solved read(Solved out, const double* solution, bool is_proven) const;

  struct Solver;  // CBC's
  const space::TableSum& sum_;
  const double never_;
  std::unique_ptr<Solver> solver_;
  std::vector<int> x_;  // per variable, the column of its first choice
};

}  // namespace shardwright::integer
