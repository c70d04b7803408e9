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
// unless it surely fits, then plans at prices per byte. What surely exceeds the limit, or is slower than what surely
// fits, is not made.

#include <algorithm>
#include <cmath>
#include <span>
#include <tuple>

#include "shardwright/search/planning/judge.h"
#include "shardwright/search/recursive/solver.h"
#include "shardwright/search/space/seeds.h"

namespace shardwright::search {
using namespace recursive;
namespace {

/// Where the described system puts its mem_coeff; gradients weigh what they take there.
constexpr double neutral_mem_coeff = 0.1;
/// More axes must be worth it: a plan on more of them has to be faster by this share.
constexpr double worth_an_axis = 0.02;

class Recursion {
 public:
  Recursion(const Problem& problem, const SearchOptions& options)
      : problem_(problem), options_(options), solver_(problem, options) {}

  SearchResult run() const {
    if (options_.costs == Costs::symbolic) {
      const Solution found = solver_.symbolic_solution();
      SearchResult out = result_of(problem_, found, solver_.seconds());
      if (options_.writes_log) out.log = found.log;
      return out;
    }
    return within_memory(best_solution());
  }

  /// The fastest by figures, whatever memory it takes.
  SearchResult fastest() const { return told_result(best_solution()); }

 private:
  double overlap() const { return problem_.cluster->overlap; }
  double seconds_of(const Solution& s) const { return s.totals.seconds(overlap()); }

  /// `b` is on fewer axes, or on the same.
  bool is_better(const Solution& a, const Solution& b) const {
    const double least = a.ladder == b.ladder ? 1 : 1 - worth_an_axis;
    return seconds_of(a) < seconds_of(b) * least;
  }

  Solution best_solution() const {
    const double coeff = options_.mem_coeff / neutral_mem_coeff;
    std::optional<Solution> best;
    const auto consider = [&](const Ladder& ladder, double gradients) {
      if (Solution s = solver_.solve(ladder, {.gradients = gradients}); !best || is_better(s, *best))
        best = std::move(s);
    };
    // Where the backward hides the reductions of gradients, only what is left of them counts; perhaps it cannot.
    const double hidden = coeff * (1 - overlap());
    for (const Ladder& ladder : solver_.ladders()) consider(ladder, hidden);
    if (hidden < coeff) consider(*best->ladder, coeff);
    return std::move(*best);
  }

  // ---- memory ----

  /// Whoever asks has no time left: what is known by now does.
  bool is_late() const { return options_.deadline.is_over(); }

  bool is_large() const { return shardwright::is_large(problem_); }

  /// Without looking, by the search's own figures.
  bool surely_fits(const Solution& s) const { return memory_margin(problem_) * s.totals.memory < cap(); }

  /// The same, by what is there at once for sure. What is recomputed the figures take for kept.
  bool surely_exceeds(const Solution& s) const {
    constexpr double margin = 1.25;
    return is_large() && !problem_.judge->recomputes() && s.totals.least_memory > margin * cap();
  }

  double cap() const { return static_cast<double>(problem_.judge->cap_bytes()); }

  /// Plans that were made into programs, and the best of them: fastest of those that fit, else of least memory.
  class Trials {
   public:
    explicit Trials(const Recursion& search) : search_(search) {}

    bool does_fit(const Solution& s) {
      SearchResult result = search_.told_result(s);
      const Evaluation e = search_.problem_.judge->evaluate(result);
      bytes_per_figure_ = static_cast<double>(e.estimate.arena_bytes) / s.totals.memory;
      if (!best_ || shardwright::is_better(e, evaluation_)) {
        best_ = std::move(result);
        evaluation_ = e;
      }
      return e.fits();
    }

    /// If memory goes with the search's own figures as it did in the last trial. Programs of small networks are made
    /// quickly: they are all tried.
    bool may_fit(const Solution& s) const {
      return !search_.is_large() || s.totals.memory * bytes_per_figure_ <= search_.cap();
    }

    bool has_fit() const { return best_ && evaluation_.fits(); }
    std::optional<SearchResult> best() && { return std::move(best_); }

   private:
    const Recursion& search_;
    std::optional<SearchResult> best_;
    Evaluation evaluation_;
    double bytes_per_figure_ = 1;
  };

  /// `freely`, the plan without a limit, if it fits; else of sparing ones the fastest that does, or that of least memory.
  SearchResult within_memory(const Solution& freely) const {
    const bool is_tried = options_.tries_sparing && !is_large();
    if (surely_fits(freely) && !is_tried) return told_result(freely);
    Trials trials(*this);
    const bool fits = !surely_exceeds(freely) && trials.does_fit(freely);
    if (fits && !is_tried) return *std::move(trials).best();
    const std::vector<Solution> sparing = sparing_solutions(freely);
    if (is_tried && try_nearly_as_fast(sparing, seconds_of(freely), trials)) return *std::move(trials).best();
    if (is_large() && problem_.judge->recomputes()) {
      try_by_halves(sparing, trials);
      return *std::move(trials).best();
    }
    const auto is_worth_a_trial = [&](const Solution& s) {
      return !surely_exceeds(s) && trials.may_fit(s) && !is_late();
    };
    auto next = sparing.begin();
    while ((next = std::find_if(next, sparing.end(), is_worth_a_trial)) != sparing.end() &&
           !trials.does_fit(*next))
      ++next;
    if (next == sparing.end()) {
      const Solution& least =
          *std::ranges::min_element(sparing, {}, [](const Solution& s) { return s.totals.memory; });
      if (surely_exceeds(least)) return told_result(least);
      trials.does_fit(least);
    } else {
      while (next != sparing.begin() && is_large() && is_worth_a_trial(*std::prev(next)) &&
             trials.does_fit(*--next)) {
      }
    }
    return *std::move(trials).best();
  }

