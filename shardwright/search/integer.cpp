// An integer program over strategies, redistributions and memory (integer/program.h), on meshes of few axes, solved by CBC.
//
// What it minimizes is the sum of prices that dynamic minimizes too (space/tables.h), of which the solver proves how near its
// answer is to the least: its status and bound are the search's, and of that sum. Programs, of which the best of the
// answers is taken, take more or less than their prices; a bound that its own program undercuts is not told.
// Where the program of an answer does not fit, memory becomes a constraint, lower by as much as it missed: of this an
// answer is proven, but not that another limit would not be better.

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "shardwright/base/progress.h"
#include "shardwright/search/integer/program.h"
#include "shardwright/search/space/candidates.h"
#include "shardwright/search/space/trials.h"

namespace shardwright::search {
using namespace space;
namespace {

using Status = integer::Solved::Status;

constexpr double usual_seconds = 60;
/// The work of eliminations on a mesh (space/whole_space.h), by which its program grows.
constexpr double most_work = 4e6;

class Integer {
 public:
  Integer(const Problem& problem, const SearchOptions& options)
      : problem_(problem),
        options_(with_deadline(options)),
        space_(problem, options_, most_work),
        trials_(problem, options_, space_),
        cap_(static_cast<double>(problem.judge->cap_bytes())) {}

  /// Nothing: of some strategies of each none follow.
  std::optional<SearchResult> run() {
    for (const auto& on : space_.ladders()) parts_.emplace_back(on, weights());
    if (options_.approximates && moves_what_must_not()) return std::nullopt;
    trials_.run(solve({}));
    std::optional<double> limit;
    constexpr int most_rounds = 4;
    for (int round = 0; round < most_rounds && !trials_.has_fit() && !is_late(); ++round) {
      // Figures of memory err: by as much as they did in the best program.
      const double taken = static_cast<double>(trials_.of_best().estimate.arena_bytes);
      limit = limit.value_or(trials_.best_plan().bytes) * std::min(cap_ / taken, 0.97);
      trials_.run(solve(limit));
    }
    if (!trials_.has_fit()) trials_.run(sparing_plans());
    is_of_memory_ = limit.has_value();
    trials_.refine();
    return told();
  }

 private:
  using OnLadder = WholeSpace::OnLadder;

  static SearchOptions with_deadline(SearchOptions options) {
    if (!options.deadline.seconds_left()) options.deadline = options.deadline.within(usual_seconds);
    return options;
  }
  bool is_late() const { return options_.deadline.is_over(); }

  bool moves_what_must_not() const {
    return std::ranges::all_of(parts_,
                               [](const Part& part) { return part.freely.value >= forbidden_seconds / 2; });
  }

  CutWeights weights() const { return {.gradients = 1 - problem_.cluster->overlap}; }

  /// One mesh, with its program.
  struct Part {
    Part(const OnLadder& ladder, const CutWeights& weights)
        : on(ladder),
          sum(ladder.tables.weighted(weights)),
          freely(sum.minimum()),
          program(sum, on.tables.bytes, forbidden_seconds / 2, freely.value) {}
    const OnLadder& on;
    const TableSum sum;
    const TableSum::Minimum freely;  // of memory
    integer::Program program;
  };

  /// The answer on each mesh under that limit of bytes, by figures.
  std::vector<WholePlan> solve(std::optional<double> bytes) {
    least_ = bound_ = std::numeric_limits<double>::infinity();
    is_proven_ = true;
    std::vector<WholePlan> out;
    Doing doing(options_.deadline.progress(), "integer programs solved",
                static_cast<std::int64_t>(parts_.size()));
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      doing.tell(static_cast<std::int64_t>(p));
      Part& part = parts_[p];
      integer::Solved found;
      const double left = *options_.deadline.seconds_left() / static_cast<double>(parts_.size() - p);
      if (!is_late()) found = part.program.solve({.bytes = bytes, .seconds = left});
      variables_ = std::max(variables_, found.variables);
      is_proven_ = is_proven_ && found.status != Status::stopped;
      if (found.status == Status::infeasible) continue;
      const double known = part.freely.is_proven ? part.freely.value : 0;
      bound_ = std::min(bound_, std::max(found.bound, known));
      if (found.choices.empty()) found = {.choices = part.freely.choices, .value = part.freely.value};
      least_ = std::min(least_, found.value);
      out.push_back(figured(problem_, part.on, std::move(found.choices), weights()));
    }
    return out.empty() ? sparing_plans() : out;  // nothing keeps to the limit
  }

  /// What needs no solver.
  std::vector<WholePlan> sparing_plans() const {
    std::vector<WholePlan> out;
    for (const Part& part : parts_)
      for (WholePlan& plan : plans_at_prices(problem_, part.on, weights().gradients))
        out.push_back(std::move(plan));
    return out;
  }

  /// Prices are of all rows, of which programs move those that experts read.
  bool routes_rows() const {
    return std::ranges::any_of(problem_.graph->nodes,
                               [](const Node& node) { return node.op->routed.has_value(); });
  }

  SearchResult told() {
    const int count = trials_.count();
    const double step = trials_.of_best().estimate.step_seconds();
    SearchResult out = trials_.best();
    out.status = !is_proven_     ? SearchStatus::timeout
                 : is_of_memory_ ? SearchStatus::feasible
                                 : SearchStatus::optimal;
    if (bound_ <= step && !is_of_memory_ && !routes_rows()) out.lower_bound_seconds = bound_;
    std::string solver = "nothing keeps to the limit of memory";
    if (least_ < bound_ || bound_ < std::numeric_limits<double>::infinity())
      solver = fmt::format("sum of prices {:.4g} s, no less than {:.4g} s", least_, bound_);
    out.compared =
        fmt::format("{}; integer program of {} variables: {} ({}{}); tried {} program{}", space_.size(),
                    variables_, solver, is_proven_ ? "proven" : "time is over",
                    is_of_memory_ ? ", under the last limit of memory" : "", count, count == 1 ? "" : "s");
    return out;
  }

  const Problem& problem_;
  const SearchOptions options_;
  const WholeSpace space_;
  Trials trials_;
  const double cap_;
  std::deque<Part> parts_;
  bool is_proven_ = true, is_of_memory_ = false;
  double least_ = 0, bound_ = 0;  // of the last limit
  int variables_ = 0;
};

SearchResult run(const Problem& problem, const SearchOptions& options) {
  return among_some_or_all(options, [&](const SearchOptions& some) { return Integer(problem, some).run(); });
}

}  // namespace

std::vector<Searcher> integer() {
  return {{.name = "integer",
           .aliases = {},
           .doc = "an integer program over strategies, redistributions and memory, solved by CBC",
           .heeds = {Setting::fold_layers, Setting::fully_use_devices, Setting::elementwise_follow,
                     Setting::approximate, Setting::approximation, Setting::align_slices, Setting::slice_size,
                     Setting::search_time},
           .preference = 5,
           .run = run}};
}

}  // namespace shardwright::search
