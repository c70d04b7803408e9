// A row of a table of runs, and the program that it becomes.
#pragma once

#include <map>
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

}  // namespace shardwright
