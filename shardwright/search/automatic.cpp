// Whole plans: how many stages, micro-batches and replicas, which schedule, what is sharded and what is computed again;
// and within it the strategies of all operators.
//
//   minimize over structures s:  seconds of the step that s becomes     such that each device holds what it has to
//
// A network is a row of pieces, most of them alike (automatic/network.h). Of each kind of piece one is made into a program,
// on the devices of a stage, and says what such a piece takes (automatic/figures.h). What a structure takes is put together from
// these (automatic/forecast.h): stages are cut exactly, for the slowest to be fastest within memory.
//
// Structures are taken in the order of a bound that none of them can undercut: what its passes take where nothing but
// tensor parallelism moves. So the search ends when the next bound is above the best forecast. The best few are made into
// programs whole and simulated, and that decides.
//
// Cost: figures of some tens of pieces, a few milliseconds each, and a few whole programs.

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>

#include "shardwright/base/text.h"
#include "shardwright/graph/op.h"
#include "shardwright/passes/compile.h"
#include "shardwright/plan/batch.h"
#include "shardwright/search/automatic/forecast.h"
#include "shardwright/search/automatic/tables.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright::search {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// So many structures are made into programs whole.
constexpr std::size_t most_trials = 6;
/// Of networks as small as that another search splits the operators of the best structure, too: its search is quick there.
constexpr std::size_t most_nodes_to_search = 2000;
/// And forecast; the bound ends nearly all searches before.
constexpr int most_forecasts = 300;

/// Programs may take less than figures say, by so much.
constexpr double spare = 1.04;

