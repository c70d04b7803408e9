// Networks made again from what a plan says of them.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "shardwright/frontend/model.h"
#include "shardwright/plan/plan.h"
#include "shardwright/search/planning/problem.h"

namespace shardwright {

/// How the network of a plan is built.
ModelOptions model_options(const Origin& origin, int batch_parts = 1, int interleave = 1);

/// The step, or without training the network, of the model called `spec`; `input` is what standard input held, and so many
/// parts of the batch are a micro-batch.
StepOf step_of(std::string spec, const Origin& origin, bool is_trained, std::string input = "",
               int interleave = 1);

/// Samples of a batch: dim 0 of the first input that has dims; nothing if there is none.
std::optional<std::int64_t> batch_of(const Graph& graph);

/// Settings that change nothing in `model`, made of `origin` for one of so many parts of a batch: by flag, why.
std::map<std::string, std::string> idle_settings(const Model& model, const Origin& origin, int batch_parts);

/// What to tell where the mean over `batch_parts` is another number than the loss of the whole batch; or empty.
std::string uneven_notice(const Model& model, int batch_parts);

/// Throws: Error if `plan` is of the network called `spec` as mixed precision was before it was mixed.
void check_means_mixed(const Plan& plan, const std::string& spec, const Graph& graph);

/// A plan file and the network that it was made for, with its train step.
struct PlannedModel {
  Model model;
  Plan plan;
};
/// Throws: Error if the file is no plan, or its network cannot be made again or is another one now.
PlannedModel planned_model(const std::string& path);
/// The same of the plan that was in it.
PlannedModel planned_model(Plan plan, const std::string& path);

}  // namespace shardwright
