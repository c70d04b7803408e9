// Recursive search: the cluster is halved from its slowest link inwards (into p parts where 2 does not divide), and at
// each halving every operator chooses which of its loop dims is cut, or none.
//
//   for each axis a, outermost first:
//     choose x_v in loop dims of v + {none}, for all operators v at once, to minimize
//       sum over v of own_v(x_v) + sum over edges of move_uv(x_u, x_v)
//     cut every operator as chosen
//
// After the double recursive search of SAPP (seeds 000 and 003; facts in docs/search.md), with two differences. own and
// move are seconds (cut_seconds.h) unless --costs symbolic asks for the described system's symbols, and all operators
// are decided at once by eliminating variables (minimum.h), not one after the other. Equal layers are one operator
// (fold.h). Cost: O(operators * log devices), of repeated layers independent of their number.
//
// Several ladders of axes are tried (axes.h), from whole link levels down to prime parts, and the simplest plan wins
// that no other beats clearly.
// Plans are judged by the memory of the programs that they become (planning/judge.h): that of the search without a limit,
// unless it surely fits, then plans at prices per byte that do not depend on the limit, so that a lower one never finds
// more.

#include <algorithm>
#include <cmath>
#include <deque>
#include <tuple>

#include "shardwright/base/random.h"
#include "shardwright/graph/op.h"
#include "shardwright/search/planning/judge.h"
#include "shardwright/search/recursive/axes.h"
#include "shardwright/search/recursive/cut_solution.h"

namespace shardwright::search {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Where the described system puts its mem_coeff; gradients weigh what they take there.
constexpr double neutral_mem_coeff = 0.1;

std::uint64_t hash_of(const Layout& layout) { return std::hash<Layout>()(layout); }

std::uint64_t hash_of(const Strategy& strategy) {
  return hash_of(Layout{.dims = strategy.loops, .mesh = strategy.mesh});
}

/// Nodes that the user treats differently are not alike.
std::vector<std::uint64_t> labels_of(const Graph& graph, const Constraints& constraints) {
  std::vector<std::uint64_t> out(graph.nodes.size(), 0);
  for (std::size_t n = 0; n < out.size(); ++n)
    if (constraints.strategies[n]) out[n] = splitmix64(hash_of(*constraints.strategies[n]) + 1);
  for (const auto& [v, layout] : constraints.layouts)
    out[at(graph.value(v).producer.index)] ^= splitmix64(hash_of(layout) + 2);
  return out;
}

constexpr int few_parts = 60, many_parts = 800;  // of a network; the fewer, the more ladders are tried
/// More axes must be worth it: a plan on more of them has to be faster by this share.
constexpr double worth_an_axis = 0.02;

class Recursion {
 public:
  Recursion(const Problem& problem, const SearchOptions& options)
      : problem_(problem),
        options_(options),
        calls_(*problem.calls),
        fold_(
            fold(*problem.graph, calls_,
                 {.is_on = options.fold_layers, .labels = labels_of(*problem.graph, problem.constraints)})) {
    if (options.is_described) check_described();
    collect_ladders();
    seconds_.emplace(*ladders_.front().cuts, calls_, *problem.cluster,
                     Holding{.slots = problem.judge->micro_batches().slots,
                             .sharded = problem.judge->optimizer_parallel()});
  }

  SearchResult run() {
    if (options_.costs == Costs::symbolic) {
      const Solution found = symbolic_solution();
      SearchResult out = result_of(problem_, found, *seconds_);
      if (options_.writes_log) out.log = found.log;
      return out;
    }
    return within_memory(best_solution());
  }

 private:
  void check_described() const {
    constexpr int most = 1024;
    const int n = problem_.cluster->devices();
    if (n > most || (n & (n - 1)))
      throw Infeasible(fmt::format(
          "--described: the described system plans for 1 to {} devices and powers of two, not {}; "
          "without --described any number will do",
          most, n));
  }

  // ---- ladders: the sequences of axes that are tried ----

