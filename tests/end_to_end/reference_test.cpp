// Training runs of PyTorch (tests/reference), repeated: on one device, and under many plans on several.
// In shardwright_tests devices are threads; in mpi_tests they are processes, on one host or several.
// SHARDWRIGHT_FULL=1 runs ten random plans for each number of devices instead of two.

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <optional>
#include <sstream>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/random.h"
#include "shardwright/cli/training_data.h"
#include "shardwright/frontend/model.h"
#include "shardwright/graph/op.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/safetensors.h"
#include "shardwright/runtime/session.h"
#include "tests/support/on_each_rank.h"

namespace shardwright {
namespace {

struct Reference {
  std::string name;
  std::string model;
  std::string file;  // empty: none, the run on one device is the reference
  OptimizerChoice optimizer;
  double tolerance = 2e-6;         // of the losses on one device, relative
  double weight_tolerance = 1e-4;  // of the weights in f32
  std::string annotations;         // the seeds', for 8 devices
  std::vector<int> devices{2, 4, 8};
};
void PrintTo(const Reference& r, std::ostream* out) { *out << r.name; }

std::string path_of(const std::string& file) { return "tests/reference/" + file + ".safetensors"; }

struct Outcome {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> weights;
  SessionStatistics statistics;
};

/// The train step of the model, ready to be planned.
Model train_model(const Reference& r, DType precision) {
  Model model = build_model(r.model, {.global_batch = std::nullopt, .precision = precision, .loss = ""});
  add_train_step(model.graph, model.loss, r.optimizer);
  return model;
}

/// Nothing if this process has none of the program's ranks.
std::optional<Outcome> run(const Reference& r, const Model& model, Program program) {
  const auto session = session_of(std::move(program), {.seed = 7});
  if (!session) return std::nullopt;
  std::ostringstream notices;
  const TrainingData data = training_data(model, r.file.empty() ? "" : path_of(r.file), "", 7, notices);
  if (!r.file.empty())
    for (const auto& [name, value] : initial_parameters(model.graph, path_of(r.file)))
      session->set(name, value);
  Outcome out{.losses = {}, .weights = {}, .statistics = session->statistics()};
  const std::int64_t steps = data.batches_per_epoch ? data.batches_per_epoch : 8;
  for (std::int64_t step = 0; step < steps; ++step)
    out.losses.push_back(to_doubles(session->step(data.batch(step))[0])[0]);
  for (const Node& node : model.graph.nodes)
    if (node.op->kind == OpKind::parameter) {
      const std::string& name = model.graph.value(node.results[0]).name;
      out.weights[name] = to_doubles(session->get(name));
    }
  return out;
}

std::optional<Outcome> run_planned(const Reference& r, DType precision, PlanRequest request) {
  const Model model = train_model(r, precision);
  request.model = r.model;
  return run(r, model, compile(model.graph, make_plan(model.graph, request)));
}

std::optional<Outcome> run_alone(const Reference& r, DType precision) {
  return run_planned(r, precision, {.devices = 1, .parallel = Parallel::stand_alone});
}

/// Largest difference relative to the largest magnitude.
double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0, scale = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
    scale = std::max(scale, std::abs(b[i]));
  }
  return a.size() == b.size() ? most / scale : 1e30;
}

/// Where both are: rank 0 has part in every run.
void expect_same(const std::optional<Outcome>& have, const std::optional<Outcome>& want, double tolerance,
                 double weight_tolerance) {
  if (!have || !want) return;
  ASSERT_EQ(have->losses.size(), want->losses.size());
  for (std::size_t s = 0; s < want->losses.size(); ++s)
    EXPECT_NEAR(have->losses[s], want->losses[s], tolerance * std::abs(want->losses[s])) << "step " << s;
  for (const auto& [name, values] : want->weights)
    EXPECT_LE(difference(have->weights.at(name), values), weight_tolerance) << name;
}