  /// Figures err, and what takes less memory may be faster: of plans that by figures are nearly as fast as that of `seconds`
  /// some are tried, whatever the limit. Returns whether any fits.
  bool try_nearly_as_fast(const std::vector<Solution>& sparing, double seconds, Trials& trials) const {
    constexpr std::size_t most = 6;
    constexpr double nearly = 1.15;
    bool fits = trials.has_fit();
    for (const Solution& s : std::span(sparing).first(std::min(most, sparing.size())))
      if (seconds_of(s) <= nearly * seconds && !is_late()) fits = trials.does_fit(s) || fits;
    return fits;
  }

  /// Figures that take for kept what is recomputed tell little: the fastest that fits if memory falls as time grows, and
  /// where the slowest does not fit all are tried.
  static void try_by_halves(const std::vector<Solution>& sparing, Trials& trials) {
    auto begin = sparing.begin(), end = std::prev(sparing.end());
    if (!trials.does_fit(*end)) {
      while (end != begin) trials.does_fit(*--end);
      return;
    }
    while (begin < end) {
      const auto middle = begin + (end - begin) / 2;
      if (trials.does_fit(*middle))
        end = middle;
      else
        begin = middle + 1;
    }
  }

  SearchResult told_result(const Solution& s) const {
    SearchResult out = result_of(problem_, s, solver_.seconds());
    if (options_.writes_log) out.log = log_of(s, solver_.seconds());
    return out;
  }

  /// Plans at prices per byte, from little to more than all time is worth, fastest first; of a large network on the
  /// ladder of `freely` and that of most axes, and only those of which it is not clear whether they fit: else on all.
  std::vector<Solution> sparing_solutions(const Solution& freely) const {
    std::vector<const Ladder*> ladders{freely.ladder};
    for (const Ladder& ladder : solver_.ladders())
      if (&ladder != freely.ladder && (!is_large() || &ladder == &solver_.ladders().back()))
        ladders.push_back(&ladder);
    std::vector<Solution> out;
    for (const Ladder* ladder : ladders) add_sparing_solutions(freely, *ladder, out);
    const auto figures = [&](const Solution& s) {
      return std::tuple(seconds_of(s), s.totals.memory, s.ladder);
    };
    std::ranges::stable_sort(out, {}, figures);
    const auto same = std::ranges::unique(out, {}, figures);
    out.erase(same.begin(), same.end());
    return out;
  }

  void add_sparing_solutions(const Solution& freely, const Ladder& ladder, std::vector<Solution>& out) const {
    constexpr int prices = 15;
    const double worth = seconds_of(freely) / freely.totals.memory;
    const auto at_price = [&](int i) {
      const double price = std::ldexp(worth, i - 6);
      return solver_.solve(ladder, {.gradients = freely.weights.gradients, .memory = price});
    };
    int first = 0;
    if (is_large()) {  // the higher the price, the less memory: the first that may fit is found by halving
      for (int exceeding = prices - 1; first < exceeding;) {
        const int middle = (first + exceeding) / 2;
        if (surely_exceeds(at_price(middle)))
          first = middle + 1;
        else
          exceeding = middle;
      }
    }
    for (int i = first; i < prices && (out.empty() || !is_late()); ++i) {
      out.push_back(at_price(i));
      if (is_large() && surely_fits(out.back())) return;  // what is dearer is slower
    }
  }

  const Problem& problem_;
  const SearchOptions& options_;
  const Solver solver_;
};

/// With products that are split as `seed` says, on its mesh; all else as is best beside them.
SearchResult beside(const Problem& problem, const FixedChoices& seed, const SearchOptions& options) {
  Problem seeded = problem;
  seeded.fixed = seed;
  return Recursion(seeded, options).fastest();
}

/// Axes are decided one after the other, so that what pays only along several at once is not seen: plans that people know
/// are held against what was found, unless something else than time is asked for.
SearchResult run(const Problem& problem, const SearchOptions& options) {
  SearchResult found = Recursion(problem, options).run();
  if (options.costs == Costs::symbolic || options.is_described || options.mem_coeff != neutral_mem_coeff)
    return found;
  return held_against_known(problem, options, std::move(found), 0,
                            [&](const FixedChoices& seed) { return beside(problem, seed, options); });
}

}  // namespace

std::vector<Searcher> recursive() {
  return {
      {.name = "recursive",
       .aliases = {"recursive_programming"},
       .doc = "halve the cluster from its slowest link inwards, cutting all operators at once",
       .heeds = {Setting::costs, Setting::order, Setting::mem_coeff, Setting::fold_layers, Setting::described,
                 Setting::fully_use_devices, Setting::elementwise_follow, Setting::log},
       .preference = 1,
       .run = run}};
}

}  // namespace shardwright::search
