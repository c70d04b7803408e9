// Whole plans: stages, micro-batches, replicas, schedule, what is sharded and computed again, strategies of operators.
//
//   minimize over structures s:  seconds of the step that s becomes     such that each device holds what it has to
//
// A network is a row of pieces, most of them alike (automatic/network.h). Of each kind of piece one is made into a program,
// on the devices of a stage, and says what such a piece takes (automatic/figures.h). What a structure takes is put together from
// these (automatic/forecast.h): stages are cut exactly, for the step to end soonest within memory.
//
// Best first: structures are taken in the order of a bound that none of them undercuts, what its passes take where
// nothing but tensor parallelism moves (automatic/bounds.h). What is taken is forecast, then becomes a program, which is
// simulated, and that decides. The search ends when the next forecast is above the best program.
//
// Cost: figures of some tens of pieces, a few milliseconds each, and a few whole programs.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "shardwright/base/text.h"
#include "shardwright/plan/batch.h"
#include "shardwright/search/automatic/candidates.h"
#include "shardwright/search/automatic/trials.h"
#include "shardwright/search/planning/expert.h"

namespace shardwright::search {
using namespace automatic;
namespace {

/// So many structures are made into programs whole, beside as many that turn out not to fit.
constexpr std::size_t most_trials = 8;
/// Of these, of what figures say does not fit.
constexpr int most_close_trials = 3;
/// And so many may turn out to be no plan.
constexpr std::size_t most_attempts = 40;
/// And forecast; the bound ends nearly all searches before.
constexpr int most_forecasts = 300;
/// Of networks as small as that another search splits the operators of the best structure, too: its search is quick there.
constexpr std::size_t most_nodes_to_search = 2000;

/// Of forecasts to programs.
constexpr double nearness = 0.99;

class Search {
 public:
  Search(const StepOf& step, const PlanRequest& request)
      : request_(request),
        cluster_(*request.cluster),
        cap_(request.options.memory_cap.value_or(usable_bytes(cluster_))),
        tables_(step, request),
        trials_(request, cap_) {}

  /// Throws: Error if operators are fixed one by one, or the network has no batch; Infeasible if nothing can be split.
  Plan run() {
    check_free(request_);
    const bool names_modules =
        !request_.settings.recompute.modules.empty() || !request_.annotations.recompute.empty();
    const OpenStep open{tables_.samples(), counts(), tables_.has_layers() && !names_modules};
    structures_ = structures_of(request_, open);
    if (structures_.empty())
      throw Infeasible(
          fmt::format("no plan: {} devices and {} samples have no structure with what is fixed{}",
                      request_.devices, tables_.samples(), conflict_text(open)));
    open_all();
    while (!open_.empty() &&
           (!trials_.does_fit() || least_miss_ * open_.top().seconds <= trials_.seconds())) {
      if (is_late() && try_best_forecast()) {
        is_cut_short_ = true;
        break;
      }
      const Open next = open_.top();
      open_.pop();
      look_at(next);
      if (trials_.count() >= most_trials + std::min(most_trials, unfit_trials_) ||
          trials_.attempts() >= most_attempts)
        break;
    }
    if (!trials_.does_fit()) try_least_memory();
    try_hopeful();
    try_other_search();
    return told();
  }

 private:
  /// By what the time of a structure is known.
  enum class Known { bound, forecast, corrected };
  /// A structure that may be the best.
  struct Open {
    double seconds = 0;  // no step of it is shorter, as far as is known; corrected: about what it takes
    Known known = Known::bound;
    std::size_t number = 0;  // of the structure, or of the candidate
    int bounds = 0;          // of the structure, those that it has been given

    bool operator>(const Open& other) const {
      return std::tuple(seconds, other.known, number) > std::tuple(other.seconds, known, other.number);
    }
  };

  // ---- what there is ----

  /// Of micro-batches.
  std::vector<int> counts() {
    if (request_.fixed.micro_batches) return {*request_.fixed.micro_batches};
    keeps_batch_ = request_.keeps_micro_batches || mixes_samples(*tables_.graph(1));
    if (keeps_batch_) return {request_.settings.pipelining.micro_batches};
    std::vector<int> out;
    for (int m = 1; m <= std::min<std::int64_t>(tables_.samples(), most_micro_batches); ++m)
      if (tables_.samples() % m == 0) out.push_back(m);
    return out;
  }