/// As names, the way a plan file says it.
PlannedOperator planned(const Graph& graph, NodeId id, const Rule& rule, const Strategy& strategy,
                        const Mesh& mesh) {
  PlannedOperator out{.name = graph.name_of(id), .kind = graph.node(id).op->name};
  const auto add = [&](const std::string& key, const Axes& axes) {
    std::vector<std::string> names;
    for (int a : axes) names.push_back(mesh.axes[static_cast<std::size_t>(a)].name);
    if (!names.empty()) out.strategy.emplace_back(key, names);
  };
  for (std::size_t l = 0; l < rule.loops.size(); ++l) add(rule.loops[l].name, strategy.loops[l]);
  for (std::size_t g = 0; g < rule.linear.size(); ++g) add(fmt::format("+{}", g), strategy.linear[g]);
  return out;
}

/// A random factorisation of `devices` into axes, and random legal strategies of all forward nodes.
/// Leaves lie as their first user wants them. It has been through its file's text.
Plan random_plan(const Graph& graph, int devices, std::uint64_t seed) {
  const RandomStream stream(seed, "plan");
  std::uint64_t next = 0;
  const auto below = [&](std::size_t n) {
    return static_cast<std::size_t>(stream.below(next++, static_cast<std::int64_t>(n)));
  };
  Mesh mesh;
  for (int rest = devices; rest > 1;) {
    int size = 2 + static_cast<int>(below(static_cast<std::size_t>(rest) - 1));
    while (rest % size) --size;
    if (size == 1) size = rest;
    mesh.axes.push_back({fmt::format("a{}", mesh.axes.size()), size});
    rest /= size;
  }
  Plan plan{.fingerprint = fingerprint_of(graph),
            .devices = devices,
            .cluster = fmt::format("cpu:{}", devices),
            .parallel = "auto_parallel",
            .meshes = {mesh}};
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.op->kind != OpKind::compute || node.phase != Phase::forward) continue;
    const Rule rule = rule_of(graph, node);
    const auto all = legal_strategies(rule, mesh, {.linear = true, .all_orders = true});
    const Strategy& strategy = all[below(all.size())];
    plan.operators.push_back(planned(graph, id, rule, strategy, mesh));
    const NodeLayouts layouts = layouts_of(rule, strategy);
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const Value& v = graph.value(node.operands[i]);
      if (graph.node(v.producer).op->kind != OpKind::compute)
        plan.layouts.emplace(v.name, to_text(reduced(layouts.operands[i]), mesh));
    }
  }
  return parse_plan(to_json(plan), "random plan");
}

std::optional<Outcome> run_random(const Reference& r, DType precision, int devices, std::uint64_t seed) {
  const Model model = train_model(r, precision);
  return run(r, model, compile(model.graph, random_plan(model.graph, devices, seed)));
}

class References : public ::testing::TestWithParam<Reference> {
 protected:
  const Reference& r() const { return GetParam(); }
  /// As many as there can be here.
  std::vector<int> devices_here() const {
    std::vector<int> out = r().devices;
    std::erase_if(out, [](int n) { return n > most_ranks(); });
    return out;
  }
};

class ReferencesOfPyTorch : public References {};

TEST_P(ReferencesOfPyTorch, losses_of_one_device_are_the_same) {
  const std::optional<Outcome> have = run_alone(r(), DType::f32);
  if (!have) return;  // another process has it
  const SafetensorsFile file = SafetensorsFile::open(path_of(r().file));
  const std::vector<double> want = to_doubles(file.read("loss"));
  ASSERT_EQ(have->losses.size(), want.size());
  for (std::size_t s = 0; s < want.size(); ++s)
    EXPECT_NEAR(have->losses[s], want[s], r().tolerance * std::abs(want[s])) << "step " << s;
  for (const std::string& name : file.names())
    if (name.starts_with("final.")) {
      EXPECT_LE(difference(have->weights.at(name.substr(6)), to_doubles(file.read(name))),
                r().weight_tolerance)
          << name;
    }
}

