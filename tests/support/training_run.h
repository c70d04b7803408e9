// Whole training runs for tests: a model by name with an optimizer, on one device or under a plan, from the tensors of
// a reference (tests/reference), or from initial values and synthetic data of seed 7 where it holds none.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/runtime/session.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright::testing {

struct TrainingRun {
  std::string model;  // as on the command line
  std::string file;   // tests/reference/FILE.safetensors; empty: none
  OptimizerChoice optimizer;
  Precision precision = {};
  std::int64_t steps = 0;  // 0: those of the reference, or 8
  std::string loss = "";   // as --loss
  Attention attention = Attention::flash;
};

struct Outcome {
  std::vector<double> losses;                          // of every step, before its update
  std::map<std::string, std::vector<double>> weights;  // and modules' states after the last step, by name
  std::vector<std::vector<double>> outputs;            // of the last step, the loss first
  SessionStatistics statistics;
};

std::string path_of_reference(const std::string& file);

/// Its steps on one device, under the plan that `request` makes (its model is set, its search recursive unless it has
/// one), or under random_plan. Nothing if this process has none of the ranks (tests/support/on_each_rank.h).
std::optional<Outcome> run_alone(const TrainingRun& run);
std::optional<Outcome> run_planned(const TrainingRun& run, PlanRequest request);
std::optional<Outcome> run_random(const TrainingRun& run, int devices, std::uint64_t seed);
/// Under random_pipeline.
std::optional<Outcome> run_random_pipeline(const TrainingRun& run, int devices, int micro_batches,
                                           std::uint64_t seed);

/// The train step of the model for one of so many micro-batches, ready to be planned.
Model train_model(const TrainingRun& run, int micro_batches = 1);
/// A program of it that somebody else has made: proven, and then run.
std::optional<Outcome> run_pipeline(const TrainingRun& run, Pipeline program);

/// Largest difference relative to the largest magnitude of `b`, which counts as 1e-6 at least.
double difference(const std::vector<double>& a, const std::vector<double>& b);

/// Expects each loss within `losses`, relative, of the one in the reference's file.
void expect_losses_of_reference(const Outcome& have, const TrainingRun& run, double losses);

struct Tolerance {
  double losses = 0;   // relative to each
  double weights = 0;  // relative to the largest element of each
};
/// Expects the same where both are: rank 0 has part in every run.
void expect_same(const std::optional<Outcome>& have, const std::optional<Outcome>& want,
                 const Tolerance& tolerance);

}  // namespace shardwright::testing