  // ---- structures ----

  void open_all() {
    std::int64_t fewest = tables_.samples();  // of a device in a micro-batch
    for (const Structure& s : structures_) fewest = std::min(fewest, tables_.samples_of_device(s));
    bounds_.emplace(tables_, fewest);
    forecasts_.emplace(tables_, *bounds_, cluster_, cap_);
    const auto by_sequence =
        std::ranges::find_if(structures_, [](const Structure& s) { return s.degrees.sequence; });
    if (!request_.fixed.sequence && by_sequence != structures_.end() &&
        !tables_.splits_sequence(*by_sequence))
      std::erase_if(structures_, [](const Structure& s) { return s.degrees.sequence; });
    for (std::size_t i = 0; i < structures_.size(); ++i) {
      const Structure& s = structures_[i];
      if (const int pieces = tables_.row(s).size(); pieces >= s.pipelining.parts())
        bound({.number = i});
      else
        why_ = fmt::format("{} stages: the network has {} layers; ask for fewer stages", s.pipelining.parts(),
                           pieces);
    }
  }

  /// The next bound of a structure, which is closer; the last knows of memory.
  void bound(Open next) {
    const Structure& s = structures_[next.number];
    const int i = next.bounds++, of_memory = bounds_->count(s);
    const auto seconds = i < of_memory ? bounds_->seconds(s, i) : forecasts_->least_seconds(s);
    if (seconds) next.seconds = i < of_memory ? *seconds : std::max(next.seconds, nearness * *seconds);
    if (seconds || i + 1 < of_memory) open_.push(next);
  }

  /// Finds out more of it: a forecast, or what its program takes.
  void look_at(const Open& next) {
    if (next.known == Known::bound) {
      const Structure& s = structures_[next.number];
      if (forecasts_->is_needless(s)) return;
      return next.bounds <= bounds_->count(s) ? bound(next) : forecast(s, next.seconds);
    }
    if (next.known == Known::forecast) bound_ = std::min(bound_, next.seconds);
    Candidate& c = candidates_[next.number];
    const Miss miss = miss_of(c.structure);
    if (c.structure.repeats_layers && miss.bytes * c.forecast.bytes > static_cast<double>(cap_))
      c = forecasts_->forecast(c.structure, miss.bytes).value_or(c);  // with more layers again
    const double likely = nearness * miss.seconds * c.forecast.seconds;
    c.is_close = c.is_close || miss.bytes * c.forecast.bytes > static_cast<double>(cap_);
    if (next.known == Known::forecast && likely > next.seconds)
      open_.push({.seconds = likely, .known = Known::corrected, .number = next.number});
    else if (!is_like_one_tried(c) && (!c.is_close || ++close_trials_ <= most_close_trials))
      try_candidate(c);
  }

  /// What surely does not fit goes no further.
  void forecast(const Structure& s, double bound) {
    if (forecasts_->forecasts() == most_forecasts) {
      bound_ = std::min(bound_, bound);
      return;
    }
    std::optional<Candidate> c = forecasts_->forecast(s);
    if (!c) return;
    c->least_seconds = std::max(bound, nearness * c->forecast.hopeful_seconds);
    bound = std::max(bound, nearness * c->forecast.least_seconds);
    trials_.tell(to_text(*c, bound));
    if (!c->forecast.fits) return;
    open_.push({.seconds = bound, .known = Known::forecast, .number = candidates_.size()});
    candidates_.push_back(*std::move(c));
  }

  /// One that differs only in how the states are shared, and was not forecast to take longer, fits.
  bool is_like_one_tried(const Candidate& c) const {
    return std::ranges::any_of(candidates_, [&](const Candidate& other) {
      Structure same = other.structure;
      same.zero = c.structure.zero;
      if (c.layers_again == 0) same.repeats_layers = c.structure.repeats_layers;  // as few as none
      return other.fits && same == c.structure && other.structure.zero <= c.structure.zero &&
             other.forecast.seconds <= c.forecast.seconds;
    });
  }

  /// How much more programs took than was forecast.
  struct Miss {
    double seconds = 1, bytes = 1;
  };
  /// Those of such degrees, schedule and level.
  Miss& miss_of(const Structure& s) {
    const Schedule& schedule = s.pipelining.schedule;
    return misses_[{s.degrees.data, s.degrees.tensor, s.degrees.sequence, schedule.kind, schedule.chunks,
                    s.zero}];
  }