TEST_P(References, data_parallel_and_propagation_agree_with_one_device) {
  const std::optional<Outcome> want = run_alone(r(), DType::f32);
  for (int devices : devices_here())
    for (Parallel mode : {Parallel::data_parallel, Parallel::auto_parallel}) {
      SCOPED_TRACE(fmt::format("{} on {} devices", name_of(mode), devices));
      expect_same(run_planned(r(), DType::f32, {.devices = devices, .parallel = mode}), want, 1e-4,
                  r().weight_tolerance);
    }
}

TEST_P(References, optimizer_parallel_agrees_with_one_device) {
  const std::optional<Outcome> want = run_alone(r(), DType::f32);
  for (int devices : devices_here())
    for (int level : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("level {} on {} devices", level, devices));
      expect_same(
          run_planned(r(), DType::f32,
                      {.devices = devices, .parallel = Parallel::data_parallel, .optimizer_parallel = level}),
          want, 1e-4, r().weight_tolerance);
    }
}

class ReferencesOfSeeds : public References {};

TEST_P(ReferencesOfSeeds, annotations_agree_with_one_device) {
  if (most_ranks() < 8) GTEST_SKIP() << "needs 8 ranks, there are " << most_ranks();
  const Annotations annotations = parse_annotations(r().annotations, "annotations");
  const std::optional<Outcome> want = run_alone(r(), DType::f32);
  for (Parallel mode : {Parallel::semi_auto_parallel, Parallel::auto_parallel})
    for (int level : {0, 1, 3}) {
      SCOPED_TRACE(fmt::format("{}, optimizer parallel {}", name_of(mode), level));
      expect_same(
          run_planned(
              r(), DType::f32,
              {.devices = 8, .parallel = mode, .annotations = annotations, .optimizer_parallel = level}),
          want, 1e-4, r().weight_tolerance);
    }
}

TEST_P(References, random_plans_agree_with_one_device) {
  const int plans = std::getenv("SHARDWRIGHT_FULL") ? 10 : 2;
  const std::optional<Outcome> want = run_alone(r(), DType::f32);
  for (int devices : devices_here())
    for (int seed = 0; seed < plans; ++seed) {
      SCOPED_TRACE(fmt::format("{} devices, seed {}", devices, seed));
      expect_same(run_random(r(), DType::f32, devices, static_cast<std::uint64_t>(seed)), want, 1e-4,
                  r().weight_tolerance);
    }
}

TEST_P(References, in_f64_all_plans_agree_to_ten_digits) {
  const int plans = std::getenv("SHARDWRIGHT_FULL") ? 10 : 1;
  const std::optional<Outcome> want = run_alone(r(), DType::f64);
  const int devices = devices_here().back();
  for (Parallel mode : {Parallel::data_parallel, Parallel::auto_parallel})
    expect_same(run_planned(r(), DType::f64, {.devices = devices, .parallel = mode}), want, 1e-10, 1e-10);
  if (!r().annotations.empty() && devices == 8) {
    const Annotations seeds = parse_annotations(r().annotations, "annotations");
    expect_same(run_planned(r(), DType::f64, {.devices = devices, .annotations = seeds}), want, 1e-10, 1e-10);
  }
  for (int seed = 0; seed < plans; ++seed) {
    SCOPED_TRACE(fmt::format("{} devices, seed {}", devices, seed));
    expect_same(run_random(r(), DType::f64, devices, static_cast<std::uint64_t>(100 + seed)), want, 1e-10,
                1e-10);
  }
}

const OptimizerChoice ffn_optimizer{"momentum", {{"rate", 0.05}, {"momentum", 0.9}}};

