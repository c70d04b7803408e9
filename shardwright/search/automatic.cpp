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
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "shardwright/annotations/expert_axes.h"
#include "shardwright/base/index.h"
#include "shardwright/base/progress.h"
#include "shardwright/base/text.h"
#include "shardwright/plan/batch.h"
#include "shardwright/search/automatic/best_of.h"
#include "shardwright/search/automatic/prospects.h"
#include "shardwright/search/planning/suggestion.h"

namespace shardwright::search {
using namespace automatic;
namespace {

/// So many structures are made into whole programs, beside as many that do not fit; of small networks more of these.
constexpr std::size_t most_trials = 8, most_unfit_of_small = 64;
/// Of these, of what figures say does not fit.
constexpr int most_close_trials = 3;
/// And so many may turn out to be no plan.
constexpr std::size_t most_attempts = 80;
/// And forecast; the bound ends nearly all searches before.
constexpr int most_forecasts = 2000;
/// So many without a faster one: what bounds leave open then hardly gets better. The bound that is told is theirs.
constexpr int most_idle_forecasts = 120;
/// Where experts may be shared by several numbers of devices, structures have so many of their kind beside them: limits are for each.
constexpr int most_kin = 3;

/// Of forecasts to programs.
constexpr double nearness = 0.99;

class Search {
 public:
  /// Of structures that may take less than `worth` seconds; without such a limit of all plans. All must outlive it.
  Search(Tables& tables, Misses& misses, const PlanRequest& request, double worth)
      : request_(request),
        worth_(worth),
        cluster_(*request.cluster),
        cap_(request.options.memory_cap.value_or(usable_bytes(cluster_))),
        tables_(tables),
        misses_(misses),
        record_(request.options.writes_log),
        trials_(request, record_, tables.evaluated()),
        others_(request, tables_, trials_, record_),
        prospects_({request, worth, tables_, misses_, record_, trials_, others_}) {}

  /// Throws: Infeasible if nothing can be split.
  Found run() {
    try_structures();
    try_other_search();
    try_overlapped();
    Plan plan = told();
    const auto bound = std::isinf(worth_) ? bound_of_all() : std::nullopt;
    return {std::move(plan),
            std::move(record_).settled(trials_.best_number()),
            trials_.does_fit(),
            trials_.seconds(),
            trials_.bytes(),
            trials_.memory(),
            bound,
            looked()};
  }

 private:
  void try_structures() {
    const bool names_modules = !request_.constraints.recomputed.empty();
    const OpenStep open{tables_.samples(), counts(), tables_.has_layers() && !names_modules,
                        experts_of(*tables_.graph(1))};
    if (open.experts > 1 && !request_.constraints.degrees.said("ep")) kin_ = most_kin;
    std::vector<Constraints> structures = structures_of(request_, open);
    if (structures.empty())
      throw Infeasible(fmt::format("no plan: {} devices and {} samples cannot be shared out as is fixed{}",
                                   request_.devices, tables_.samples(), conflict_text(open)));
    open_all(std::move(structures));
    while (
        !open_.empty() && misses_.least_seconds() * open_.top().seconds <= worth_ &&
        (!trials_.does_fit() || misses_.least_seconds() * open_.top().seconds <= others_.seconds_to_beat())) {
      if (is_late() && prospects_.try_best_forecast()) {
        is_cut_short_ = true;
        break;
      }
      const Open next = open_.top();
      open_.pop();
      look_at(next);
      doing_.tell(0, [&] { return looked().text() + trials_.best_text(); });
      if (forecasts_->forecasts() - best_forecast_at_ > kin_ * most_idle_forecasts &&
          prospects_.try_best_forecast())
        break;
      if (trials_.count() - prospects_.usual_cuts() >=
              at(kin_) * most_trials + std::min(at(kin_) * most_unfit(), prospects_.unfit()) ||
          trials_.attempts() >= most_attempts)
        break;
    }
    if (!open_.empty() && trials_.does_fit()) {
      prospects_.forecast_other_degrees(*forecasts_, count_);
      prospects_.keep_open(later_, *forecasts_, count_);
    }
    prospects_.try_later(later_, *forecasts_);
    bound_ = std::min(bound_, later_.bound());
    if (!trials_.does_fit() && std::isinf(worth_)) {
      forecast_lightest();
      is_cut_short_ = prospects_.try_least_memory(*forecasts_);
    }
    prospects_.try_further(*forecasts_, count_);
  }

