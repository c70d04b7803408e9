#include "tests/support/training_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "shardwright/annotations/patterns.h"
#include "shardwright/frontend/training_data.h"
#include "shardwright/graph/op.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/runtime/safetensors.h"
#include "shardwright/verify/verify.h"
#include "tests/support/on_each_rank.h"
#include "tests/support/random_plan.h"

namespace shardwright::testing {

Model train_model(const TrainingRun& run, int micro_batches) {
  Model model = build_model(run.model, {.global_batch = {},
                                        .precision = run.precision,
                                        .loss = run.loss,
                                        .attention = run.attention,
                                        .micro_batches = micro_batches});
  add_train_step(model.graph, model.loss, run.optimizer);
  return model;
}

namespace {

/// Whether the forward reads it: the optimizer's states only the update reads.
bool is_state_of_module(const Graph& graph, const Node& leaf) {
  if (leaf.op->kind != OpKind::state) return false;
  const ValueId v = leaf.results.front();
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& user) {
    return user.phase == Phase::forward &&
           std::find(user.operands.begin(), user.operands.end(), v) != user.operands.end();
  });
}

std::optional<Outcome> run_program(const TrainingRun& run, const Model& model, Pipeline program) {
  prove(program);  // as before every launch
  const auto session = session_of(std::move(program), {.seed = 7});
  if (!session) return std::nullopt;
  const std::string reference = run.file.empty() ? "" : path_of_reference(run.file);
  const bool has_data = !run.file.empty() && SafetensorsFile::open(reference).has("label");
  const std::string path = has_data ? reference : "";
  for (const auto& [name, value] : model.initial) session->set(name, value());
  std::ostringstream notices;
  const TrainingData data = training_data(model, 1, path, "", 7, notices);
  if (!path.empty())
    for (const auto& [name, value] : initial_parameters(model.graph, path)) session->set(name, value);
  Outcome out{.losses = {}, .weights = {}, .outputs = {}, .statistics = session->statistics()};
  const std::int64_t all = run.file.empty() ? 8 : SafetensorsFile::open(reference).type("loss").shape.front();
  const std::int64_t steps = run.steps ? run.steps : all;
  std::vector<Tensor> outputs;
  for (std::int64_t step = 0; step < steps; ++step) {
    outputs = session->step(data.batch(step));
    out.losses.push_back(to_doubles(outputs[0])[0]);
  }
  for (const Tensor& t : outputs) out.outputs.push_back(to_doubles(t));
  for (const Node& node : model.graph.nodes)
    if (node.op->kind == OpKind::parameter || is_state_of_module(model.graph, node)) {
      const std::string& name = model.graph.value(node.results[0]).name;
      out.weights[name] = to_doubles(session->get(name));
    }
  return out;
}

}  // namespace

std::string path_of_reference(const std::string& file) { return "tests/reference/" + file + ".safetensors"; }

std::optional<Outcome> run_pipeline(const TrainingRun& run, Pipeline program) {
  return run_program(run, train_model(run), std::move(program));
}

std::optional<Outcome> run_alone(const TrainingRun& run) {
  return run_planned(run, {.devices = 1, .parallel = Parallel::stand_alone});
}

std::optional<Outcome> run_planned(const TrainingRun& run, PlanRequest request) {
  request.model = run.model;
  if (request.search.empty()) request.search = "recursive";
  if (chooses_structure(request)) {
    const Plan plan =
        make_plan([&](int micro_batches) { return train_model(run, micro_batches).graph; }, request);
    const Model part = train_model(run, plan.settings.pipelining.batch_parts());
    return run_program(run, train_model(run), compile_pipeline(part.graph, plan, {.formats = cpu_formats}));
  }
  const Model model = train_model(run, settings_of(request).pipelining.batch_parts());
  request.constraints = without_patterns(request.constraints, model.graph);
  return run_program(
      run, train_model(run),
      compile_pipeline(model.graph, make_plan(model.graph, request), {.formats = cpu_formats}));
}

std::optional<Outcome> run_random(const TrainingRun& run, int devices, std::uint64_t seed) {
  const Model model = train_model(run);
  return run_program(run, model,
                     compile(model.graph, random_plan(model.graph, devices, seed), {.formats = cpu_formats}));
}

std::optional<Outcome> run_random_pipeline(const TrainingRun& run, int devices, int micro_batches,
                                           std::uint64_t seed) {
  const Model model = train_model(run, micro_batches);
  return run_program(run, train_model(run),
                     compile_pipeline(model.graph, random_pipeline(model.graph, devices, micro_batches, seed),
                                      {.formats = cpu_formats}));
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0, scale = 1e-6;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
    scale = std::max(scale, std::abs(b[i]));
  }
  return a.size() == b.size() ? most / scale : 1e30;
}

void expect_losses_of_reference(const Outcome& have, const TrainingRun& run, double losses) {
  const std::vector<double> want =
      to_doubles(SafetensorsFile::open(path_of_reference(run.file)).read("loss"));
  ASSERT_EQ(have.losses.size(), run.steps ? static_cast<std::size_t>(run.steps) : want.size());
  for (std::size_t s = 0; s < have.losses.size(); ++s)
    EXPECT_NEAR(have.losses[s], want[s], losses * std::abs(want[s])) << "step " << s;
}

void expect_same(const std::optional<Outcome>& have, const std::optional<Outcome>& want,
                 const Tolerance& tolerance) {
  if (!have || !want) return;
  ASSERT_EQ(have->losses.size(), want->losses.size());
  for (std::size_t s = 0; s < want->losses.size(); ++s)
    EXPECT_NEAR(have->losses[s], want->losses[s], tolerance.losses * std::abs(want->losses[s]))
        << "step " << s;
  for (const auto& [name, values] : want->weights)
    EXPECT_LE(difference(have->weights.at(name), values), tolerance.weights) << name;
}

}  // namespace shardwright::testing
