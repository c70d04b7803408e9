#include "shardwright/search/integer/program.h"

#include <coin/CbcModel.hpp>
#include <coin/ClpSimplex.hpp>
#include <coin/CoinPackedMatrix.hpp>
#include <coin/OsiClpSolverInterface.hpp>

#include <algorithm>
#include <cmath>
#include <map>

#include "shardwright/base/index.h"
#include "shardwright/search/planning/deadline.h"

namespace shardwright::integer {
namespace {

using space::TableSum;

/// Rows of a matrix that are equal, and to which of them each row belongs.
struct Classes {
  std::vector<std::vector<double>> rows;  // one of each
  std::vector<int> of;
};

Classes classes_of(const std::vector<std::vector<double>>& matrix) {
  Classes out;
  std::map<std::vector<double>, int> known;
  for (const auto& row : matrix) {
    const auto [it, is_new] = known.try_emplace(row, static_cast<int>(out.rows.size()));
    if (is_new) out.rows.push_back(row);
    out.of.push_back(it->second);
  }
  return out;
}

std::vector<std::vector<double>> transposed(const std::vector<std::vector<double>>& matrix) {
  std::vector<std::vector<double>> out(matrix.front().size());
  for (const auto& row : matrix)
    for (std::size_t j = 0; j < row.size(); ++j) out[j].push_back(row[j]);
  return out;
}

}  // namespace

/// The columns and rows of a program, before the solver has them.
class Program::Columns {
 public:
  int add(double cost) {
    cost_.push_back(cost);
    entries_.emplace_back();
    return static_cast<int>(cost_.size()) - 1;
  }
  int add_row(double least, double most) {
    least_.push_back(least);
    most_.push_back(most);
    return static_cast<int>(least_.size()) - 1;
  }
  void set(int row, int column, double value) { entries_[at(column)].emplace_back(row, value); }

  void load(OsiClpSolverInterface& solver, double scale, double never) const {
    std::vector<CoinBigIndex> begins{0};
    std::vector<int> rows;
    std::vector<double> values, cost;
    const std::vector<double> least(cost_.size(), 0);
    std::vector<double> most;
    for (const auto& column : entries_) {
      for (const auto& [row, value] : column) {
        rows.push_back(row);
        values.push_back(value);
      }
      begins.push_back(static_cast<CoinBigIndex>(rows.size()));
    }
    for (double c : cost_) {
      most.push_back(c >= never ? 0 : 1);
      cost.push_back(c >= never ? 0 : c * scale);
    }
    solver.loadProblem(static_cast<int>(cost_.size()), static_cast<int>(least_.size()), begins.data(),
                       rows.data(), values.data(), least.data(), most.data(), cost.data(), least_.data(),
                       most_.data());
  }