  std::size_t most_unfit() { return others_.is_small() ? most_unfit_of_small : most_trials; }

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
    if (request_.constraints.micro_batches) return {*request_.constraints.micro_batches};
    keeps_batch_ = request_.kept_micro_batches || mixes_samples(*tables_.graph(1));
    if (keeps_batch_) return {settings_of(request_).pipelining.micro_batches};
    return micro_batch_counts(tables_.samples());
  }

  // ---- structures ----

  void open_all(std::vector<Constraints> structures) {
    std::int64_t fewest = tables_.samples();  // of a device in a micro-batch
    for (const Constraints& s : structures) fewest = std::min(fewest, tables_.samples_of_device(s));
    bounds_.emplace(tables_, fewest);
    forecasts_.emplace(tables_, *bounds_, cluster_, cap_, request_.options.host_cap);
    const auto by_sequence =
        std::ranges::find_if(structures, [](const Constraints& s) { return splits_sequence(s); });
    if (!request_.constraints.sequence_parallel && by_sequence != structures.end() &&
        !tables_.differs_by_sequence(*by_sequence))
      std::erase_if(structures, [](const Constraints& s) { return splits_sequence(s); });
    count_ = structures.size();
    record_.add(std::move(structures));
    for (std::size_t i = 0; i < count_; ++i) open(i);
  }

  void open(std::size_t number) {
    Tried& look = record_[number];
    const int parts = pipelining_of(look.structure).parts();
    const int pieces = tables_.row(look.structure).size();
    if (pieces >= parts) return bound({.number = number});
    look.fate = Fate::impossible;
    look.why = why_ =
        fmt::format("{} stages: the network has {} layers; ask for fewer stages", parts, pieces);
  }

  /// The next bound of a structure, which is closer; the last knows of memory.
  void bound(Open next) {
    Tried& look = record_[next.number];
    const Constraints& s = look.structure;
    const int i = next.bounds++, of_memory = bounds_->count(s);
    if (i < of_memory) {
      const auto seconds = bounds_->seconds(s, i);
      next.seconds = seconds.value_or(next.seconds);
      if (!seconds && i + 1 == of_memory) look.fate = Fate::impossible;
    } else if (const auto least = forecasts_->at_least(s)) {
      next.seconds = std::max(next.seconds, nearness * least->seconds);
      if (!least->fits) look.fate = Fate::misfit, look.seconds = least->seconds, look.bytes = least->bytes;
    } else {
      look.fate = Fate::impossible;
    }
    look.least_seconds = next.seconds;
    if (look.fate == Fate::open) open_.push(next);
  }

  /// Finds out more of it: a forecast, or what its program takes.
  void look_at(const Open& next) {
    if (next.known == Known::bound) {
      Tried& look = record_[next.number];
      if (forecasts_->is_needless(look.structure))
        return void(bound_ = std::min(bound_, record_.needless(next.number, next.seconds)));
      if (next.bounds <= bounds_->count(look.structure)) return bound(next);
      return is_for_later(look.structure, request_.constraints) ? later_.keep(next.number, next.seconds)
                                                                : forecast(next.number, next.seconds);
    }
    if (next.known == Known::forecast) bound_ = std::min(bound_, next.seconds);
    Candidate& c = prospects_[next.number];
    const Miss miss = misses_.of(c.structure);
    if (may_be_lighter(c.structure) && miss.bytes * c.forecast.bytes > static_cast<double>(cap_)) {
      const Candidate before = c;
      c = with_more_again(c, forecasts_->forecast(c.structure, miss.bytes));
      if (next.known == Known::corrected && is_same_plan(before, c)) return;  // of which the program is known
    }
    const double likely = nearness * miss.seconds * c.forecast.seconds;
    c.is_close = c.is_close || miss.bytes * c.forecast.bytes > static_cast<double>(cap_);
    if (next.known == Known::forecast && likely > next.seconds)
      open_.push({.seconds = likely, .known = Known::corrected, .number = next.number});
    else if (!is_like_one_that_fits(c, prospects_.all()) &&
             (!c.is_close || ++close_trials_ <= most_close_trials))
      try_one(next.number);
  }

