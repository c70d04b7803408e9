// Whole plans: how many stages, micro-batches and replicas, which schedule, what is sharded and what is computed again;
// and within it the strategies of all operators.
//
//   minimize over structures s:  seconds of the step that s becomes     such that each device holds what it has to
//
// A network is a row of pieces, most of them alike (automatic/network.h). Of each kind of piece one is made into a program,
// on the devices of a stage, and says what such a piece takes (automatic/figures.h). What a structure takes is put together from
// these (automatic/forecast.h): stages are cut exactly, for the step to end soonest within memory.
//
// Best first: structures are taken in the order of a bound that none of them can undercut, what its passes take where
// nothing but tensor parallelism moves. What is taken gets a better bound, then a forecast, then becomes a program, which is
// simulated, and that decides. So the search ends when the next bound is above the best program.
//
// Cost: figures of some tens of pieces, a few milliseconds each, and a few whole programs.

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "shardwright/base/text.h"
#include "shardwright/graph/op.h"
#include "shardwright/passes/compile.h"
#include "shardwright/plan/batch.h"
#include "shardwright/search/automatic/forecast.h"
#include "shardwright/search/automatic/tables.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright::search {
namespace {

/// So many structures are made into programs whole.
constexpr std::size_t most_trials = 6;
/// And forecast; the bound ends nearly all searches before.
constexpr int most_forecasts = 300;
/// Of networks as small as that another search splits the operators of the best structure, too: its search is quick there.
constexpr std::size_t most_nodes_to_search = 2000;

/// Programs may take less than figures say, by so much.
constexpr double spare = 1.04;

class Search {
 public:
  Search(const StepOf& step, const PlanRequest& request)
      : request_(request), cluster_(*request.cluster), tables_(step, request) {
    cap_ = request.options.memory_cap.value_or(usable_bytes(cluster_));
  }

  /// Throws: Error if operators are fixed one by one, or the network has no batch; Infeasible if nothing can be split.
  Plan run() {
    check_free();
    structures_ = structures_of(request_, tables_.samples(), counts());
    if (structures_.empty())
      throw Infeasible(
          fmt::format("no plan: {} devices and {} samples have no structure with what is fixed{}",
                      request_.devices, tables_.samples(), fixed_text()));
    open_all();
    while (!open_.empty() && (!does_fit() || open_.top().seconds <= of_best_.estimate.step_seconds())) {
      const Open next = open_.top();
      open_.pop();
      look_at(next);
      if (next.known == forecast_known && trials_ >= most_trials) break;
    }
    if (!does_fit()) try_least_memory();
    try_other_search();
    return told();
  }

 private:
  /// A structure that may be the best, by what is known of it.
  struct Open {
    double seconds = 0;  // no step of it is shorter; where it is forecast, a little less than that
    int known = 0;
    std::size_t number = 0;  // of the structure, or of the forecast

    bool operator>(const Open& other) const {
      return std::tuple(seconds, -known, number) > std::tuple(other.seconds, -other.known, other.number);
    }
  };
  struct Candidate {
    Structure structure;
    Forecast forecast;
    std::vector<Open> others = {};  // which shard more of the states: of use if this one does not fit
  };

  static constexpr int exactly_known = 1, forecast_known = 2;

  // ---- what there is ----

  /// Throws: Error if operators or data are fixed one by one, which is for other searches.
  void check_free() const {
    const Annotations& a = request_.annotations;
    if (!a.nodes.empty() || a.dataset || !a.dataset_word.empty() || !a.stages.empty())
      throw error(
          "search auto: annotations and dataset strategies fix single operators; use --search recursive, or "
          "--fix for degrees");
  }

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

  bool does_fit() const { return best_ && of_best_.fits(); }

  /// Bytes up to which a forecast may fit. Forecasts of what is selected are high: a whole network keeps less.
  double room(const Structure& s) const {
    constexpr double whole_sequence = 1.13, split_sequence = 1.06;
    if (s.recompute != RecomputeMode::selected) return static_cast<double>(cap_);
    return static_cast<double>(cap_) * (s.degrees.sequence ? split_sequence : whole_sequence);
  }

  void open_all() {
    fewest_ = tables_.samples();
    for (const Structure& s : structures_) fewest_ = std::min(fewest_, tables_.samples_of_device(s));
    std::map<std::tuple<int, bool, std::int64_t, int, RecomputeMode, const Row*>, std::optional<Passes>>
        known;
    for (std::size_t i = 0; i < structures_.size(); ++i) {
      const Structure& s = structures_[i];
      const Row& row = tables_.row(s);
      if (row.size() < s.pipelining.parts()) continue;
      const auto [it, is_new] =
          known.try_emplace(std::tuple(s.degrees.tensor, s.degrees.sequence, tables_.samples_of_device(s),
                                       summed_of(s.pipelining), s.recompute, &row));
      if (is_new)
        if (const auto f = tables_.at_least(s, fewest_)) it->second = passes_of(row, *f);
      if (it->second) open_.push({least_seconds(*it->second, s.pipelining), 0, i});
    }
  }

