#include "shardwright/search/automatic/trials.h"

#include <algorithm>
#include <utility>

#include "shardwright/base/attempt.h"
#include "shardwright/base/quantity.h"
#include "shardwright/base/text.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/automatic/stock.h"
#include "shardwright/search/planning/suggestion.h"

namespace shardwright::automatic {

namespace {

/// Other plans than those that were looked at may take less.
bool is_something_fixed(const Constraints& c) {
  return !c.operators.empty() || !c.tensors.empty() || !c.stages.empty() ||
         std::ranges::any_of(constraint_words(),
                             [&](const ConstraintWord& word) { return word.is_chosen && word.is_said(c); });
}

}  // namespace

bool may_overlap(const PlanRequest& request) {
  return !request.constraints.overlap_tensor && request.cluster->overlap > 0;
}

void tell_bound(Plan& plan, const PlanRequest& request, double bound, double seconds) {
  // Of parts side by side a piece alone hides less than it does between others, so that forecasts bound nothing.
  if (plan.settings.pipelining.interleave > 1) return;
  if (plan.settings.overlap_tensor && may_overlap(request)) return;  // which it knows nothing of
  plan.lower_bound_seconds = std::min(bound, seconds);
  plan.compared +=
      fmt::format("; {}{} takes less than {}, {:.1f}% below",
                  is_something_fixed(request.constraints) ? "with what is fixed no plan" : "no --set",
                  may_overlap(request) ? " without overlap_tensor" : "", seconds_text(bound),
                  std::max(0.0, 100 * (1 - bound / seconds)));
}

std::string Trials::best_text() const {
  return does_fit() ? fmt::format(", best step {:.4g} s", seconds()) : "";
}

std::optional<Evaluation> Trials::run(const Graph& graph, PlanRequest asked, std::size_t number) {
  asked.search = splitting_search().name;
  Stock of_other;
  asked.stock = &of_other;
  asked.evaluated = &evaluated_;
  ++attempts_;
  const auto out = attempt(why_, [&] {
    Plan plan = make_plan(graph, asked);
    if (asked.is_set) plan.structure = structure_text(record_[number].structure);
    record_.add_misfit(of_other.tried, record_[number].words);
    return judge(std::move(plan), graph, number);
  });
  if (!out) refuse(number);  // it cannot be split so, or stages read what is not there yet
  return out;
}

void Trials::run_whole(const Graph& graph, PlanRequest asked) {
  const int devices = asked.devices;
  const std::string parallel(name_of(asked.parallel));
  asked.devices = 1;
  asked.stock = nullptr;
  asked.evaluated = nullptr;  // on another cluster
  asked.cluster = request_.cluster->part(0, 1);
  asked.parallel = Parallel::stand_alone;
  asked.constraints.degrees.set("pp", 1);
  ++attempts_;
  const std::size_t number = record_.add("whole on each device");
  const auto out = attempt(why_, [&] {
    Plan plan = make_plan(graph, asked);
    plan.cluster = *request_.cluster;
    plan.parallel = parallel;
    for (Mesh& mesh : plan.stages.front().meshes) mesh = Mesh{{{"copies", devices}}};
    return judge(std::move(plan), graph, number);
  });
  if (!out) refuse(number);
}

void Trials::try_overlapped(const Graph& graph) {
  Plan plan = *best_;
  plan.settings.overlap_tensor = true;
  if (!plan.structure.empty()) plan.structure += ",overlap_tensor=1";
  ++attempts_;
  const std::size_t number = record_.add(shardwright::structure_text(plan));
  if (!attempt(why_, [&] { return judge(std::move(plan), graph, number); })) refuse(number);
}

/// With other stages it may have become a program.
void Trials::refuse(std::size_t number) {
  if (record_[number].by == KnownBy::program) return;
  record_[number].fate = Fate::impossible;
  record_[number].why = why_;
}

/// The same structure may be cut alike in two ways, or become no lighter; that counts once.
Evaluation Trials::evaluated(const Plan& plan, const Graph& graph, std::size_t number) {
  const Evaluation* known = evaluated_.find(plan.settings, plan.stages);
  if (!known) known = evaluated_.add(plan.settings, plan.stages, made(plan, graph));
  Evaluation e = *known;
  if (request_.cluster->kinds.empty())  // else each has its own limit, whoever asks
    e.cap_bytes = request_.options.memory_cap.value_or(usable_bytes(*request_.cluster));
  if (judged_.contains({number, known})) return e;
  if (const auto cap = request_.options.host_cap; cap && e.estimate.host_bytes > *cap)
    throw Infeasible(fmt::format("no plan: {} of the host for each device, which has {} for it",
                                 bytes_text(e.estimate.host_bytes), bytes_text(*cap)));
  judged_.emplace(number, known);
  ++count_;
  record_.simulated(number, e.estimate.step_seconds(), static_cast<double>(e.estimate.arena_bytes), e.fits());
  return e;
}

Evaluation Trials::made(const Plan& plan, const Graph& graph) const {
  return evaluate(compile_pipeline(graph, plan, {.formats = request_.formats, .verifies = false}),
                  *request_.cluster,
                  {.memory_cap = request_.options.memory_cap, .framework = plan.settings.framework});
}

Evaluation Trials::judge(Plan plan, const Graph& graph, std::size_t number) {
  const Evaluation e = evaluated(plan, graph, number);
  if (e.fits()) least_seconds_ = std::min(least_seconds_, e.estimate.step_seconds());
  if (!best_ || is_better(e, of_best_)) {
    best_ = std::move(plan);
    best_number_ = number;
    of_best_ = e;
  }
  return e;
}

}  // namespace shardwright::automatic