  void collect_ladders() {
    const Constraints& asked = problem_.constraints;
    if (names_axes(asked) || options_.costs == Costs::symbolic) {
      const Mesh mesh = names_axes(asked) ? asked.meshes[0] : link_mesh(*problem_.cluster);
      Constraints finest = on_finer_mesh(asked, mesh);
      const bool is_finer = finest.meshes[0].axis_count() > mesh.axis_count();
      if (options_.costs == Costs::seconds && is_finer) add_ladder(asked);
      add_ladder(std::move(finest));
      return;
    }
    const std::size_t ways = fold_.size() <= few_parts ? 5 : fold_.size() <= many_parts ? 2 : 0;
    for (const std::vector<int>& sizes : ladders_of(*problem_.cluster, ways)) {
      Constraints on_ladder = asked;
      on_ladder.meshes[0] = {};
      for (std::size_t a = 0; a < sizes.size(); ++a)
        on_ladder.meshes[0].axes.push_back({fmt::format("/{}", a), sizes[a]});
      add_ladder(std::move(on_ladder));
    }
  }

  static std::vector<GroupLink> group_of(const MeshCost& cost, int axis, const Mesh& mesh) {
    if (!cost.levels.empty() && !cost.levels[at(axis)].empty()) return cost.levels[at(axis)];
    return {{mesh.size_of(axis), cost.axes[at(axis)]}};
  }

  void add_ladder(Constraints constraints) {
    const Mesh& mesh = constraints.meshes[0];
    const MeshCost cost = mesh_cost(*problem_.cluster, mesh);
    std::vector<AxisLevel> levels;
    for (int a = 0; a < mesh.axis_count(); ++a)
      levels.push_back({.halving = {a, mesh.size_of(a)},
                        .inner = static_cast<double>(mesh.stride_of(a)),
                        .group = group_of(cost, a, mesh)});
    // Where no axis is named, what is fixed reads the same on every ladder.
    if (problems_.empty() || names_axes(constraints))
      problems_.emplace_back(*problem_.graph, calls_, fold_, constraints);
    ladders_.push_back({std::move(constraints), &problems_.back(), std::move(levels)});
  }

  // ---- solutions ----

  Solution solve(const Ladder& ladder, const CutWeights& weights) const {
    return all_or_nothing(
        [&](const std::vector<bool>& is_whole) { return solve(ladder, weights, is_whole); });
  }

  /// What --fully-use-devices asks for: parts that cannot be cut along all axes stay whole, and the search starts again.
  template <class Solve>
  Solution all_or_nothing(Solve solve) const {
    std::vector<bool> is_whole(at(ladders_.front().cuts->size()), false);
    for (;;) {
      Solution out = solve(is_whole);
      bool is_done = true;
      for (int p = 0; options_.fully_use_devices && p < out.problem.size(); ++p) {
        const CutPart& part = out.problem.part(p);
        if (part.fixed || is_all_or_nothing(part.strategy, out.ladder->constraints.meshes[0])) continue;
        is_whole[at(p)] = true;
        is_done = false;
      }
      if (is_done) return out;
    }
  }