  /// Finds out more of it: a better bound, a forecast, or what its program takes.
  void look_at(const Open& next) {
    if (next.known == forecast_known) {
      Candidate& c = candidates_[next.number];
      c.forecast.fits = try_structure(c);
      if (!c.forecast.fits)
        for (const Open& other : std::exchange(c.others, {})) open_.push(other);
      return;
    }
    const Structure& s = structures_[next.number];
    if (next.known < exactly_known) {
      if (!may_fit(s, *tables_.at_least(s, fewest_))) return;
      const Pieces* f = tables_.alone(s);
      if (!f || !may_fit(s, *f)) return;
      const double bound = least_seconds(passes_of(tables_.row(s), *f), s.pipelining);
      open_.push({std::max(bound, next.seconds), exactly_known, next.number});
      return;
    }
    const auto does_less = [&](const Candidate& c) { return c.forecast.fits && shards_less(c.structure, s); };
    const auto less = std::ranges::find_if(candidates_, does_less);
    if (less != candidates_.end())
      less->others.push_back(next);
    else if (forecasts_ < most_forecasts)
      forecast(s, next.seconds);
  }

  void forecast(const Structure& s, double bound) {
    const auto f = tables_.of_stage(s);
    if (!f) return;
    ++forecasts_;
    Candidate c{s, forecast_of(s, {tables_.row(s), *f, tables_.slots(s.pipelining), cluster_, room(s)})};
    tell(c, bound);
    if (c.forecast.bytes <= spare * room(s)) bound_ = std::min(bound_, bound);
    constexpr double nearness = 0.99;  // of forecasts to programs
    if (c.forecast.fits) open_.push({nearness * c.forecast.seconds, forecast_known, candidates_.size()});
    candidates_.push_back(std::move(c));
  }

  /// `a` is `b` but for states that are whole or shared, where `b` shares gradients or weights, too: not faster if `a` fits.
  static bool shards_less(Structure a, const Structure& b) {
    if (a.zero > 1 || b.zero < 2) return false;
    a.zero = b.zero;
    return a == b;
  }

  /// Whether memory may hold pieces that take at least `f`, of which data parallelism shares what it can. The least that
  /// it does not hold is remembered.
  bool may_fit(const Structure& s, Pieces f) {
    for (Figures& figures : f) figures = sharded(figures, s.zero, s.degrees.data);
    Candidate c{s,
                forecast_of(s, {tables_.row(s), f, tables_.slots(s.pipelining), cluster_, spare * room(s)})};
    const bool fits = c.forecast.fits;
    if (!fits && (!least_ || c.forecast.bytes < least_->forecast.bytes)) least_ = std::move(c);
    return fits;
  }

  void tell(const Candidate& c, double bound) {
    if (!request_.options.writes_log) return;
    log_.push_back(fmt::format("{}: at least {:.4g} s, forecast {:.4g} s and {:.4g} GB{}",
                               to_text(c.structure), bound, c.forecast.seconds, c.forecast.bytes * 1e-9,
                               c.forecast.fits ? "" : ", which does not fit"));
  }

  // ---- whole plans ----

  /// Of what does not fit, or was not forecast to.
  void try_least_memory() {
    constexpr std::size_t trials = 3;
    if (least_) candidates_.push_back(*least_);
    std::erase_if(candidates_, [](const Candidate& c) { return c.forecast.fits; });  // these were tried
    std::ranges::stable_sort(candidates_, {}, [](const Candidate& c) { return c.forecast.bytes; });
    candidates_.resize(std::min(candidates_.size(), trials));
    for (const Candidate& c : candidates_) try_structure(c);
  }

  /// The best structure, with operators split as another search likes it. Where no structure can be made, stages and parts
  /// of the batch in their stead, as far as they are open.
  void try_other_search() {
    const bool is_small = tables_.graph(1)->nodes.size() <= most_nodes_to_search;
    if (fixes_degrees() || (best_ && !is_small)) return;
    if (best_) {
      PlanRequest asked = request_;
      asked.settings = best_->settings;
      try_plan(std::move(asked), "recursive");
      return;
    }
    std::set<std::pair<int, int>> seen;
    for (const Structure& s : structures_) {
      if (s.pipelining.schedule.chunks > 1 || s.pipelining.micro_batches > 4 * s.pipelining.stages) continue;
      if (!seen.emplace(s.pipelining.stages, s.pipelining.micro_batches).second) continue;
      PlanRequest asked = with_structure(request_, s);
      asked.degrees.reset();
      try_plan(std::move(asked), fmt::format("recursive on {}", to_text(s)));
    }
  }