const std::vector<Reference> references{
    Reference{
        .name = "ffn",
        .model = "ffn",
        .file = "ffn",
        .optimizer = ffn_optimizer,
        .annotations =
            R"({"dense1.matmul": {"in": [[2, 4], [4, 1]]}, "dense3.matmul": {"in": [[1, 8], [8, 1]]}})"},
    Reference{.name = "three_layer_mae",
              .model = "three_layer_mae",
              .file = "three_layer_mae",
              .optimizer = {"momentum", {{"rate", 0.01}, {"momentum", 0.1}}},
              .tolerance = 1e-4,
              // |x - y| has a kink: where x is within rounding of y, the order of a sum decides a sign.
              .weight_tolerance = 1e-3},
    Reference{.name = "three_layer",
              .model = "three_layer",
              .file = "three_layer_sgd",
              .optimizer = {"sgd", {{"rate", 0.05}}},
              .annotations = R"({"dense1.matmul": {"device_matrix": [2, 2, 2], "names": ["dp", "sp", "mp"],
                                       "in": [["mp", ["sp", "dp"]], [["sp", "dp"], "None"]]}, "relu1": {"in": [[4, 1]]},
                                     "dense2.matmul": {"device_matrix": [8], "names": ["tp"], "in": [["None", "tp"], ["tp", "None"]]},
                                     "relu2": {"in": [[8, 1]]}})"},
    Reference{.name = "matmul_chain",
              .model = "matmul_chain",
              .file = "matmul_chain",
              .optimizer = {"adam", {{"rate", 0.01}}}},
    Reference{.name = "matmul_chain_6",
              .model = "matmul_chain:batch=24,widths=48-96-24",
              .file = "",
              .optimizer = {"adam", {{"rate", 0.01}}},
              .devices = {3, 6}},
    Reference{
        .name = "ffn_6", .model = "ffn:batch=48", .file = "", .optimizer = ffn_optimizer, .devices = {3, 6}}};

std::vector<Reference> references_where(bool (*applies)(const Reference&)) {
  std::vector<Reference> out;
  std::copy_if(references.begin(), references.end(), std::back_inserter(out), applies);
  return out;
}

const auto name_of_reference = [](const auto& test) { return test.param.name; };

INSTANTIATE_TEST_SUITE_P(EndToEnd, References, ::testing::ValuesIn(references), name_of_reference);
INSTANTIATE_TEST_SUITE_P(EndToEnd, ReferencesOfPyTorch,
                         ::testing::ValuesIn(references_where([](const Reference& r) {
                           return !r.file.empty();
                         })),
                         name_of_reference);
INSTANTIATE_TEST_SUITE_P(EndToEnd, ReferencesOfSeeds,
                         ::testing::ValuesIn(references_where([](const Reference& r) {
                           return !r.annotations.empty();
                         })),
                         name_of_reference);

// The split is real: what each device holds falls with the devices, and so does what moves.

TEST(Devices, sharded_weights_shrink_the_arena) {
  const Reference r{.name = "",
                    .model = "matmul_chain:batch=16,widths=512-512-512",
                    .file = "",
                    .optimizer = {"adam", {{"rate", 0.01}}}};
  const auto arena = [&](int n) {
    const std::string json = fmt::format(
        R"({{"matmul1": {{"in": [[1, 1], [1, {0}]]}}, "matmul2": {{"in": [[1, {0}], [{0}, 1]]}}}})", n);
    return run_planned(r, DType::f32,
                       {.devices = n, .annotations = parse_annotations(n > 1 ? json : "{}", "")})
        ->statistics.arena_bytes;
  };
  const std::int64_t one = arena(1);
  EXPECT_LT(arena(2), 0.6 * static_cast<double>(one));
  EXPECT_LT(arena(8), 0.2 * static_cast<double>(one));
}

TEST(Devices, data_parallel_moves_the_gradients_and_the_loss_and_nothing_else) {
  const Reference r{.name = "", .model = "ffn", .file = "", .optimizer = ffn_optimizer};
  const Outcome got = *run_planned(r, DType::f32, {.devices = 4, .parallel = Parallel::data_parallel});
  std::int64_t elements = 1;  // the loss
  for (const auto& [name, values] : got.weights) elements += static_cast<std::int64_t>(values.size());
  EXPECT_EQ(got.statistics.collectives_per_step, (std::map<std::string, int>{{"all_reduce", 11}}));
  EXPECT_NEAR(static_cast<double>(got.statistics.bytes_communicated_per_step),
              static_cast<double>(elements) * 4 * 2 * 3 / 4, 64);
}

}  // namespace
}  // namespace shardwright
