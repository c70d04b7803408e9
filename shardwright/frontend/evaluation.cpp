#include "shardwright/frontend/evaluation.h"

#include "shardwright/frontend/inference.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {

AskedNetwork asked_network(const Model& model, const SampleSource& source, PlanRequest request,
                           const PrepareOptions& options) {
  auto data = std::make_shared<const HeldOut>(held_out_of(model, source));
  Model asked = inference_of(model, model.loss.is_valid() && data->has("label"));
  Constraints split;  // by degrees or into stages, and no more
  if (request.is_set) {
    split.degrees = request.constraints.degrees;
    split.degrees.share(Sharing::stages, std::nullopt);
    split.sequence_parallel = request.constraints.sequence_parallel;
    split.operators = request.constraints.operators;
  } else if (const int stages = stage_count(request.constraints); stages > 1) {
    split.degrees.set("pp", stages);
  }
  request.constraints = std::move(split);
  request.kept_micro_batches = 1;  // a batch is asked about at once, by stages one after the other
  request.model = model.name;
  request.formats = options.device.formats;
  Plan plan = make_plan(asked.graph, request);
  Prepared program = prepare(asked.graph, plan, options);
  return {std::move(asked), std::move(plan), std::move(program), std::move(data)};
}

AskOptions ask_options_of(const AskedNetwork& network) {
  return {.has_labels = network.has_labels(), .are_sequences = network.model.tokens > 0};
}

bool tells_accuracy(const AskedNetwork& network) {
  if (!network.has_labels()) return false;
  const Graph& graph = network.model.graph;
  return are_scores(graph.value(graph.outputs[1]).type, graph.value(graph.find("label")).type);
}

void check_eval(const AskedNetwork& network, const std::string& called) {
  if (!network.has_labels()) throw error("{}: has no 'label', so nothing can be said about it", called);
  if (network.data->samples() < network.data->batch())
    throw error("{}: has {} samples, but a batch takes {}", called, network.data->samples(),
                network.data->batch());
  if (!tells_accuracy(network)) return;
  const Graph& graph = network.model.graph;
  const std::int64_t classes = graph.value(graph.outputs[1]).type.shape.back();
  for (double label : to_doubles(network.data->column("label")))
    if (label >= static_cast<double>(classes))
      throw error("{}: 'label' holds {}, but the network knows {} classes, from 0 on", called, label,
                  classes);
}

Evaluator::Evaluator(const AskedNetwork& network, const SessionStart& start, const SessionOptions& options)
    : network_(network), session_(start(network.program, options)) {}

Evaluated Evaluator::operator()(const Session& trained, std::int64_t step) {
  take_weights(session_, trained);
  Evaluated out = ask(session_, *network_.data, ask_options_of(network_));
  out.step = step;
  return out;
}

}  // namespace shardwright
