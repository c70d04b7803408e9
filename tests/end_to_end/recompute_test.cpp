// Training with recompute is training: bit for bit the losses and weights of one device without it, and to nine digits
// under every kind of split.

#include <gtest/gtest.h>

#include "shardwright/base/random.h"
#include "shardwright/frontend/functions.h"
#include "shardwright/frontend/modules.h"
#include "shardwright/frontend/recompute.h"
#include "shardwright/frontend/train_step.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::Outcome;
using testing::TrainingRun;

struct RecomputeCase {
  std::string name;
  std::string model;
  OptimizerChoice optimizer;
  double weights = 1e-9;  // tolerance under splits, relative to the largest element
  TrainingRun run(DType precision) const { return {model, "", optimizer, precision, 5}; }
};
void PrintTo(const RecomputeCase& c, std::ostream* out) { *out << c.name; }

class Recomputed : public ::testing::TestWithParam<RecomputeCase> {
 protected:
  const RecomputeCase& c() const { return GetParam(); }

  std::optional<Outcome> planned(DType precision, const std::string& recompute,
                                 PlanRequest request = {}) const {
    if (request.devices == 1) request.parallel = Parallel::stand_alone;
    request.constraints =
        merged(request.constraints, constraints_of({.recompute = parse_recompute(recompute)}));
    return testing::run_planned(c().run(precision), request);
  }
  /// The losses of one device that keeps everything.
  void expect_same_as_alone(const std::string& recompute, const PlanRequest& request) const {
    SCOPED_TRACE(fmt::format("{} on {} devices, {}", recompute, request.devices, name_of(request.parallel)));
    static std::map<std::string, std::optional<Outcome>> alone;
    if (!alone.contains(c().name)) alone[c().name] = planned(DType::f64, "none");
    testing::expect_same(planned(DType::f64, recompute, request), alone[c().name],
                         {.losses = 1e-9, .weights = c().weights});
  }
};

TEST_P(Recomputed, one_device_bit_for_bit) {
  for (DType precision : {DType::f32, DType::f64}) {
    const auto want = planned(precision, "none");
    for (const char* what : {"full", "selected"}) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(precision), what));
      const auto have = planned(precision, what);
      EXPECT_EQ(have->losses, want->losses);
      EXPECT_EQ(have->weights, want->weights);
    }
  }
}

TEST_P(Recomputed, data_parallel_and_sharded_weights) {
  for (int devices : {2, 4, 8}) {
    expect_same_as_alone("full", {.devices = devices, .parallel = Parallel::data_parallel});
    expect_same_as_alone(
        "full", {.devices = devices,
                 .parallel = Parallel::data_parallel,
                 .constraints = constraints_of({.optimizer_parallel = {.level = 3, .threshold = 0}})});
  }
  expect_same_as_alone("selected",
                       {.devices = 4,
                        .parallel = Parallel::data_parallel,
                        .constraints = constraints_of({.optimizer_parallel = {.level = 3, .threshold = 0}})});
}

TEST_P(Recomputed, searched_plans) {
  for (int devices : {2, 4, 8}) expect_same_as_alone("full", {.devices = devices});
  expect_same_as_alone("selected", {.devices = 4});
  expect_same_as_alone("full:communication=false", {.devices = 4});
  expect_same_as_alone("full:shard_kept=true", {.devices = 8});
}

/// Megatron's split of a decoder's layers, `data` ways by batch.
Constraints tensor_parallel(int layers, int data, int tensor) {
  std::string json = "{";
  const auto add = [&](int layer, const std::string& node, const std::string& in) {
    json += fmt::format("\"layers.{}.{}\": {{\"in\": {}}}, ", layer, node, in);
  };
  for (int l = 0; l < layers; ++l) {
    for (const char* d : {"attention.q", "attention.k", "attention.v", "ffn.gate", "ffn.up"})
      add(l, fmt::format("{}.matmul", d), fmt::format("[[{},1,1],[1,{}]]", data, tensor));
    for (const char* d : {"attention.o", "ffn.down"})
      add(l, fmt::format("{}.matmul", d), fmt::format("[[{0},1,{1}],[{1},1]]", data, tensor));
    add(l, "attention.attend", fmt::format("[[{0},{1},1,1],[{0},{1},1,1],[{0},{1},1,1]]", data, tensor));
  }
  json += fmt::format("\"embedding\": {{\"in\": [[{},1],[{},1]]}}}}", tensor, data);
  return parse_annotations(json, "tensor_parallel");
}

class RecomputedLayers : public Recomputed {};

TEST_P(RecomputedLayers, tensor_parallel) {
  for (const auto& [data, tensor] : {std::pair{1, 2}, {2, 2}, {2, 4}})
    for (const char* what : {"full", "full:communication=false", "full:shard_kept=true",
                             "layers.0:communication=false,shard_kept=true", "selected"})
      expect_same_as_alone(what, {.devices = data * tensor, .constraints = tensor_parallel(4, data, tensor)});
}

const std::vector<RecomputeCase> cases{
    {.name = "ffn", .model = "ffn:widths=16-32-24-16-8,batch=16", .optimizer = {"adam", {{"rate", 0.01}}}},
    {.name = "resnet18",
     .model = "resnet18:width=8,image=32,batch=8",
     .optimizer = {"momentum", {{"rate", 0.01}, {"momentum", 0.9}}},
     .weights = 1e-7},
    {.name = "llama",
     .model = "llama:layers=4,hidden=32,heads=8,kv_heads=4,ffn=48,vocab=64,seq=16,batch=8",
     .optimizer = {"adamw", {{"rate", 0.003}}},
     .weights = 1e-7},
    {.name = "gpt",
     .model = "gpt:layers=2,hidden=32,heads=8,vocab=64,seq=16,batch=8",
     .optimizer = {"momentum", {{"rate", 0.1}, {"momentum", 0.9}}}}};

