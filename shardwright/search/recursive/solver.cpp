#include "shardwright/search/recursive/solver.h"

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"
#include "shardwright/search/planning/judge.h"

namespace shardwright::recursive {
namespace {

constexpr int few_parts = 60, many_parts = 800;  // of a network; the fewer, the more ladders are tried

void check_described(const Cluster& cluster) {
  constexpr int most = 1024;
  const int n = cluster.devices();
  if (n > most || (n & (n - 1)))
    throw Infeasible(fmt::format(
        "--described: MindSpore's search plans for powers of two from 1 to {} devices, not for {}; "
        "leave --described out for others",
        most, n));
}

std::vector<GroupLink> group_of(const MeshCost& cost, int axis, const Mesh& mesh) {
  if (!cost.levels.empty() && !cost.levels[at(axis)].empty()) return cost.levels[at(axis)];
  return {{mesh.size_of(axis), cost.axes[at(axis)]}};
}

/// A part that was cut goes on being cut; one that was not never is.
void use_all(const CutPart& part, const Halving& halving, std::vector<int>& choices) {
  if (halving.axis == 0 || choices.size() == 1) return;
  const bool is_cut = !used_axes(part.strategy).empty();
  std::erase_if(choices, [is_cut](int loop) { return (loop == no_loop_dim) == is_cut; });
}

/// As the seeds have it, repeated layers may be one.
bool may_be_one(const SearchOptions& options) {
  return options.fold_layers && options.order == SearchOrder::automatic;
}

}  // namespace

Solver::Solver(const Problem& problem, const SearchOptions& options)
    : problem_(problem),
      options_(options),
      calls_(*problem.calls),
      fold_(fold_of(problem, are_layers_folded(options) || may_be_one(options))) {
  if (options.is_described) check_described(*problem.cluster);
  collect_ladders();
  seconds_.emplace(*ladders_.front().cuts, calls_, *problem.cluster,
                   Holding{.slots = problem.judge->micro_batches().slots(),
                           .sharded = problem.judge->optimizer_parallel()});
}

void Solver::collect_ladders() {
  const FixedChoices& asked = problem_.fixed;
  if (options_.costs == Costs::symbolic) {
    add_ladder(on_finer_mesh(asked, names_axes(asked) ? asked.meshes[0] : link_mesh(*problem_.cluster)));
    return;
  }
  const std::size_t ways = fold_.size() <= few_parts ? 5 : fold_.size() <= many_parts ? 2 : 0;
  for (FixedChoices& fixed : on_ladders(asked, *problem_.cluster, ways)) add_ladder(std::move(fixed));
}

void Solver::add_ladder(FixedChoices fixed) {
  const Mesh& mesh = fixed.meshes[0];
  const MeshCost cost = mesh_cost(*problem_.cluster, mesh);
  std::vector<AxisLevel> levels;
  for (int a = 0; a < mesh.axis_count(); ++a)
    levels.push_back({.halving = {a, mesh.size_of(a)},
                      .inner = static_cast<double>(mesh.stride_of(a)),
                      .group = group_of(cost, a, mesh)});
  // Where no axis is named, what is fixed reads the same on every ladder.
  if (problems_.empty() || names_axes(fixed)) problems_.emplace_back(*problem_.graph, calls_, fold_, fixed);
  ladders_.push_back({std::move(fixed), &problems_.back(), std::move(levels)});
}

Solution Solver::solve(const Ladder& ladder, const CutWeights& weights) const {
  return all_or_nothing([&](const std::vector<bool>& is_whole) { return solve(ladder, weights, is_whole); });
}

/// What --fully-use-devices asks for: parts that cannot be cut along all axes stay whole, and the search starts again.
Solution Solver::all_or_nothing(
    const std::function<Solution(const std::vector<bool>& is_whole)>& solve) const {
  std::vector<bool> is_whole(at(ladders_.front().cuts->size()), false);
  for (;;) {
    Solution out = solve(is_whole);
    bool is_done = true;
    for (int p = 0; options_.fully_use_devices && p < out.problem.size(); ++p) {
      const CutPart& part = out.problem.part(p);
      if (part.fixed || is_all_or_nothing(part.strategy, out.ladder->fixed.meshes[0])) continue;
      is_whole[at(p)] = true;
      is_done = false;
    }
    if (is_done) return out;
  }
}

Solution Solver::solve(const Ladder& ladder, const CutWeights& weights,
                       const std::vector<bool>& is_whole) const {
  Solution out{.ladder = &ladder, .problem = *ladder.cuts, .weights = weights};
  CutHistory history = no_history(*ladder.cuts);
  CutTotals sums;
  for (const AxisLevel& level : ladder.levels) {
    CutPrices prices = seconds_->prices(out.problem, level, weights);
    prices.is_followed = [this](const CutValue& v) { return is_followed(v); };
    CutTables tables = tables_of(out.problem, choices(out.problem, level.halving, is_whole), prices, history);
    TableSum::Minimum least = tables.sum.minimum();
    CutHistory after = history_of(out.problem, tables, least.choices, history, level.halving.axis);
    const double reductions = gradient_seconds(out.problem, level, history, after);
    double own = 0;
    for (int p = 0; p < out.problem.size(); ++p)
      own += prices.own(p, tables.loop(p, least.choices)) * out.problem.part(p).count;
    sums.activations += least.value - own - weights.gradients * reductions;
    sums.gradients += reductions;
    for (int p = 0; p < out.problem.size(); ++p)
      out.problem.cut(p, tables.loop(p, least.choices), level.halving);
    history = std::move(after);
    out.levels.push_back({std::move(tables), std::move(least.choices)});
  }
  out.totals = seconds_->totals(out.problem);
  out.totals.activations = sums.activations;
  out.totals.gradients = sums.gradients;
  return out;
}

Solution Solver::symbolic_solution() const {
  return all_or_nothing([&](const std::vector<bool>& is_whole) { return symbolic_solution(is_whole); });
}

Solution Solver::symbolic_solution(const std::vector<bool>& is_whole) const {
  const Ladder& ladder = ladders_.front();
  Solution out{.ladder = &ladder, .problem = *ladder.cuts};
  SymbolicCosts costs(*ladder.cuts, problem_.cluster->devices(), options_);
  CutHistory history = no_history(*ladder.cuts);
  for (const AxisLevel& level : ladder.levels) {
    std::vector<std::vector<int>> choices = this->choices(out.problem, level.halving, is_whole);
    auto decisions = costs.decide(out.problem, level.halving, choices);
    for (const SymbolicCosts::Decision& d : decisions) {
      if (!out.problem.part(d.part).fixed) choices[at(d.part)] = {d.costs[d.chosen].loop};
      tell(out, d);
    }
    CutTables tables =
        tables_of(out.problem, std::move(choices), following_prices(out.problem, level), history);
    TableSum::Minimum least = tables.sum.minimum();
    history = history_of(out.problem, tables, least.choices, history, level.halving.axis);
    for (int p = 0; p < out.problem.size(); ++p)
      out.problem.cut(p, tables.loop(p, least.choices), level.halving);
    out.levels.push_back({std::move(tables), std::move(least.choices)});
    out.symbolic.push_back(std::move(decisions));
  }
  return out;
}

/// In elements that move. Work counts little, so that it is shared where that moves nothing.
CutPrices Solver::following_prices(const CutProblem& problem, const AxisLevel& level) const {
  const double n = level.halving.parts;
  const auto moves = [n](double bytes) {
    const double others = bytes * (n - 1) / n;
    return MovePrices{.all_reduce = 2 * others,
                      .reduce_scatter = others,
                      .all_gather = others,
                      .all_to_all = others / n,
                      .reorder = bytes / n};
  };
  return {
      .axis = level.halving.axis,
      .own =
          [&problem, n](int part, int loop) {
            constexpr double of_work = 1e-3;
            return of_work * problem.result_elements(part, 0) / (loop == no_loop_dim ? 1 : n);
          },
      .moves = moves,
      .reduce =
          [this, &problem, moves](const CutValue& v, Cut gradient, Joined joined) {
            if (v.gives_rows) return 0.0;  // of which the described system knows nothing
            const CutUse& owner = v.uses.front();
            return options_.mem_coeff *
                   moves(problem.operand_elements(owner.part, owner.operand)).of(gradient, not_cut, joined);
          },
      .is_followed = [this](const CutValue& v) { return is_followed(v); }};
}

/// Notes the lines of a choice, and which mem_coeff would have cut the batch instead of nothing (seed 003).
void Solver::tell(Solution& solution, const SymbolicCosts::Decision& d) const {
  if (!options_.writes_log) return;
  const std::string& name = problem_.graph->name_of(solution.problem.part(d.part).example);
  for (std::string& line : told(name, d.costs, d.chosen)) solution.log.push_back(std::move(line));
  const auto batch =
      std::find_if(d.costs.begin(), d.costs.end(), [](const CutCost& c) { return c.name == "I"; });
  if (!d.costs[d.chosen].name.empty() || batch == d.costs.end() || batch->loop == no_loop_dim) return;
  solution.log.push_back(fmt::format("To cut the I-axis instead, choose a mem_coeff a little above {:.6g}",
                                     batch->total() * options_.mem_coeff / d.costs[d.chosen].total()));
}

bool Solver::is_followed(const CutValue& v) const {
  const Node& producer = problem_.graph->node(problem_.graph->value(v.example).producer);
  return options_.elementwise_follow && producer.op->block;
}

double Solver::gradient_seconds(const CutProblem& problem, const AxisLevel& level, const CutHistory& before,
                                const CutHistory& after) const {
  double seconds = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const CutValue& v = problem.values()[i];
    if (!v.is_parameter || !(v.has_gradient || v.gives_rows) || v.uses.empty() || v.asked) continue;
    const Joined joined = before[i][1].last == after[i][1].last ? Joined::yes : Joined::no;
    seconds += v.uses.front().count * seconds_->reduce(problem, v, after[i][1].last.gradient, level, joined);
  }
  return seconds;
}

std::vector<std::vector<int>> Solver::choices(const CutProblem& problem, const Halving& halving,
                                              const std::vector<bool>& is_whole) const {
  std::vector<std::vector<int>> out;
  for (std::size_t p = 0; p < problem.parts().size(); ++p) {
    out.push_back(problem.choices(static_cast<int>(p), halving));
    if (!problem.parts()[p].fixed && is_whole[p]) out.back() = {no_loop_dim};
    if (!problem.parts()[p].fixed && problem_.parameters_stay_whole)
      std::erase_if(out.back(),
                    [&](int loop) { return problem.shards_a_parameter(static_cast<int>(p), loop); });
    if (!problem.parts()[p].fixed && options_.fully_use_devices)
      use_all(problem.parts()[p], halving, out.back());
  }
  return out;
}

}  // namespace shardwright::recursive
