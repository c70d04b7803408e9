#include "shardwright/frontend/planned_model.h"

#include "shardwright/annotations/expert_axes.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/plan/recompute.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {

ModelOptions model_options(const Origin& origin, int batch_parts, int interleave) {
  return {.global_batch = origin.global_batch,
          .precision = origin.precision,
          .loss = origin.loss,
          .attention = origin.attention,
          .micro_batches = batch_parts,
          .interleave = interleave};
}

namespace {

ModelOptions model_options(const Plan& plan) {
  const Pipelining& p = plan.settings.pipelining;
  return model_options(plan.origin, p.batch_parts(), p.interleave);
}

}  // namespace

StepOf step_of(std::string spec, const Origin& origin, bool is_trained, std::string input, int interleave) {
  return [=](int batch_parts) {
    Model part = build_model(spec, model_options(origin, batch_parts, interleave), input);
    if (is_trained) add_train_step(part.graph, part.loss, origin.optimizer);
    return std::move(part.graph);
  };
}

std::optional<std::int64_t> batch_of(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    const Shape& shape = graph.value(node.results.front()).type.shape;
    if (node.op->kind == OpKind::input && !shape.empty()) return shape.front();
  }
  return std::nullopt;
}

std::map<std::string, std::string> idle_settings(const Model& model, const Origin& origin, int batch_parts) {
  std::map<std::string, std::string> out;
  if (!model.has_attention) out["--attention"] = "the model has no attention that this could change";
  if (experts_of(model.graph) == 0) out["--routing-imbalance"] = "the network has no experts";
  if (!has_masters(model.graph))
    out["--reduce-precision"] = "every parameter is updated in the type that it is read in";
  else if (batch_parts > 1 && origin.optimizer.reduces_short)
    out["--reduce-precision"] = "gradients of several micro-batches are added up and reduced in f32";
  return out;
}

std::string uneven_notice(const Model& model, int batch_parts) {
  if (batch_parts == 1 || !model.has_uneven_loss) return "";
  return fmt::format(
      "{}: its loss is a sum or weighs labels, so the mean over {} micro-batches differs from the loss of "
      "the "
      "whole batch",
      model.name, batch_parts);
}

void check_means_mixed(const Plan& plan, const std::string& spec, const Graph& graph) {
  if (!plan.origin.precision.is_mixed || spec == "-" || fingerprint_of(graph) == plan.fingerprint) return;
  const Precision pure = plan.origin.precision.compute;
  ModelOptions options = model_options(plan);
  options.precision = pure;
  if (fingerprint_of(build_model(spec, options).graph) == plan.fingerprint)
    throw error(
        "the plan is of a time when {0} kept everything short, as {1} does now; plan again, with --precision "
        "{0} or {1}",
        to_text(plan.origin.precision), to_text(pure));
}

PlannedModel planned_model(const std::string& path) { return planned_model(known_plan(path), path); }

PlannedModel planned_model(Plan plan, const std::string& path) {
  if (plan.model == "-")
    throw error("{}: its network came from standard input; save it as NAME.graph and plan that", path);
  try {
    Model model = build_model(plan.model, model_options(plan));
    check_means_mixed(plan, plan.model, model.graph);
    add_train_step(model.graph, model.loss, plan.origin.optimizer);
    apply(plan, model.graph);  // it fits
    check(plan.settings.recompute, model.graph);
    check(plan.settings.offload, model.graph);
    return {std::move(model), std::move(plan)};
  } catch (const Error& e) {
    throw with_context(e, fmt::format("{}: the network that it was made for", path));
  }
}

}  // namespace shardwright