  void try_candidate(Candidate& c) {
    c.is_tried = true;
    const std::optional<Evaluation> e = try_structure(c);
    if (!e) return;
    c.fits = e->fits();
    Miss& miss = miss_of(c.structure);
    const double seconds = e->estimate.step_seconds() / c.forecast.seconds;
    miss.seconds = std::max(miss.seconds, seconds);
    least_miss_ = std::min(least_miss_, seconds);
    miss.bytes = std::max(miss.bytes, static_cast<double>(e->estimate.arena_bytes) / c.forecast.bytes);
    unfit_trials_ += !c.fits;
    if (c.fits || !c.structure.repeats_layers) return;
    c.is_tried = false;  // with more layers again
    const auto number = static_cast<std::size_t>(&c - candidates_.data());
    open_.push({.seconds = miss.seconds * c.forecast.seconds, .known = Known::corrected, .number = number});
  }

  // ---- whole plans ----

  bool is_late() const { return request_.options.deadline.is_over(); }

  /// If no program fits yet, that of what was forecast to be the fastest so far. Returns whether one does.
  bool try_best_forecast() {
    if (trials_.does_fit()) return true;
    Candidate* best = nullptr;
    for (Candidate& c : candidates_)
      if (!c.is_tried && !c.is_close && (!best || c.forecast.seconds < best->forecast.seconds)) best = &c;
    if (best) try_candidate(*best);
    return trials_.does_fit();
  }

  /// Forecasts of transfers that are waited for may be too high: what may be faster all the same.
  void try_hopeful() {
    constexpr int trials = 2;
    for (int i = 0; i < trials && trials_.does_fit() && !is_late(); ++i) {
      Candidate* best = nullptr;
      for (Candidate& c : candidates_) {
        if (c.is_tried || c.is_close || c.forecast.hopeful_seconds >= trials_.seconds() ||
            is_like_one_tried(c))
          continue;
        if (!best || c.forecast.hopeful_seconds < best->forecast.hopeful_seconds) best = &c;
      }
      if (!best) return;
      try_candidate(*best);
    }
  }

  /// Of what does not fit, or was not forecast to.
  void try_least_memory() {
    constexpr std::size_t trials = 3;
    std::erase_if(candidates_, [](const Candidate& c) { return c.is_tried; });
    for (Candidate& c : candidates_)
      if (c.structure.repeats_layers) c = forecasts_->lightest(c.structure).value_or(c);
    if (forecasts_->least()) candidates_.push_back(*forecasts_->least());
    std::ranges::stable_sort(candidates_, {}, [](const Candidate& c) { return c.forecast.bytes; });
    candidates_.resize(std::min(candidates_.size(), trials));
    for (const Candidate& c : candidates_) {
      if (trials_.best() && is_late()) is_cut_short_ = true;
      if (!is_cut_short_) try_structure(c);
    }
  }

  /// The best structure, with operators split as another search likes it. Where no structure can be made, stages and parts
  /// of the batch in their stead, as far as they are open.
  void try_other_search() {
    const bool is_small = tables_.graph(1)->nodes.size() <= most_nodes_to_search;
    if (trials_.best() && is_late()) is_cut_short_ = true;
    if (request_.fixed.fixes_split() || (trials_.best() && !is_small) || is_cut_short_) return;
    if (trials_.best()) {
      PlanRequest asked = request_;
      if (!request_.fixed.fixes_settings()) try_plan(asked, "recursive with what was asked");
      asked.settings = trials_.best()->settings;
      try_plan(std::move(asked), "recursive");
      return;
    }
    try_recursive_on(structures_);
    std::ranges::reverse(structures_);  // with more sharded, and computed again
    if (!trials_.does_fit()) try_recursive_on(structures_);
  }

  /// Once for each number of stages and micro-batches.
  void try_recursive_on(const std::vector<Structure>& structures) {
    std::set<std::pair<int, int>> seen;
    for (const Structure& s : structures) {
      if (s.pipelining.schedule.chunks > 1 || s.pipelining.micro_batches > 4 * s.pipelining.stages) continue;
      if (!seen.emplace(s.pipelining.stages, s.pipelining.micro_batches).second) continue;
      if (seen.size() > most_attempts || (trials_.best() && is_late())) return;
      PlanRequest asked = with_structure(request_, s);
      asked.degrees.reset();
      try_plan(std::move(asked), fmt::format("recursive on {}", to_text(s)));
    }
  }

