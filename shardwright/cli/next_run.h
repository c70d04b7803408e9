// What runs tell beside times: memory as a framework took it, and which run would tell most next.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/cost/run_fit.h"
#include "shardwright/lower/pipeline.h"

namespace shardwright {

/// A row of a table of runs.
struct RunAsked {
  std::string place;  // `runs.csv:3`
  std::string model, plan;
  std::optional<double> seconds = {}, bytes = {};
  std::map<std::string, std::string> flags = {};  // of estimate, by name
};
/// The command that asks for its price, on so many devices of `cluster` as it is for.
std::vector<std::string> words_of(const RunAsked& run, const std::string& cluster);

/// What it runs, where, and as whose memory it is judged.
struct PricedRun {
  Pipeline pipeline;
  Cluster cluster;
  std::string framework;
};

/// `run` must outlive it.
MeasuredRun measured_run(double seconds, const PricedRun& run, const std::vector<RunFigure>& figures);

/// Of the runs of one framework that say bytes: what it has beside what is predicted, a constant and a share of what comes
/// and goes in a step.
struct MemoryFit {
  std::string framework;
  std::size_t runs = 0;
  double constant = 0, constant_spread = 0;  // bytes
  double slack = 0, slack_spread = 0;
  double error_before = 0, error = 0;  // means of |predicted / measured - 1|
};
std::vector<MemoryFit> memory_fits(const std::vector<RunAsked>& runs,
                                   const std::vector<const PricedRun*>& priced);
std::string text_of(const MemoryFit& fit);
nlohmann::ordered_json json_of(const MemoryFit& fit);

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
