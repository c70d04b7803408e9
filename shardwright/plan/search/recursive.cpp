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
// A plan that does not fit the memory is searched again at a price per byte, raised until it does.

#include <algorithm>
#include <cmath>
#include <limits>

#include "shardwright/base/random.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/axes.h"
#include "shardwright/plan/cut_seconds.h"
#include "shardwright/plan/symbolic.h"

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

/// The axes that the machine is cut along, outermost first.
struct Ladder {
  Constraints constraints;  // on these axes
  CutProblem cuts;          // before the first
  std::vector<AxisLevel> levels;
};
/// More axes must be worth it: a plan on more of them has to be faster by this share.
constexpr double worth_an_axis = 0.02;

struct Solution {
  const Ladder* ladder = nullptr;
  CutProblem problem;
  CutTotals totals;
  struct Level {
    CutTables tables;
    std::vector<int> chosen;
  };
  std::vector<Level> levels;                                   // per axis
  std::vector<std::vector<SymbolicCosts::Decision>> symbolic;  // per axis, where symbolic costs decided
  std::vector<std::string> log;
};

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
    seconds_.emplace(ladders_.front().cuts, calls_, *problem.cluster);
  }

  SearchResult run() {
    const Solution best = options_.costs == Costs::symbolic ? symbolic_solution() : best_solution();
    SearchResult out = result_of(best);
    if (options_.writes_log) out.log = options_.costs == Costs::symbolic ? best.log : log_of(best);
    return out;
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
    for (const std::vector<int>& sizes : ladders_of(*problem_.cluster)) {
      Constraints on_ladder = asked;
      on_ladder.meshes[0] = {};
      for (std::size_t a = 0; a < sizes.size(); ++a)
        on_ladder.meshes[0].axes.push_back({fmt::format("/{}", a), sizes[a]});
      add_ladder(std::move(on_ladder));
    }
  }

  void add_ladder(Constraints constraints) {
    const Mesh& mesh = constraints.meshes[0];
    const MeshCost cost = mesh_cost(*problem_.cluster, mesh);
    std::vector<AxisLevel> levels;
    for (int a = 0; a < mesh.axis_count(); ++a)
      levels.push_back({.halving = {a, mesh.size_of(a)},
                        .inner = static_cast<double>(mesh.stride_of(a)),
                        .link = cost.axes[at(a)]});
    CutProblem cuts(*problem_.graph, calls_, fold_, constraints);
    ladders_.push_back({std::move(constraints), std::move(cuts), std::move(levels)});
  }

  // ---- solutions ----

  Solution solve(const Ladder& ladder, const CutWeights& weights) const {
    Solution out{.ladder = &ladder, .problem = ladder.cuts, .totals = {}, .levels = {}};
    CutHistory history = no_history(ladder.cuts);
    CutTotals sums;
    for (const AxisLevel& level : ladder.levels) {
      CutPrices prices = seconds_->prices(out.problem, level, weights);
      prices.is_followed = [this](const CutValue& v) { return is_followed(v); };
      CutTables tables = tables_of(out.problem, choices(out.problem, level.halving), prices, history);
      TableSum::Minimum least = tables.sum.minimum();
      CutHistory after = history_of(out.problem, tables, least.choices, history);
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
    const Ladder& ladder = ladders_.front();
    Solution out{.ladder = &ladder, .problem = ladder.cuts, .totals = {}, .levels = {}};
    const SymbolicCosts costs(ladder.cuts, problem_.cluster->devices(), options_);
    CutHistory history = no_history(ladder.cuts);
    for (const AxisLevel& level : ladder.levels) {
      std::vector<std::vector<int>> choices = this->choices(out.problem, level.halving);
      auto decisions = costs.decide(out.problem, level.halving, choices);
      for (const SymbolicCosts::Decision& d : decisions) {
        if (!out.problem.part(d.part).fixed) choices[at(d.part)] = {d.costs[d.chosen].loop};
        tell(out, d);
      }
      CutTables tables =
          tables_of(out.problem, std::move(choices), following_prices(out.problem, level), history);
      TableSum::Minimum least = tables.sum.minimum();
      history = history_of(out.problem, tables, least.choices, history);
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
    const auto move = [n](Cut from, Cut to, double bytes, Joined joined) {
      if (joined == Joined::reorders) return bytes / n;
      if (from == to || to == partial_cut || from == not_cut) return 0.0;
      if (from == partial_cut) return bytes * (to == not_cut ? 2 : 1) * (n - 1) / n;
      return bytes * (n - 1) / n / (to == not_cut ? 1 : n);
    };
    return {.axis = level.halving.axis,
            .own =
                [&problem, n](int part, int loop) {
                  constexpr double of_work = 1e-3;
                  return of_work * problem.result_elements(part, 0) / (loop == no_loop_dim ? 1 : n);
                },
            .move = move,
            .reduce =
                [this, &problem, move](const CutValue& v, Cut gradient, Joined joined) {
                  const CutUse& owner = v.uses.front();
                  return options_.mem_coeff *
                         move(gradient, not_cut, problem.operand_elements(owner.part, owner.operand), joined);
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

  /// Choices by seconds, told as the others are: of every main operator with all others as they were chosen.
  std::vector<std::string> log_of(const Solution& s) const {
    std::vector<std::string> out;
    CutProblem problem = s.ladder->cuts;
    for (std::size_t a = 0; a < s.levels.size(); ++a) {
      const Solution::Level& level = s.levels[a];
      for (int p = problem.size(); p-- > 0;) {
        const CutPart& part = problem.part(p);
        if (work_kind(*part.rule) == WorkKind::streaming) continue;
        std::vector<CutCost> costs;
        const std::vector<double> totals = level.tables.sum.along(p, level.chosen);
        const std::vector<int>& loops = level.tables.choices[at(p)];
        std::size_t chosen = 0;
        const auto add = [&](std::size_t i) {
          const double own = seconds_->compute(problem, p, loops[i], s.ladder->levels[a]);
          if (static_cast<int>(i) == level.chosen[at(p)]) chosen = costs.size();
          costs.push_back({.name = loops[i] == no_loop_dim ? "" : part.rule->loops[at(loops[i])].name,
                           .loop = loops[i],
                           .own = own,
                           .redistribution = totals[i] / part.count - own});
        };
        for (std::size_t i = 0; i < loops.size(); ++i)
          if (loops[i] != no_loop_dim) add(i);
        for (std::size_t i = 0; i < loops.size(); ++i)
          if (loops[i] == no_loop_dim) add(i);
        for (std::string& line : told(problem_.graph->name_of(part.example), costs, chosen))
          out.push_back(std::move(line));
      }
      for (int p = 0; p < problem.size(); ++p)
        problem.cut(p, level.tables.loop(p, level.chosen), s.ladder->levels[a].halving);
    }
    return out;
  }

  /// Of reducing the gradients of all parameters along one axis.
  double gradient_seconds(const CutProblem& problem, const AxisLevel& level, const CutHistory& before,
                          const CutHistory& after) const {
    double seconds = 0;
    for (std::size_t i = 0; i < after.size(); ++i) {
      const CutValue& v = problem.values()[i];
      if (!v.is_parameter || !v.has_gradient || v.uses.empty()) continue;
      const Joined joined = before[i][1].last == after[i][1].last ? Joined::yes : Joined::no;
      seconds +=
          v.uses.front().count * seconds_->reduce(problem, v, after[i][1].last.gradient, level, joined);
    }
    return seconds;
  }

  std::vector<std::vector<int>> choices(const CutProblem& problem, const Halving& halving) const {
    std::vector<std::vector<int>> out;
    for (std::size_t p = 0; p < problem.parts().size(); ++p) {
      out.push_back(problem.choices(static_cast<int>(p), halving));
      if (!problem.parts()[p].fixed && problem_.parameters_stay_whole)
        keep_parameters(problem, static_cast<int>(p), out.back());
      if (!problem.parts()[p].fixed && options_.fully_use_devices)
        use_all(problem.parts()[p], halving, out.back());
    }
    return out;
  }

  void keep_parameters(const CutProblem& problem, int part, std::vector<int>& choices) const {
    const Node& node = problem.graph().node(problem.part(part).example);
    std::erase_if(choices, [&](int loop) {
      for (std::size_t i = 0; i < node.operands.size(); ++i) {
        const NodeId producer = problem.graph().value(node.operands[i]).producer;
        if (problem.graph().node(producer).op->kind == OpKind::parameter &&
            problem.operand_cut(part, static_cast<int>(i), loop) >= 0)
          return true;
      }
      return false;
    });
  }

  /// A part that was cut goes on being cut; one that was not never is.
  static void use_all(const CutPart& part, const Halving& halving, std::vector<int>& choices) {
    if (halving.axis == 0 || choices.size() == 1) return;
    const bool is_cut = !used_axes(part.strategy).empty();
    std::erase_if(choices, [is_cut](int loop) { return (loop == no_loop_dim) == is_cut; });
  }

  std::int64_t cap() const {
    return options_.memory_cap.value_or(problem_.cluster->memory_bytes - problem_.cluster->reserved_bytes);
  }
  bool fits(const Solution& s) const { return s.totals.memory <= static_cast<double>(cap()); }

  /// What fits comes first, then what is faster. `b` is on fewer axes, or on the same.
  bool is_better(const Solution& a, const Solution& b) const {
    if (fits(a) != fits(b)) return fits(a);
    if (!fits(a) && a.totals.memory != b.totals.memory) return a.totals.memory < b.totals.memory;
    const double least = a.ladder == b.ladder ? 1 : 1 - worth_an_axis;
    return a.totals.seconds(overlap()) < b.totals.seconds(overlap()) * least;
  }

  double overlap() const { return problem_.cluster->overlap; }

  Solution best_solution() const {
    const double coeff = options_.mem_coeff / neutral_mem_coeff;
    std::optional<Solution> best;
    const auto consider = [&](const Ladder& ladder, const CutWeights& weights) {
      if (Solution s = solve(ladder, weights); !best || is_better(s, *best)) best = std::move(s);
    };
    for (const Ladder& ladder : ladders_) {
      consider(ladder, {.gradients = coeff});
      if (overlap() > 0) consider(ladder, {.gradients = coeff * 0.1});
    }
    // Filling the memory costs as much as a step, times 1/16, 1, 16, ...
    const double unit = best->totals.seconds(overlap()) / static_cast<double>(cap());
    for (double price = unit / 16; !fits(*best) && price <= unit * 256; price *= 16) {
      const Ladder* const likely = best->ladder;
      consider(ladders_.front(), {.gradients = coeff, .memory = price});
      if (likely != &ladders_.front()) consider(*likely, {.gradients = coeff, .memory = price});
      if (likely != &ladders_.back() && !fits(*best))
        consider(ladders_.back(), {.gradients = coeff, .memory = price});
    }
    return std::move(*best);
  }

  // ---- what is told ----

  SearchResult result_of(const Solution& s) const {
    const Graph& graph = *problem_.graph;
    const Constraints& constraints = s.ladder->constraints;
    std::vector<Axes> lists;
    for (const CutPart& part : s.problem.parts())
      for (const Axes& axes : part.strategy.loops) lists.push_back(axes);
    for (const auto& [v, layout] : constraints.layouts)
      if (layout.mesh == 0)
        for (const Axes& axes : layout.dims) lists.push_back(axes);
    JoinedMesh named = joined_axes(constraints.meshes[0], lists);
    if (!names_axes(problem_.constraints)) name_axes(named, s);

    SearchResult out{.status = SearchStatus::feasible, .meshes = constraints.meshes};
    out.meshes[0] = named.mesh;
    out.layouts = constraints.layouts;
    for (auto& [v, layout] : out.layouts)
      if (layout.mesh == 0)
        for (Axes& axes : layout.dims) axes = joined(axes, named);
    std::vector<Choice> of_part;
    for (std::size_t p = 0; p < s.problem.parts().size(); ++p)
      of_part.push_back(choice_of(s, static_cast<int>(p), named));
    out.choices.resize(graph.nodes.size());
    for (NodeId id : graph.node_ids()) {
      const int p = s.problem.part_of(id);
      if (p >= 0) out.choices[at(id.index)] = of_part[at(p)];
    }
    return out;
  }

  Choice choice_of(const Solution& s, int p, const JoinedMesh& named) const {
    const CutPart& part = s.problem.part(p);
    if (part.fixed) {
      Strategy strategy = *part.fixed;
      if (strategy.mesh == 0)
        for (auto* list : {&strategy.loops, &strategy.linear})
          for (Axes& axes : *list) axes = joined(axes, named);
      return {strategy, s.ladder->constraints.reasons[at(part.example.index)]};
    }
    Choice out{part.strategy, reason_of(s, p, named)};
    for (Axes& axes : out.strategy.loops) axes = joined(axes, named);
    return out;
  }

  /// Per axis what was cut, and what the next best would cost more.
  std::string reason_of(const Solution& s, int p, const JoinedMesh& named) const {
    const CutPart& part = s.problem.part(p);
    if (!s.symbolic.empty()) return symbolic_reason_of(s, p);
    std::string out;
    for (int a = 0; a < named.mesh.axis_count(); ++a) {
      const auto first = std::find(named.axis_of.begin(), named.axis_of.end(), a) - named.axis_of.begin();
      const Solution::Level& level = s.levels[static_cast<std::size_t>(first)];
      const std::vector<int>& loops = level.tables.choices[at(p)];
      const int chosen = level.chosen[at(p)];
      const std::vector<double> seconds = level.tables.sum.along(p, level.chosen);
      const auto name = [&](int choice) {
        const int l = loops[at(choice)];
        return l == no_loop_dim ? std::string("whole") : part.rule->loops[at(l)].name;
      };
      std::vector<std::pair<double, int>> others;
      for (std::size_t i = 0; i < loops.size(); ++i)
        if (static_cast<int>(i) != chosen)
          others.emplace_back((seconds[i] - seconds[at(chosen)]) / part.count, static_cast<int>(i));
      std::sort(others.begin(), others.end());
      std::string rest;
      for (std::size_t i = 0; i < others.size() && i < 2; ++i)
        rest += fmt::format("{}{} {:+.2g} ms", i ? ", " : "", name(others[i].second), others[i].first * 1e3);
      out += fmt::format("{}{}: {}{}", out.empty() ? "" : "; ", named.mesh.axes[at(a)].name, name(chosen),
                         rest.empty() ? ", the only way" : " (" + rest + ")");
    }
    return out;
  }

  static std::string symbolic_reason_of(const Solution& s, int p) {
    for (const auto& decisions : s.symbolic)  // the first halving stands for all
      for (const SymbolicCosts::Decision& d : decisions) {
        if (d.part != p) continue;
        std::string out = "symbolic costs of the first halving:";
        for (const CutCost& c : d.costs)
          if (c.name.empty() || c.loop != no_loop_dim)
            out += fmt::format(" {} {:.4g}", c.name.empty() ? "whole" : c.name, c.total());
        return out;
      }
    return "follows what it reads and what reads it";
  }

  /// `tp` where most of the work that the axis shares shards parameters, else `dp`; numbered where there are more.
  void name_axes(JoinedMesh& named, const Solution& s) const {
    const Graph& graph = *problem_.graph;
    std::vector<double> of_weights(named.mesh.axes.size(), 0), of_batch(named.mesh.axes.size(), 0);
    for (std::size_t p = 0; p < s.problem.parts().size(); ++p) {
      const CutPart& part = s.problem.parts()[p];
      const Node& node = graph.node(part.example);
      const double flops = flops_of(*node.op, *part.rule) * part.count;
      for (std::size_t l = 0; l < part.strategy.loops.size(); ++l)
        for (int a : joined(part.strategy.loops[l], named)) {
          bool shards_weights = false;
          for (std::size_t i = 0; i < node.operands.size(); ++i)
            shards_weights =
                shards_weights ||
                (graph.node(graph.value(node.operands[i]).producer).op->kind == OpKind::parameter &&
                 s.problem.operand_cut(static_cast<int>(p), static_cast<int>(i), static_cast<int>(l)) >= 0);
          (shards_weights ? of_weights : of_batch)[at(a)] += flops;
        }
    }
    std::map<std::string, int> count, next;
    std::vector<std::string> names;
    for (std::size_t a = 0; a < named.mesh.axes.size(); ++a) {
      names.push_back(of_weights[a] > of_batch[a] ? "tp" : of_batch[a] > 0 ? "dp" : "idle");
      ++count[names.back()];
    }
    for (std::size_t a = 0; a < names.size(); ++a)
      named.mesh.axes[a].name = count[names[a]] > 1 ? names[a] + std::to_string(next[names[a]]++) : names[a];
  }

  const Problem& problem_;
  const SearchOptions& options_;
  const Calls& calls_;
  Fold fold_;
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
