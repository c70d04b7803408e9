#include "shardwright/frontend/network.h"

#include "shardwright/annotations/patterns.h"
#include "shardwright/frontend/mixed_precision.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/search/planning/plan_alike.h"

namespace shardwright {
namespace {

/// Throws: Error if the options ask for something that the plan has decided otherwise.
void check_fits(const Plan& plan, const TrainOptions& options, const Graph& graph) {
  if (!options.annotation_file.empty() || !options.dataset_strategy.empty() ||
      !options.dataset_layouts.empty())
    throw error("plan_file {}: the plan has decided how operators and data are split; leave out the others",
                options.plan_file);
  if (options.settings != Settings{} || !options.stages.empty())
    throw error("plan_file {}: the plan has decided settings and stages; leave out both", options.plan_file);
  if (!options.fusion_numbers.empty() || !options.all_reduce_fusion_config.empty())
    throw error("plan_file {}: the plan has decided what is fused; leave out fusion numbers",
                options.plan_file);
  if (options.devices != plan.devices())
    throw error("plan_file {}: the plan is for {} devices but there are {}", options.plan_file,
                plan.devices(), options.devices)
        .between({.key = "devices",
                  .wanted = std::to_string(plan.devices()),
                  .given = std::to_string(options.devices)});
  apply(plan, graph);  // it fits
  check(plan.settings.recompute, graph);
  check(plan.settings.offload, graph);
}

Pipelining pipelining_of(const TrainOptions& options, const std::optional<Plan>& saved) {
  if (saved) return saved->settings.pipelining;
  check(options.settings.pipelining);
  return options.settings.pipelining;
}

Type of_micro_batch(const std::string& name, Type type, int micro_batches) {
  if (micro_batches == 1) return type;
  if (type.shape.empty() || type.shape[0] % micro_batches)
    throw error("input '{}' is {} and cannot be cut into {} micro-batches along dim 0", name, to_text(type),
                micro_batches);
  type.shape[0] /= micro_batches;
  return type;
}

}  // namespace

OptimizerChoice sgd(double rate) { return {"sgd", {{"rate", rate}}}; }
OptimizerChoice momentum(double rate, double momentum) {
  return {"momentum", {{"rate", rate}, {"momentum", momentum}}};
}
OptimizerChoice adam(double rate) { return {"adam", {{"rate", rate}}}; }
OptimizerChoice adamw(double rate, double weight_decay) {
  return {"adamw", {{"rate", rate}, {"weight_decay", weight_decay}}};
}

namespace {

/// Throws: Error if a mistake is in it, or fusion is said in both forms.
Settings settings_of(const TrainOptions& options) {
  Settings out = options.settings;
  if (options.all_reduce_fusion_config.empty()) return out;
  if (out.comm_fusion != CommFusion{})
    throw error("comm_fusion {} and all_reduce_fusion_config exclude each other", to_text(out.comm_fusion));
  out.comm_fusion.all_reduce = index_limit(options.all_reduce_fusion_config);
  return out;
}

/// Either may say it.
bool reduces_short(const OptimizerChoice& optimizer, const TrainOptions& options) try {
  return reduces_short_called(options.reduce_precision) || optimizer.reduces_short;
} catch (const Error& e) {
  throw error("reduce_precision {}", e.what());
}

LossScale loss_scale(const OptimizerChoice& optimizer, const TrainOptions& options) {
  if (options.loss_scale.empty())
    return optimizer.loss_scale.is_on() ? optimizer.loss_scale : default_loss_scale(options.precision);
  if (const auto scale = parse_loss_scale(options.loss_scale)) return *scale;
  throw error("loss_scale {}: should be {}", options.loss_scale, known_loss_scales);
}

OptimizerChoice with_options(OptimizerChoice optimizer, const TrainOptions& options) {
  optimizer.reduces_short = reduces_short(optimizer, options);
  optimizer.loss_scale = loss_scale(optimizer, options);
  return optimizer;
}

/// The train step of one micro-batch.
TracedGraph traced(const ForwardFunction& forward, const InputTypes& inputs, const OptimizerChoice& optimizer,
                   const Precision& precision, int micro_batches) {
  Trace trace(precision);
  std::vector<Traced> values;
  for (const auto& [name, type] : inputs)
    values.push_back(trace.input(name, of_micro_batch(name, type, micro_batches)));
  const LossAndAux result = forward(values);
  Graph graph = std::move(trace.graph());
  graph.outputs = {result.loss.id};
  for (const Traced& t : result.aux) graph.outputs.push_back(t.id);
  graph = with_precision(std::move(graph), precision);
  add_train_step(graph, graph.outputs.front(), optimizer);
  return {std::move(graph), trace.constraints()};
}

std::optional<Plan> saved_plan_of(const TrainOptions& options) {
  if (options.plan_file.empty()) return std::nullopt;
  return known_plan(options.plan_file);
}

/// What is asked of the plan of `traced`.
PlanRequest request_of(const TracedGraph& traced, const OptimizerChoice& optimizer,
                       const TrainOptions& options) {
  // Within the braces below, GCC 12 would free twice when it throws.
  const Settings settings = settings_of(options);
  Constraints fixed = merged(constraints_of(settings), traced.constraints);
  PlanRequest request{.model = "traced network",
                      .origin = {.precision = options.precision, .optimizer = optimizer},
                      .devices = options.devices,
                      .search = options.search,
                      .options = options.search_options,
                      .constraints = std::move(fixed),
                      // Whoever cuts the batch knows whether its loss is a mean.
                      .kept_micro_batches = settings.pipelining.micro_batches,
                      .formats = options.device.formats};
  request.parallel = options.devices == 1 ? Parallel::stand_alone : options.parallel;
  if (!options.annotation_file.empty())
    request.constraints = merged(std::move(request.constraints),
                                 without_patterns(load_annotations(options.annotation_file), traced.graph));
  for (const auto& [name, number] : options.fusion_numbers) request.constraints.fusion_numbers[name] = number;
  for (const auto& [name, stage] : options.stages) request.constraints.stages[name] = stage;
  if (!options.dataset_strategy.empty())
    request.constraints.dataset = parse_dataset(options.dataset_strategy);
  if (!options.dataset_layouts.empty())
    request.constraints.dataset = DataSplit{.splits = annotation_of("dataset", options.dataset_layouts)};
  return request;
}

/// `step`: the same of other numbers of micro-batches, if it can be had.
PlannedNetwork planned(TracedGraph traced, const OptimizerChoice& optimizer, const TrainOptions& options,
                       const std::optional<Plan>& saved, const StepOf& step = {}) {
  Graph& graph = traced.graph;
  if (saved) {
    check_fits(*saved, options, graph);
    return {.graph = std::move(graph), .plan = *saved, .formats = options.device.formats};
  }
  const PlanRequest request = request_of(traced, optimizer, options);
  Plan plan = step ? make_plan(step, request) : make_plan(graph, request);
  return {.graph = std::move(graph), .plan = std::move(plan), .formats = options.device.formats};
}

}  // namespace

PlannedNetwork plan_network(const ForwardFunction& forward, const InputTypes& inputs,
                            const OptimizerChoice& asked, const TrainOptions& options) {
  const OptimizerChoice optimizer = with_options(asked, options);
  const std::optional<Plan> saved = saved_plan_of(options);
  const auto step_of = [&](int micro_batches) {
    return traced(forward, inputs, optimizer, options.precision, micro_batches);
  };
  return planned(step_of(pipelining_of(options, saved).batch_parts()), optimizer, options, saved,
                 [&](int micro_batches) { return step_of(micro_batches).graph; });
}

std::vector<PlannedNetwork> plan_networks(const ForwardFunction& forward,
                                          const std::vector<InputTypes>& sizes, const OptimizerChoice& asked,
                                          const TrainOptions& options) {
  if (sizes.empty()) throw error("there is no batch to plan for");
  const OptimizerChoice optimizer = with_options(asked, options);
  const std::optional<Plan> saved = saved_plan_of(options);
  const auto step_for = [&](const InputTypes& inputs) {
    return [&](int micro_batches) {
      return traced(forward, inputs, optimizer, options.precision, micro_batches).graph;
    };
  };
  const auto request_for = [&](const InputTypes& inputs, int parts) {
    return on_devices(
        request_of(traced(forward, inputs, optimizer, options.precision, parts), optimizer, options));
  };
  const StepOf first = step_for(sizes.front());
  Plan plan = saved
                  ? *saved
                  : make_plan(first, request_for(sizes.front(), pipelining_of(options, saved).batch_parts()));
  const int parts = plan.settings.pipelining.batch_parts();
  Graph graph = first(parts);
  if (saved) check_fits(plan, options, graph);
  const FormatsOf& formats = options.device.formats;
  const PlanThere there = plan_there(std::move(graph), std::move(plan), formats, saved.has_value());
  std::vector<PlannedNetwork> out{{.graph = there.graph, .plan = there.plan, .formats = formats}};
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    PlannedAlike made = plan_alike(there, step_for(sizes[i]), request_for(sizes[i], parts));
    out.push_back({.graph = std::move(made.graph), .plan = std::move(made.plan), .formats = formats});
  }
  return out;
}

PlannedNetwork plan_graph(TracedGraph traced, const OptimizerChoice& optimizer, const TrainOptions& options) {
  return planned(std::move(traced), with_options(optimizer, options), options, saved_plan_of(options));
}

}  // namespace shardwright
