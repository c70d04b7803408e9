// Which run would tell most next.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/cli/run_asked.h"
#include "shardwright/cost/run_fit.h"

namespace shardwright {

/// A run that nobody has made.
struct NextRun {
  RunAsked run;
  std::string figure;       // that it would tell most of
  double from = 0, to = 0;  // its spread, before and after
};
/// The neighbour of `runs` (other degrees, micro-batches, recompute) after which the figures are surest together; none
/// where no neighbour can be planned. `price`: of a run. Throws nothing of what a neighbour cannot.
std::optional<NextRun> next_run(const std::vector<RunAsked>& runs, const std::vector<RunFigure>& figures,
                                const RunFit& fit, const std::function<MeasuredRun(const RunAsked&)>& price);
std::string text_of(const NextRun& next);
nlohmann::ordered_json json_of(const NextRun& next);

}  // namespace shardwright