  /// What surely does not fit goes no further.
  void forecast(std::size_t number, double bound) {
    if (forecasts_->forecasts() >= most_forecasts) {
      bound_ = std::min(bound_, bound);
      return;
    }
    std::optional<Candidate> c = forecasts_->forecast(record_[number].structure);
    if (!c) return void(record_[number].fate = Fate::impossible);
    if (misses_.least_seconds() * c->forecast.hopeful_seconds > worth_) return;
    c->number = number;
    c->least_seconds = std::max(bound, nearness * c->forecast.hopeful_seconds);
    bound = std::max(bound, nearness * c->forecast.least_seconds);
    record_.forecast(number, *c, bound);
    if (!c->forecast.fits) return;
    if (c->forecast.seconds < best_forecast_ * (1 - 1e-3))
      best_forecast_ = c->forecast.seconds, best_forecast_at_ = forecasts_->forecasts();
    open_.push({.seconds = bound, .known = Known::forecast, .number = prospects_.add(*std::move(c))});
  }

  /// Of what surely does not fit, as bounds know, a few that take least by them: one of each schedule, as bounds do not see
  /// what halves of a backward hold between them.
  void forecast_lightest() {
    constexpr std::size_t most = 8;
    std::vector<std::size_t> numbers;
    for (std::size_t i = 0; i < count_; ++i)
      if (record_[i].fate == Fate::misfit && record_[i].by == KnownBy::bound) numbers.push_back(i);
    std::ranges::stable_sort(numbers, {}, [&](std::size_t i) { return record_[i].bytes; });
    std::set<Schedule> seen;
    std::erase_if(numbers,
                  [&](std::size_t i) { return !seen.insert(schedule_of(record_[i].structure)).second; });
    numbers.resize(std::min(numbers.size(), most));
    for (std::size_t i : numbers)
      if (i == numbers.front() || !is_late()) forecast(i, record_[i].least_seconds);
  }

  void try_one(std::size_t place) {
    Candidate& c = prospects_[place];
    if (!prospects_.try_one(c)) return;
    c.is_tried = false;  // with more computed again
    open_.push({.seconds = misses_.of(c.structure).seconds * c.forecast.seconds,
                .known = Known::corrected,
                .number = place});
  }

  // ---- whole plans ----

  bool is_late() const { return request_.options.deadline.is_over(); }

  /// Beside the best structure other plans, or sparing ones of a search with a `worth`; where there is none, in its stead.
  void try_other_search() {
    if (trials_.best() && is_late()) is_cut_short_ = true;
    if (fixes_split(request_.constraints) || (trials_.best() && !others_.is_small()) || is_cut_short_) return;
    if (std::isfinite(worth_)) return is_late() ? void() : others_.try_sparing();
    if (trials_.best()) return others_.try_beside_best();
    std::vector<Constraints> structures = record_.structures();
    others_.try_instead(structures, most_attempts);
    std::ranges::reverse(structures);  // with more sharded, and computed again
    if (!trials_.does_fit()) others_.try_instead(structures, most_attempts);
  }

  /// Of what shares operators; other plans are not looked at with it, nor does the bound know of it.
  void try_overlapped() {
    if (!trials_.does_fit() || !may_overlap(request_) || is_late() || !shares_work(*trials_.best())) return;
    const int micro_batches = trials_.best()->settings.pipelining.micro_batches;
    if (const Graph* graph = tables_.graph(micro_batches)) trials_.try_overlapped(*graph);
  }

  Plan told() {
    if (!trials_.best()) {
      const std::string& why = trials_.why().empty() ? tables_.why() : trials_.why();
      throw Infeasible(fmt::format("no plan: {}", why.empty() ? why_ : why));
    }
    Plan out = *trials_.best();
    out.search = "auto";
    out.compared.clear();
    if (is_cut_short_) {
      out.status = name_of(SearchStatus::timeout);
      out.compared = fmt::format("; --search-time {} ended it", *request_.options.most_seconds);
    }
    out.log = record_.log();
    return out;
  }