INSTANTIATE_TEST_SUITE_P(EndToEnd, Recomputed, ::testing::ValuesIn(cases),
                         [](const auto& test) { return test.param.name; });

/// Whose layers the annotations name.
INSTANTIATE_TEST_SUITE_P(EndToEnd, RecomputedLayers, ::testing::Values(cases[2]),
                         [](const auto& test) { return test.param.name; });

// ---- from C++, with dropout ----

constexpr std::int64_t batch = 8, sequence = 8, hidden = 16;

struct DroppingLayer {
  std::string name;
  DecoderLayer layer{name, {.hidden = hidden, .heads = 4, .kv_heads = 4, .ffn = 24, .sequence = sequence}};
  Traced operator()(Traced x) const {
    return dropout(layer(dropout(x, name + ".drop1", 0.2)), name + ".drop2", 0.1);
  }
};

struct DroppingNet {
  std::vector<DroppingLayer> layers{{"layers.0"}, {"layers.1"}, {"layers.2"}};
  Dense head{"head", hidden, 4};
};

using Body = std::function<Traced(const DroppingNet&, Traced)>;

Traced kept_body(const DroppingNet& net, Traced x) {
  for (const DroppingLayer& layer : net.layers) x = layer(x);
  return net.head(x);
}
Traced recomputed_body(const DroppingNet& net, Traced x) {
  for (const DroppingLayer& layer : net.layers) x = recompute(layer)(x);
  return net.head(x);
}

const InputTypes inputs{{"x", {DType::f64, {batch, sequence, hidden}}},
                        {"label", {DType::i32, {batch, sequence}}}};

ForwardFunction forward_of(const DroppingNet& net, const Body& body) {
  return [&net, body](const std::vector<Traced>& in) {
    return LossAndAux{CrossEntropyLoss{}(body(net, in[0]), in[1])};
  };
}

std::vector<double> dropping_losses(const Body& body, TrainOptions options) {
  const DroppingNet net;
  options.precision = DType::f64;
  TrainStep step(forward_of(net, body), inputs, adam(0.01), options);
  std::vector<double> out;
  for (std::uint64_t i = 0; i < 4; ++i) {
    std::vector<double> x(static_cast<std::size_t>(batch * sequence * hidden)),
        label(static_cast<std::size_t>(batch * sequence));
    for (std::size_t k = 0; k < x.size(); ++k) x[k] = RandomStream(i, "x").normal(k);
    for (std::size_t k = 0; k < label.size(); ++k)
      label[k] = static_cast<double>(RandomStream(i, "label").below(k, 4));
    out.push_back(step({make_tensor(inputs[0].second, x), make_tensor(inputs[1].second, label)}));
  }
  return out;
}

/// Masks depend on name, step and element alone, so that they are the same the second time.
TEST(EndToEndRecompute, dropout_drops_the_same_again) {
  const std::vector<double> want = dropping_losses(kept_body, {});
  EXPECT_NE(want[0], want[1]);
  EXPECT_EQ(dropping_losses(recomputed_body, {}), want);
  EXPECT_EQ(dropping_losses(kept_body, {.settings = {.recompute = parse_recompute("full")}}), want);
  EXPECT_EQ(dropping_losses(kept_body, {.settings = {.recompute = parse_recompute("selected")}}), want);
  for (int devices : {2, 4, 8}) {
    const std::vector<double> have = dropping_losses(recomputed_body, {.devices = devices});
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(have[i], want[i], 1e-9 * want[i]) << devices << " devices, step " << i;
  }
}

TEST(EndToEndRecompute, code_names_the_regions) {
  const DroppingNet net;
  const Body body = [](const DroppingNet& n, Traced x) {
    x = recompute(n.layers[0], {.communication = false, .shard_kept = true, .name = "first"})(x);
    return n.head(recompute(n.layers[1])(x));
  };
  const Plan plan = plan_network(forward_of(net, body), inputs, adam(0.01), {.precision = DType::f64}).plan;
  ASSERT_EQ(plan.settings.recompute.modules.size(), 2U);
  EXPECT_EQ(plan.settings.recompute.modules[0].module, "first");
  EXPECT_FALSE(plan.settings.recompute.modules[0].options.communication);
  EXPECT_EQ(plan.settings.recompute.modules[1].module, "layers.1");
  EXPECT_EQ(parse_plan(to_json(plan), "plan").settings.recompute, plan.settings.recompute);
}

TEST(EndToEndRecompute, regions_of_code_do_not_nest) {
  const DroppingNet net;
  const Body body = [](const DroppingNet& n, Traced x) {
    const auto inner = [&](Traced y) { return recompute(n.layers[1])(n.layers[0](y)); };
    return n.head(recompute(inner, {.name = "outer"})(x));
  };
  try {
    plan_network(forward_of(net, body), inputs, adam(0.01), {.precision = DType::f64});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(
        std::string(e.what()),
        "recompute of 'outer': 'layers.1' lies inside and would be computed again twice; say it once, of the "
        "outer or of the inner module");
  }
}

TEST(EndToEndRecompute, annotations_win_over_options) {
  const DroppingNet net;
  const Plan plan =
      plan_network(forward_of(net, recomputed_body), inputs, adam(0.01),
                   {.settings = {.recompute = parse_recompute("full")}, .precision = DType::f64})
          .plan;
  EXPECT_EQ(plan.settings.recompute.mode, RecomputeMode::full);
  EXPECT_EQ(plan.settings.recompute.modules.size(), 3U);
}

}  // namespace
}  // namespace shardwright