/// A forward operator sums over samples into more than one number: what it makes of a part of the batch is another.
bool mixes_samples(const Graph& graph) {
  const BatchDims is_batch = batch_dims(graph);
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.phase != Phase::forward || node.op->kind != OpKind::compute) continue;
    const auto has_batch = [&](ValueId v) {
      const std::vector<bool>& dims = is_batch[at(v.index)];
      return std::find(dims.begin(), dims.end(), true) != dims.end();
    };
    const bool reads = std::ranges::any_of(node.operands, has_batch);
    for (ValueId v : node.results)
      if (reads && !has_batch(v) && element_count(graph.value(v).type.shape) > 1) return true;
  }
  return false;
}

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
    forecast_best();
    Plan plan = best_of_trials();
    plan.search = "auto";
    return plan;
  }

 private:
  struct Candidate {
    Structure structure;
    Forecast forecast;
  };

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
    if (request_.keeps_micro_batches || mixes_samples(tables_.network(1)->graph()))
      return {request_.settings.pipelining.micro_batches};
    std::vector<int> out;
    for (int m = 1; m <= std::min<std::int64_t>(tables_.samples(), most_micro_batches); ++m)
      if (tables_.samples() % m == 0) out.push_back(m);
    return out;
  }

  // ---- structures ----

  /// A structure that may be the best: no step of it is shorter than `bound`, as far as is known of it.
  struct Open {
    double bound = 0;
    int known = 0;  // 0: without what it computes again; 1: with that, and that memory may hold it
    const Structure* structure = nullptr;

    bool operator>(const Open& other) const {
      return std::tuple(bound, -known, structure) > std::tuple(other.bound, -other.known, other.structure);
    }
  };

  void forecast_best() {
    std::int64_t fewest = tables_.samples();  // of a device in a micro-batch
    for (const Structure& s : structures_) fewest = std::min(fewest, tables_.samples_of_device(s));
    std::priority_queue<Open, std::vector<Open>, std::greater<>> open;
    for (const Structure& s : structures_)
      if (const auto f = tables_.at_least(s, fewest))
        if (const auto bound = bound_within_memory(s, *f)) open.push({*bound, 0, &s});
    double best = std::numeric_limits<double>::infinity();
    std::vector<Structure> fitting;
    while (!open.empty() && open.top().bound <= best && forecasts_ < most_forecasts) {
      const Open next = open.top();
      open.pop();
      const Structure& s = *next.structure;
      if (next.known == 0) {
        if (const Pieces* f = tables_.alone(s))
          if (const auto bound = bound_within_memory(s, *f)) open.push({std::max(*bound, next.bound), 1, &s});
        continue;
      }
      if (std::ranges::any_of(fitting, [&](const Structure& f) { return shards_less(f, s); })) continue;
      const auto f = tables_.of_stage(s);
      if (!f) continue;
      ++forecasts_;
      Candidate c{s, forecast_of(*tables_.network_of(s), *f, s, cluster_, static_cast<double>(cap_))};
      tell(c, next.bound);
      if (c.forecast.bytes <= spare * static_cast<double>(cap_)) bound_ = std::min(bound_, next.bound);
      if (c.forecast.fits) {
        best = std::min(best, c.forecast.seconds);
        fitting.push_back(s);
      }
      candidates_.push_back(std::move(c));
    }
    const auto order = [](const Candidate& c) {
      return std::tuple(!c.forecast.fits, c.forecast.fits ? c.forecast.seconds : c.forecast.bytes);
    };
    std::ranges::stable_sort(candidates_, {}, order);
  }

  /// `a` is `b` with less of the states sharded, which is never slower where it fits; but sharing the update is.
  static bool shards_less(Structure a, const Structure& b) {
    if (a.zero >= b.zero || b.zero < 2) return false;
    a.zero = b.zero;
    return a == b;
  }

  /// No step of `s` is shorter if its pieces take at least `f`, of which data parallelism shares what it can; nothing if
  /// memory surely does not hold it. The least that does not is remembered.
  std::optional<double> bound_within_memory(const Structure& s, Pieces f) {
    const Network& row = *tables_.network(1);  // of any: pieces are the same
    if (static_cast<int>(row.pieces().size()) < s.pipelining.parts()) return std::nullopt;
    for (Figures& figures : f) figures = sharded(figures, s.zero, s.degrees.data);
    Candidate c{s, forecast_of(row, f, s, cluster_, spare * static_cast<double>(cap_))};
    if (c.forecast.fits) return least_seconds(row, f, s);
    if (!least_ || c.forecast.bytes < least_->forecast.bytes) least_ = std::move(c);
    return std::nullopt;
  }

  void tell(const Candidate& c, double bound) {
    if (!request_.options.writes_log) return;
    log_.push_back(fmt::format("{}: at least {:.4g} s, forecast {:.4g} s and {:.4g} GB{}",
                               to_text(c.structure), bound, c.forecast.seconds, c.forecast.bytes * 1e-9,
                               c.forecast.fits ? "" : ", which does not fit"));
  }

  // ---- whole plans ----

  Plan best_of_trials() {
    if (least_ && (candidates_.empty() || !candidates_.front().forecast.fits))
      candidates_.insert(candidates_.begin(), *least_);
    for (const Candidate& c : candidates_) {
      if (best_ && (trials_ == most_trials || !may_be_better(c))) break;
      if (std::optional<Plan> plan = tried(c)) judge(*std::move(plan), to_text(c.structure));
    }
    const bool is_small = tables_.network(1)->graph().nodes.size() <= most_nodes_to_search;
    if (!best_ && !fixes_degrees()) {
      if (auto plan = tried_freely(request_.settings)) judge(*std::move(plan), "recursive");
    } else if (best_ && is_small && !fixes_degrees()) {
      if (auto plan = tried_freely(Settings(best_->settings))) judge(*std::move(plan), "the same, recursive");
    }
    if (!best_) throw Infeasible("no plan: no structure of stages, replicas and parts fits this network");
    std::optional<Plan>& best = best_;
    best->compared = fmt::format("looked at {} structures, forecast {}, simulated {}", structures_.size(),
                                 forecasts_, trials_);
    best->log = std::move(log_);
    best->lower_bound_seconds = std::min(bound_, of_best_.estimate.step_seconds());
    return *std::move(best);
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
    return out.empty() ? "" : fmt::format(" ({})", join(out, ", "));
  }

  bool fixes_degrees() const {
    const Expert& f = request_.fixed;
    return f.data || f.tensor || f.sequence || f.micro_batch;
  }

  void judge(Plan plan, const std::string& what) {
    ++trials_;
    const Evaluation e = evaluation_of(plan);
    if (request_.options.writes_log)
      log_.push_back(fmt::format("{}: simulated {:.4g} s and {:.4g} GB{}", what, e.estimate.step_seconds(),
                                 static_cast<double>(e.estimate.arena_bytes) * 1e-9,
                                 e.fits() ? "" : ", which does not fit"));
    if (best_ && !is_better(e, of_best_)) return;
    best_ = std::move(plan);
    of_best_ = e;
  }

  /// Forecasts are that near to what programs take.
  bool may_be_better(const Candidate& c) const {
    constexpr double nearness = 0.01;
    if (!of_best_.fits()) return true;
    return c.forecast.fits && c.forecast.seconds < of_best_.estimate.step_seconds() * (1 + nearness);
  }

  std::optional<Plan> tried(const Candidate& c) {
    PlanRequest asked = with_structure(request_, c.structure);
    if (c.structure.pipelining.stages > 1)
      asked.stage_of = tables_.network_of(c.structure)->stage_of(c.forecast.first);
    return planned(std::move(asked));
  }

  /// The same structure, with operators split as another search likes it.
  std::optional<Plan> tried_freely(const Settings& settings) {
    PlanRequest asked = request_;
    asked.settings = settings;
    return planned(std::move(asked));
  }

  std::optional<Plan> planned(PlanRequest asked) {
    asked.search = "recursive";
    try {
      return make_plan(tables_.network(asked.settings.pipelining.micro_batches)->graph(), asked);
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  Evaluation evaluation_of(const Plan& plan) {
    const Graph& graph = tables_.network(plan.settings.pipelining.micro_batches)->graph();
    return evaluate(compile_pipeline(graph, plan, {.formats = request_.formats, .verifies = false}), cluster_,
                    {.memory_cap = cap_, .framework = plan.settings.framework});
  }

  const PlanRequest& request_;
  const Cluster& cluster_;
  std::int64_t cap_ = 0;
  Tables tables_;
  std::vector<Structure> structures_;
  std::vector<Candidate> candidates_;
  std::vector<std::string> log_;
  std::optional<Candidate> least_;  // of memory, of those that surely do not fit
  double bound_ = std::numeric_limits<double>::infinity();
  int forecasts_ = 0;
  std::optional<Plan> best_;  // of those that were made into programs
  Evaluation of_best_;
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
