#include "shardwright/cli/evaluation.h"

#include <chrono>
#include <cmath>

#include "shardwright/base/progress.h"
#include "shardwright/frontend/inference.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {

AskedNetwork asked_network(const Model& model, const std::string& path, PlanRequest request) {
  auto data = std::make_shared<const HeldOut>(model, path);
  Model asked = inference_of(model, data->has("label"));
  Constraints split;  // by degrees, and no more
  if (request.is_set) {
    split.degrees = request.constraints.degrees;
    split.degrees.share(Sharing::stages, std::nullopt);
    split.sequence_parallel = request.constraints.sequence_parallel;
    split.operators = request.constraints.operators;
  }
  request.constraints = std::move(split);
  request.model = model.name;
  Plan plan = make_plan(asked.graph, request);
  Pipeline pipeline = compile_pipeline(asked.graph, plan, {.formats = default_devices().formats});
  return {std::move(asked), std::move(plan), std::move(pipeline), std::move(data)};
}

Evaluated ask(Session& session, const AskedNetwork& network, const TakePredictions& take,
              Progress* progress) {
  const auto start = std::chrono::steady_clock::now();
  const HeldOut& data = *network.data;
  const std::size_t first = network.has_labels() ? 1 : 0;  // prediction
  Evaluated out{.samples = data.samples()};
  double losses = 0;
  std::int64_t full = 0;
  Hits hits;
  Doing doing(progress, "batch", data.batches());
  for (std::int64_t i = 0; i < data.batches(); ++i) {
    doing.tell(i);
    std::map<std::string, Tensor> batch = data.get(i);
    const Tensor label = network.has_labels() ? batch.at("label") : Tensor();
    if (!network.has_labels()) batch.erase("label");
    const std::vector<Tensor> outputs = session.step(batch);
    const std::int64_t rows = data.rows(i);
    if (network.has_labels()) {
      if (rows == data.batch()) losses += to_doubles(outputs[0])[0], ++full;
      if (are_scores(outputs[first].type(), label.type())) hits.add(outputs[first], label, rows);
    }
    if (take) take({outputs.begin() + static_cast<std::ptrdiff_t>(first), outputs.end()}, rows);
  }
  if (full > 0) out.loss = losses / static_cast<double>(full);
  if (full == 0) out.loss = std::nan("");
  if (hits.count > 0) out.accuracy = hits.share();
  if (network.model.tokens > 0) out.perplexity = std::exp(out.loss);
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

bool tells_accuracy(const AskedNetwork& network) {
  if (!network.has_labels()) return false;
  const Graph& graph = network.model.graph;
  return are_scores(graph.value(graph.outputs[1]).type, graph.value(graph.find("label")).type);
}

void check_eval(const AskedNetwork& network, const std::string& path) {
  if (!network.has_labels()) throw error("--eval {}: has no 'label', so nothing can be said about it", path);
  if (network.data->samples() < network.data->batch())
    throw error("--eval {}: has {} samples, but a batch takes {}", path, network.data->samples(),
                network.data->batch());
  if (!tells_accuracy(network)) return;
  const Graph& graph = network.model.graph;
  const std::int64_t classes = graph.value(graph.outputs[1]).type.shape.back();
  for (double label : to_doubles(network.data->column("label")))
    if (label >= static_cast<double>(classes))
      throw error("--eval {}: 'label' holds {}, but the network knows {} classes, from 0 on", path, label,
                  classes);
}

Evaluator::Evaluator(const AskedNetwork& network, const SessionStart& start, const SessionOptions& options)
    : network_(network), session_(start(network.pipeline, options)) {}

Evaluated Evaluator::operator()(const Session& trained, std::int64_t step) {
  take_weights(session_, trained);
  Evaluated out = ask(session_, network_);
  out.step = step;
  return out;
}

}  // namespace shardwright