  Solution solve(const Ladder& ladder, const CutWeights& weights, const std::vector<bool>& is_whole) const {
    Solution out{.ladder = &ladder, .problem = *ladder.cuts, .weights = weights};
    CutHistory history = no_history(*ladder.cuts);
    CutTotals sums;
    for (const AxisLevel& level : ladder.levels) {
      CutPrices prices = seconds_->prices(out.problem, level, weights);
      prices.is_followed = [this](const CutValue& v) { return is_followed(v); };
      CutTables tables =
          tables_of(out.problem, choices(out.problem, level.halving, is_whole), prices, history);
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

  /// Main operators by symbolic costs, one after the other; the others by what they have to move then.
  Solution symbolic_solution() const {
    return all_or_nothing([&](const std::vector<bool>& is_whole) { return symbolic_solution(is_whole); });
  }

  Solution symbolic_solution(const std::vector<bool>& is_whole) const {
    const Ladder& ladder = ladders_.front();
    Solution out{.ladder = &ladder, .problem = *ladder.cuts};
    const SymbolicCosts costs(*ladder.cuts, problem_.cluster->devices(), options_);
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
  CutPrices following_prices(const CutProblem& problem, const AxisLevel& level) const {
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
              const CutUse& owner = v.uses.front();
              return options_.mem_coeff *
                     moves(problem.operand_elements(owner.part, owner.operand)).of(gradient, not_cut, joined);
            },
        .is_followed = [this](const CutValue& v) { return is_followed(v); }};
  }

  /// Notes the lines of a choice, and which mem_coeff would have cut the batch instead of nothing (seed 003).
  void tell(Solution& solution, const SymbolicCosts::Decision& d) const {
    if (!options_.writes_log) return;
    const std::string& name = problem_.graph->name_of(solution.problem.part(d.part).example);
    for (std::string& line : told(name, d.costs, d.chosen)) solution.log.push_back(std::move(line));
    const auto batch =
        std::find_if(d.costs.begin(), d.costs.end(), [](const CutCost& c) { return c.name == "I"; });
    if (!d.costs[d.chosen].name.empty() || batch == d.costs.end() || batch->loop == no_loop_dim) return;
    solution.log.push_back(fmt::format("To cut the I-axis instead, choose a mem_coeff a little above {:.6g}",
                                       batch->total() * options_.mem_coeff / d.costs[d.chosen].total()));
  }

  bool is_followed(const CutValue& v) const {
    const Node& producer = problem_.graph->node(problem_.graph->value(v.example).producer);
    return options_.elementwise_follow && producer.op->block;
  }

  /// Of reducing the gradients of all parameters along one axis.
  double gradient_seconds(const CutProblem& problem, const AxisLevel& level, const CutHistory& before,
                          const CutHistory& after) const {
    double seconds = 0;
    for (std::size_t i = 0; i < after.size(); ++i) {
      const CutValue& v = problem.values()[i];
      if (!v.is_parameter || !v.has_gradient || v.uses.empty() || v.asked) continue;
      const Joined joined = before[i][1].last == after[i][1].last ? Joined::yes : Joined::no;
      seconds +=
          v.uses.front().count * seconds_->reduce(problem, v, after[i][1].last.gradient, level, joined);
    }
    return seconds;
  }

  std::vector<std::vector<int>> choices(const CutProblem& problem, const Halving& halving,
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

  /// A part that was cut goes on being cut; one that was not never is.
  static void use_all(const CutPart& part, const Halving& halving, std::vector<int>& choices) {
    if (halving.axis == 0 || choices.size() == 1) return;
    const bool is_cut = !used_axes(part.strategy).empty();
    std::erase_if(choices, [is_cut](int loop) { return (loop == no_loop_dim) == is_cut; });
  }

  /// `b` is on fewer axes, or on the same.
  bool is_better(const Solution& a, const Solution& b) const {
    const double least = a.ladder == b.ladder ? 1 : 1 - worth_an_axis;
    return a.totals.seconds(overlap()) < b.totals.seconds(overlap()) * least;
  }

  double overlap() const { return problem_.cluster->overlap; }

  Solution best_solution() const {
    const double coeff = options_.mem_coeff / neutral_mem_coeff;
    std::optional<Solution> best;
    const auto consider = [&](const Ladder& ladder, double gradients) {
      if (Solution s = solve(ladder, {.gradients = gradients}); !best || is_better(s, *best))
        best = std::move(s);
    };
    // Where the backward hides the reductions of gradients, only what is left of them counts; perhaps it cannot.
    const double hidden = coeff * (1 - overlap());
    for (const Ladder& ladder : ladders_) consider(ladder, hidden);
    if (hidden < coeff) consider(*best->ladder, coeff);
    return std::move(*best);
  }

  SearchResult told_result(const Solution& s) const {
    SearchResult out = result_of(problem_, s, *seconds_);
    if (options_.writes_log) out.log = log_of(s, *seconds_);
    return out;
  }

  /// Without looking, by the search's own figures: programs of large networks take 0.99 to 1.24 times as much, of two
  /// layers up to 2.5 times.
  bool surely_fits(const Solution& s) const {
    const double margin = is_large() ? 1.5 : 3;
    return margin * s.totals.memory < static_cast<double>(problem_.judge->cap_bytes());
  }

  /// `freely`, the plan without a limit, if it fits; else of sparing ones the fastest that does, or that of least memory.
  SearchResult within_memory(const Solution& freely) const {
    if (surely_fits(freely)) return told_result(freely);
    SearchResult best = told_result(freely);
    Evaluation judged = problem_.judge->evaluate(best);
    double figures = freely.totals.memory;  // the search's own, of the last that was tried
    std::int64_t bytes = judged.estimate.arena_bytes;
    const auto does_fit = [&](const Solution& s) {
      SearchResult result = told_result(s);
      const Evaluation e = problem_.judge->evaluate(result);
      figures = s.totals.memory;
      bytes = e.estimate.arena_bytes;
      if (e.fits() || shardwright::is_better(e, judged)) {
        best = std::move(result);
        judged = e;
      }
      return e.fits();
    };
    // Programs of a large network take long to make: of it only those are tried whose memory is small enough if it goes
    // with the search's own figures.
    const auto may_fit = [&](const Solution& s) {
      return !is_large() ||
             s.totals.memory * static_cast<double>(bytes) <= figures * static_cast<double>(judged.cap_bytes);
    };
    if (judged.fits()) return best;
    const std::vector<Solution> sparing = sparing_solutions(freely);
    auto next = sparing.begin();
    while ((next = std::find_if(next, sparing.end(), may_fit)) != sparing.end() && !does_fit(*next)) ++next;
    if (next == sparing.end())
      does_fit(*std::ranges::min_element(sparing, {}, [](const Solution& s) { return s.totals.memory; }));
    else
      while (next != sparing.begin() && is_large() && may_fit(*std::prev(next)) && does_fit(*--next)) {
      }
    return best;
  }

  bool is_large() const { return problem_.graph->nodes.size() > 600; }

  /// Plans at prices per byte, from little to more than all time is worth, fastest first; of a large network on the
  /// ladder of `freely` and that of most axes, else on all.
  std::vector<Solution> sparing_solutions(const Solution& freely) const {
    const double worth = freely.totals.seconds(overlap()) / freely.totals.memory;
    std::vector<const Ladder*> ladders{freely.ladder};
    for (const Ladder& ladder : ladders_)
      if (&ladder != freely.ladder && (!is_large() || &ladder == &ladders_.back()))
        ladders.push_back(&ladder);
    std::vector<Solution> out;
    for (const Ladder* ladder : ladders)
      for (double price = 1.0 / 64; price <= 256; price *= 2)
        out.push_back(solve(*ladder, {.gradients = freely.weights.gradients, .memory = price * worth}));
    const auto figures = [&](const Solution& s) {
      return std::tuple(s.totals.seconds(overlap()), s.totals.memory, s.ladder);
    };
    std::ranges::stable_sort(out, {}, figures);
    const auto same = std::ranges::unique(out, {}, figures);
    out.erase(same.begin(), same.end());
    return out;
  }

  const Problem& problem_;
  const SearchOptions& options_;
  const Calls& calls_;
  Fold fold_;
  std::deque<CutProblem> problems_;
  std::vector<Ladder> ladders_;
  std::optional<CutSeconds> seconds_;
};

SearchResult run(const Problem& problem, const SearchOptions& options) {
  return Recursion(problem, options).run();
}

}  // namespace

std::vector<Searcher> recursive() {
  return {{.name = "recursive",
           .aliases = {"recursive_programming"},
           .doc = "halve the cluster from its slowest link inwards, cutting all operators at once",
           .ignores = {},
           .run = run}};
}

}  // namespace shardwright::search
