#include "shardwright/cli/run_asked.h"

#include "shardwright/simulate/estimate.h"

namespace shardwright {

std::vector<std::string> words_of(const RunAsked& run, const std::string& cluster) {
  const bool is_saved = run.plan.ends_with(".json");
  std::vector<std::string> out{"estimate", is_saved ? run.plan : run.model};
  if (is_saved) return out;
  for (const auto& [flag, value] : run.flags) out.insert(out.end(), {flag, value});
  out.insert(out.end(), {"--cluster", cluster, "--set", run.plan});
  return out;
}

MeasuredRun measured_run(double seconds, const PricedRun& run, const std::vector<RunFigure>& figures) {
  return {seconds, [&run, &figures](const std::vector<double>& factors) {
            return estimate(run.pipeline, scaled(run.cluster, figures, factors)).step_seconds();
          }};
}

}  // namespace shardwright