  /// Seconds; nothing where a program takes less. A search that was cut short knows of what is still open.
  std::optional<double> bound_of_all() {
    double bound = open_.empty() ? bound_ : std::min(bound_, open_.top().seconds);
    // What was not tried may wait for as little as was seen.
    for (const Candidate& c : prospects_.all())
      if (!c.is_tried) bound = std::min(bound, c.least_seconds);
    bound = std::min(bound, bound_of_other_chunks());
    bound *= misses_.least_seconds();  // where a program took less than was forecast, others may, too
    const bool holds = std::isfinite(bound) && bound <= trials_.least_seconds();
    return holds ? std::optional(bound) : std::nullopt;
  }

  /// Of schedules with numbers of chunks that are tried only where they are near the best: none takes less than what the passes of
  /// as many as there can be take, and in large networks than with what replicas send each other.
  double bound_of_other_chunks() {
    constexpr double none = std::numeric_limits<double>::infinity();
    if (request_.constraints.schedule || std::isfinite(worth_)) return none;
    std::vector<std::pair<double, Constraints>> all;
    for (std::size_t i = 0; i < count_; ++i)
      if (std::optional<Constraints> s =
              with_most_chunks(record_[i].structure, tables_.row(record_[i].structure).size()))
        if (const auto seconds =
                is_late() ? bounds_->known_seconds(*s) : bounds_->seconds(*s, bounds_->count(*s) - 1);
            seconds && *seconds < trials_.seconds())
          all.emplace_back(*seconds, *std::move(s));
    std::ranges::sort(all, {}, &std::pair<double, Constraints>::first);
    constexpr std::size_t most_looked_at = 64;
    double out = none;
    for (std::size_t i = 0; i < all.size() && all[i].first < out; ++i) {
      double seconds = all[i].first;
      if (i < most_looked_at && !others_.is_small() && !is_late())
        if (const auto sure = forecasts_->sure_seconds(all[i].second))
          seconds = std::max(seconds, nearness * *sure);
      out = std::min(out, seconds);
    }
    return out;
  }

  Looked looked() const {
    return {count_, static_cast<std::size_t>(forecasts_->forecasts()), trials_.count()};
  }

  std::string conflict_text(const OpenStep& open) const {
    return automatic::conflict_text(request_, open) +
           (keeps_batch_ ? kept_batch_text(settings_of(request_).pipelining.micro_batches) : "");
  }

  const PlanRequest& request_;
  double worth_, bound_ = std::numeric_limits<double>::infinity();
  const Cluster& cluster_;
  std::int64_t cap_ = 0;
  Tables& tables_;
  Misses& misses_;
  std::size_t count_ = 0;                            // of structures
  bool keeps_batch_ = false, is_cut_short_ = false;  // by the time that it may take
  std::optional<Bounds> bounds_;
  std::optional<Candidates> forecasts_;
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
  Later later_;
  Record record_;
  Trials trials_;
  OtherPlans others_;
  Prospects prospects_;
  double best_forecast_ = std::numeric_limits<double>::infinity();  // seconds of what fits
  int best_forecast_at_ = 0, close_trials_ = 0, kin_ = 1;
  std::string why_;  // a structure can be none
  Doing doing_{request_.options.deadline.progress(), "search auto"};
};

}  // namespace

std::vector<Searcher> automatic() {
  return {{.name = "auto",
           .aliases = {},
           .doc = "stages, micro-batches, schedule, sharded states, recompute and all operators at once",
           .heeds = {Setting::fix, Setting::auto_pipeline, Setting::search_time, Setting::log},
           .preference = 0,
           .plan = [](const StepOf& step, const PlanRequest& request) {
             return best_of(step, request,
                            [](Tables& tables, Misses& misses, const PlanRequest& asked, double worth) {
                              return Search(tables, misses, asked, worth).run();
                            });
           }}};
}

}  // namespace shardwright::search
