#include "shardwright/search/automatic/trials.h"

#include <algorithm>
#include <utility>

#include "shardwright/base/text.h"
#include "shardwright/passes/compile.h"

namespace shardwright::automatic {

std::optional<Evaluation> Trials::run(const Graph& graph, PlanRequest asked, const std::string& what) {
  asked.search = splitting_search().name;
  ++attempts_;
  try {
    Plan plan = make_plan(graph, asked);
    if (asked.is_set) plan.structure = what;
    return judge(std::move(plan), graph, what);
  } catch (const Error& e) {  // it cannot be split so, or stages read what is not there yet
    why_ = e.what();
    return std::nullopt;
  }
}

void Trials::run_whole(const Graph& graph, PlanRequest asked) {
  const int devices = asked.devices;
  const std::string parallel(name_of(asked.parallel));
  asked.devices = 1;
  asked.cluster = request_.cluster->part(0, 1);
  asked.parallel = Parallel::stand_alone;
  asked.settings.pipelining.stages = 1;
  ++attempts_;
  try {
    Plan plan = make_plan(graph, asked);
    plan.cluster = *request_.cluster;
    plan.parallel = parallel;
    for (Mesh& mesh : plan.stages.front().meshes) mesh = Mesh{{{"idle", devices}}};
    judge(std::move(plan), graph, "whole on each device");
  } catch (const Error& e) {
    why_ = e.what();
  }
}

Evaluation Trials::judge(Plan plan, const Graph& graph, const std::string& what) {
  const Evaluation e =
      evaluate(compile_pipeline(graph, plan, {.formats = request_.formats, .verifies = false}),
               *request_.cluster, {.memory_cap = cap_, .framework = plan.settings.framework});
  ++count_;
  if (e.fits()) least_seconds_ = std::min(least_seconds_, e.estimate.step_seconds());
  tell(fmt::format("{}: simulated {:.4g} s and {:.4g} GB{}", what, e.estimate.step_seconds(),
                   static_cast<double>(e.estimate.arena_bytes) * 1e-9,
                   e.fits() ? "" : ", which does not fit"));
  if (!best_ || is_better(e, of_best_)) {
    best_ = std::move(plan);
    of_best_ = e;
  }
  return e;
}

}  // namespace shardwright::automatic