  Plan told() {
    if (!best_) throw Infeasible(fmt::format("no plan: {}", tables_.why().empty() ? why_ : tables_.why()));
    Plan out = *std::move(best_);
    out.search = "auto";
    out.compared = fmt::format("looked at {} structures, forecast {}, simulated {}", structures_.size(),
                               forecasts_, trials_);
    const double seconds = of_best_.estimate.step_seconds();
    // A search that was cut short knows of what is still open; programs that undercut it show that pieces do not add up.
    const double bound = open_.empty() ? bound_ : std::min(bound_, open_.top().seconds);
    if (bound <= fastest_) {
      out.lower_bound_seconds = std::min(bound, seconds);
      out.compared += fmt::format("; --set reaches no less than {:.4g} s, {:.1f}% below", bound,
                                  std::max(0.0, 100 * (1 - bound / seconds)));
    }
    out.log = std::move(log_);
    return out;
  }

  /// ` (dp=3, micro_batches=2)`.
  std::string fixed_text() const {
    const Expert& f = request_.fixed;
    std::vector<std::string> out;
    for (const auto& [word, value] :
         {std::pair("dp", f.data), {"tp", f.tensor}, {"pp", f.stages}, {"micro_batches", f.micro_batches}})
      if (value) out.push_back(fmt::format("{}={}", word, *value));
    if (f.micro_batch) out.push_back(fmt::format("micro_batch={}", *f.micro_batch));
    if (f.schedule) out.push_back(fmt::format("schedule={}", name_of(*f.schedule)));
    std::string text = out.empty() ? "" : fmt::format(" ({})", join(out, ", "));
    if (keeps_batch_)
      text += fmt::format("; parts of the batch have other losses, so there are as many as asked for: {}",
                          request_.settings.pipelining.micro_batches);
    return text;
  }

  bool fixes_degrees() const {
    const Expert& f = request_.fixed;
    return f.data || f.tensor || f.sequence || f.micro_batch;
  }

  /// Whether there is such a plan, and it fits.
  bool try_structure(const Candidate& c) {
    const Structure& s = c.structure;
    PlanRequest asked = with_structure(request_, s);
    const Graph* graph = tables_.graph(s.pipelining.micro_batches);
    if (graph && s.pipelining.stages > 1) asked.stage_of = stage_of(*graph, tables_.row(s), c.forecast.first);
    return try_plan(std::move(asked), to_text(s));
  }

  bool try_plan(PlanRequest asked, const std::string& what) {
    asked.search = "recursive";
    const Graph* graph = tables_.graph(asked.settings.pipelining.micro_batches);
    if (!graph) return false;
    try {
      return judge(make_plan(*graph, asked), *graph, what);
    } catch (const Error& e) {  // it cannot be split so, or stages read what is not there yet
      why_ = e.what();
      return false;
    }
  }

  bool judge(Plan plan, const Graph& graph, const std::string& what) {
    const Evaluation e =
        evaluate(compile_pipeline(graph, plan, {.formats = request_.formats, .verifies = false}), cluster_,
                 {.memory_cap = cap_, .framework = plan.settings.framework});
    ++trials_;
    const double seconds = e.estimate.step_seconds();
    if (e.fits()) fastest_ = std::min(fastest_, seconds);
    if (request_.options.writes_log)
      log_.push_back(fmt::format("{}: simulated {:.4g} s and {:.4g} GB{}", what, seconds,
                                 static_cast<double>(e.estimate.arena_bytes) * 1e-9,
                                 e.fits() ? "" : ", which does not fit"));
    if (!best_ || is_better(e, of_best_)) {
      best_ = std::move(plan);
      of_best_ = e;
    }
    return e.fits();
  }

  const PlanRequest& request_;
  const Cluster& cluster_;
  std::int64_t cap_ = 0;
  Tables tables_;
  std::vector<Structure> structures_;
  bool keeps_batch_ = false;
  std::int64_t fewest_ = 0;  // samples of a device in a micro-batch
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
  std::vector<Candidate> candidates_;
  std::vector<std::string> log_;
  std::optional<Candidate> least_;  // of memory, of those that surely do not fit
  double bound_ = std::numeric_limits<double>::infinity();
  int forecasts_ = 0;
  std::optional<Plan> best_;  // of those that were made into programs
  Evaluation of_best_;
  double fastest_ = std::numeric_limits<double>::infinity();  // of the programs that fit
  std::string why_;                                           // the last that was tried could not be made
  std::size_t trials_ = 0;
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
