#include "shardwright/search/automatic/trials.h"

#include <algorithm>
#include <utility>

#include "shardwright/base/text.h"
#include "shardwright/passes/compile.h"

namespace shardwright::automatic {

std::optional<Evaluation> Trials::run(const Graph& graph, PlanRequest asked, const std::string& what) {
  asked.search = "recursive";
  ++attempts_;
  try {
    return judge(make_plan(graph, asked), graph, what);
  } catch (const Error& e) {  // it cannot be split so, or stages read what is not there yet
    why_ = e.what();
    return std::nullopt;
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