 private:
  std::vector<double> cost_;
  std::vector<std::vector<std::pair<int, double>>> entries_;  // per column
  std::vector<double> least_, most_;                          // per row
};

struct Program::Solver {
  OsiClpSolverInterface clp;
  double scale = 1;       // of the objective: the solver's tolerances are absolute
  double unit_bytes = 1;  // of the row of memory
  int memory_row = 0;
  bool is_begun = false;
};

Program::Program(const TableSum& sum, std::span<const std::vector<double>> bytes, double never,
                 double typical)
    : sum_(sum), never_(never), solver_(std::make_unique<Solver>()) {
  Solver& s = *solver_;
  Columns columns;
  for (int v = 0; v < sum.size(); ++v) add_variable(v, columns);
  for (const TableSum::Pair& pair : sum.pairs()) add_pair(pair, columns);
  s.memory_row = columns.add_row(-COIN_DBL_MAX, COIN_DBL_MAX);
  for (const auto& some : bytes) s.unit_bytes = std::max(s.unit_bytes, *std::ranges::max_element(some));
  for (std::size_t v = 0; v < bytes.size(); ++v)
    for (std::size_t i = 0; i < bytes[v].size(); ++i)
      if (bytes[v][i] > 0) columns.set(s.memory_row, x_[v] + static_cast<int>(i), bytes[v][i] / s.unit_bytes);
  s.scale = 1e4 / std::clamp(typical, 1e-12, 1e6);
  s.clp.messageHandler()->setLogLevel(0);
  columns.load(s.clp, s.scale, never_);
  for (int v = 0; v < sum.size(); ++v)
    for (int i = 0; i < sum.choices_of(v); ++i) s.clp.setInteger(x_[at(v)] + i);
}

Program::~Program() = default;

Solved Program::solve(const Limits& limits) {
  const Deadline deadline(limits.seconds);
  Solver& s = *solver_;
  Solved out{.variables = s.clp.getNumCols()};
  s.clp.setRowUpper(s.memory_row, limits.bytes ? *limits.bytes / s.unit_bytes : COIN_DBL_MAX);
  s.clp.getModelPtr()->setMaximumWallSeconds(limits.seconds);
  s.is_begun ? s.clp.resolve() : s.clp.initialSolve();
  s.is_begun = true;
  if (s.clp.isProvenPrimalInfeasible()) {
    out.status = Solved::Status::infeasible;
    return out;
  }
  if (!s.clp.isProvenOptimal()) return out;
  out.bound = s.clp.getObjValue() / s.scale;
  return is_integer() ? read(std::move(out), s.clp.getColSolution(), true)
                      : branched(std::move(out), *deadline.seconds_left());
}

void Program::add_variable(int v, Columns& columns) {
  const int one = columns.add_row(1, 1);
  for (int i = 0; i < sum_.choices_of(v); ++i) {
    const int column = columns.add(sum_.single(v)[at(i)]);
    if (i == 0) x_.push_back(column);
    columns.set(one, column, 1);
  }
}

void Program::add_pair(const TableSum::Pair& pair, Columns& columns) {
  std::vector<std::vector<double>> table(at(sum_.choices_of(pair.u)));
  for (int i = 0; i < sum_.choices_of(pair.u); ++i)
    for (int j = 0; j < sum_.choices_of(pair.v); ++j) table[at(i)].push_back(sum_.number(pair, i, j));
  const Classes us = classes_of(table), vs = classes_of(transposed(us.rows));
  std::vector<int> row_of_u, row_of_v;
  for (std::size_t i = 0; i < us.rows.size(); ++i) row_of_u.push_back(columns.add_row(0, 0));
  for (std::size_t j = 0; j < vs.rows.size(); ++j) row_of_v.push_back(columns.add_row(0, 0));
  for (std::size_t i = 0; i < us.of.size(); ++i)
    columns.set(row_of_u[at(us.of[i])], x_[at(pair.u)] + static_cast<int>(i), -1);
  for (std::size_t j = 0; j < vs.of.size(); ++j)
    columns.set(row_of_v[at(vs.of[j])], x_[at(pair.v)] + static_cast<int>(j), -1);
  for (std::size_t j = 0; j < vs.rows.size(); ++j)
    for (std::size_t i = 0; i < us.rows.size(); ++i) {
      const int y = columns.add(vs.rows[j][i]);
      columns.set(row_of_u[i], y, 1);
      columns.set(row_of_v[j], y, 1);
    }
}

bool Program::is_integer() const {
  constexpr double tolerance = 1e-6;
  const double* solution = solver_->clp.getColSolution();
  for (int v = 0; v < sum_.size(); ++v)
    for (int i = 0; i < sum_.choices_of(v); ++i)
      if (const double x = solution[x_[at(v)] + i]; x > tolerance && x < 1 - tolerance) return false;
  return true;
}

/// By branch and bound, from the relaxation that is solved.
Solved Program::branched(Solved out, double seconds) {
  // Its own limit holds now: nodes that end by the relaxation's would count as infeasible.
  solver_->clp.getModelPtr()->setMaximumWallSeconds(-1);
  CbcModel model(solver_->clp);
  model.setLogLevel(0);
  model.setUseElapsedTime(true);
  model.setMaximumSeconds(seconds);
  model.branchAndBound();
  const bool is_stopped = model.isSecondsLimitReached();
  if (!is_stopped && model.isProvenInfeasible()) {
    out.status = Solved::Status::infeasible;
    return out;
  }
  out.bound = std::max(out.bound, model.getBestPossibleObjValue() / solver_->scale);
  const double* best = model.bestSolution();
  return best ? read(std::move(out), best, !is_stopped && model.isProvenOptimal()) : out;
}

Solved Program::read(Solved out, const double* solution, bool is_proven) const {
  for (int v = 0; v < sum_.size(); ++v) {
    const double* first = solution + x_[at(v)];
    out.choices.push_back(static_cast<int>(std::max_element(first, first + sum_.choices_of(v)) - first));
  }
  out.value = sum_.value(out.choices);
  if (is_proven) out.status = Solved::Status::optimal;
  out.bound = std::min(out.bound, out.value);
  return out;
}

}  // namespace shardwright::integer