  Plan told() {
    if (!trials_.best()) {
      const std::string& why = trials_.why().empty() ? tables_.why() : trials_.why();
      throw Infeasible(fmt::format("no plan: {}", why.empty() ? why_ : why));
    }
    Plan out = *trials_.best();
    out.search = "auto";
    out.compared = fmt::format("looked at {} structures, forecast {}, simulated {}", structures_.size(),
                               forecasts_->forecasts(), trials_.count());
    if (is_cut_short_) {
      out.status = name_of(SearchStatus::timeout);
      out.compared += fmt::format("; --search-time {} ended it", *request_.options.most_seconds);
    }
    const double seconds = trials_.seconds();
    // A search that was cut short knows of what is still open. Where a program took less than was forecast, others may, too.
    double bound = open_.empty() ? bound_ : std::min(bound_, open_.top().seconds);
    // What was not tried may wait for as little as was seen.
    for (const Candidate& c : candidates_)
      if (!c.is_tried) bound = std::min(bound, c.least_seconds);
    bound *= least_miss_;
    if (std::isfinite(bound) && bound <= trials_.least_seconds()) {
      out.lower_bound_seconds = std::min(bound, seconds);
      out.compared += fmt::format("; --set reaches no less than {:.4g} s, {:.1f}% below", bound,
                                  std::max(0.0, 100 * (1 - bound / seconds)));
    }
    out.log = trials_.log();
    return out;
  }

  std::string conflict_text(const OpenStep& open) const {
    const std::string batch =
        fmt::format("; parts of the batch have other losses, so there are as many as asked for: {}",
                    request_.settings.pipelining.micro_batches);
    return automatic::conflict_text(request_, open) + (keeps_batch_ ? batch : "");
  }

  /// What its program takes, if there is such a plan.
  std::optional<Evaluation> try_structure(const Candidate& c) {
    const Structure& s = c.structure;
    PlanRequest asked = with_structure(request_, s);
    const Graph* graph = tables_.graph(s.pipelining.micro_batches);
    if (graph && s.repeats_layers)
      asked.settings.recompute.modules =
          layers_again(*graph, tables_.row(s), c.forecast.first, c.forecast.again,
                       recompute_options(RecomputeMode::full, s.degrees.sequence));
    if (graph && s.pipelining.stages > 1) asked.stage_of = stage_of(*graph, tables_.row(s), c.forecast.first);
    return try_plan(std::move(asked), to_text(s));
  }

  std::optional<Evaluation> try_plan(PlanRequest asked, const std::string& what) {
    const Graph* graph = tables_.graph(asked.settings.pipelining.micro_batches);
    return graph ? trials_.run(*graph, std::move(asked), what) : std::nullopt;
  }

  const PlanRequest& request_;
  const Cluster& cluster_;
  std::int64_t cap_ = 0;
  Tables tables_;
  std::vector<Structure> structures_;
  bool keeps_batch_ = false;
  std::optional<Bounds> bounds_;
  std::optional<Candidates> forecasts_;
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
  std::vector<Candidate> candidates_;
  double bound_ = std::numeric_limits<double>::infinity();
  bool is_cut_short_ = false;  // by the time that it may take
  Trials trials_;
  /// By degrees, schedule and level.
  std::map<std::tuple<int, int, bool, int, int, int>, Miss> misses_;
  double least_miss_ = 1;  // of seconds, of all; at most 1
  int close_trials_ = 0;
  std::size_t unfit_trials_ = 0;
  std::string why_;  // a structure can be none
};

}  // namespace

std::vector<Searcher> automatic() {
  return {
      {.name = "auto",
       .aliases = {},
       .doc = "stages, micro-batches, schedule, sharded states, recompute and all operators at once",
       .ignores = {Setting::costs, Setting::order, Setting::mem_coeff, Setting::fold_layers,
                   Setting::described, Setting::fully_use_devices, Setting::elementwise_follow},
       .plan = [](const StepOf& step, const PlanRequest& request) { return Search(step, request).run(); }}};
}

}  // namespace shardwright::search
