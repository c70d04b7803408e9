// What trains under an expert's degrees (annotations/degrees.h) has the losses of one device.

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "shardwright/base/text.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/set_words.h"
#include "tests/support/draws.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::TrainingRun;

struct DegreesCase {
  std::string name;
  std::string model;
  std::string set;
  int micro_batches = 1;
  int zero = 0;
  RecomputeMode recompute = RecomputeMode::none;
  Schedule schedule = {};
};
void PrintTo(const DegreesCase& c, std::ostream* out) { *out << c.name; }

class EndToEndDegrees : public ::testing::TestWithParam<DegreesCase> {};

TEST_P(EndToEndDegrees, have_the_losses_of_one_device) {
  const DegreesCase& c = GetParam();
  const TrainingRun run{
      .model = c.model, .optimizer = {.name = "momentum"}, .precision = DType::f64, .steps = 3};
  PlanWords words = parse_set({"--set", c.set});
  const Constraints& said = words.said;
  PlanRequest request{.devices = static_cast<int>(said.degrees.devices()),
                      .parallel = Parallel::semi_auto_parallel,
                      .constraints = said,
                      .is_set = true,
                      .stage_layers = words.stage_layers,
                      .layers_again = words.again};
  request.constraints.schedule = c.schedule;
  request.constraints.micro_batches = c.micro_batches;
  if (!said.zero) request.constraints.zero = c.zero;
  request.constraints.zero_threshold = 0;
  if (!said.recompute) request.constraints.recompute = c.recompute;
  testing::expect_same(testing::run_planned(run, request), testing::run_alone(run),
                       {.losses = 1e-9, .weights = 1e-7});
}

int collectives_of(const testing::Outcome& outcome) {
  int out = 0;
  for (const auto& [kind, count] : outcome.statistics.collectives_per_step) out += count;
  return out;
}

/// Attention of products, whose scores lie in memory, has the losses of the operator that has none; and as many
/// collectives, where keys have fewer heads than tp, too.
TEST(EndToEndAttention, explicit_has_the_losses_of_flash) {
  for (const char* model : {"llama:layers=2,hidden=32,heads=4,kv_heads=2,ffn=48,vocab=48,seq=8,batch=4",
                            "llama:layers=2,hidden=32,heads=4,kv_heads=1,ffn=48,vocab=48,seq=8,batch=4",
                            "baichuan2-13b:layers=2,hidden=32,heads=4,ffn=48,vocab=48,seq=8,batch=4",
                            "pangualpha-2.6b:layers=2,hidden=32,heads=4,ffn=64,vocab=48,seq=8,batch=4"}) {
    SCOPED_TRACE(model);
    const TrainingRun flash{
        .model = model, .optimizer = {.name = "momentum"}, .precision = DType::f64, .steps = 3};
    TrainingRun in_memory = flash;
    in_memory.attention = Attention::in_memory;
    const auto want = testing::run_alone(flash);
    testing::expect_same(testing::run_alone(in_memory), want, {.losses = 1e-9, .weights = 1e-7});
    for (const char* set : {"dp=2,tp=2,sequence_parallel=1", "tp=4"}) {
      const PlanRequest request{.devices = 4,
                                .parallel = Parallel::semi_auto_parallel,
                                .constraints = parse_constraints({"--set", set}),
                                .is_set = true};
      const auto have = testing::run_planned(in_memory, request);
      testing::expect_same(have, want, {.losses = 1e-9, .weights = 1e-7});
      const auto as_flash = testing::run_planned(flash, request);
      if (have && as_flash) {
        EXPECT_EQ(collectives_of(*have), collectives_of(*as_flash));
      }
    }
  }
}

const std::string llama = "llama:layers=4,hidden=32,heads=4,kv_heads=2,ffn=48,vocab=48,seq=8,batch=8";
const std::string gpt = "gpt:layers=4,hidden=32,heads=4,vocab=48,seq=8,batch=8";
const std::string pangu = "pangualpha-2.6b:layers=2,hidden=32,heads=4,ffn=64,vocab=48,seq=8,batch=8";

INSTANTIATE_TEST_SUITE_P(
    all, EndToEndDegrees,
    ::testing::Values(
        DegreesCase{"tensor", gpt, "tp=4"}, DegreesCase{"sequence", gpt, "dp=2,tp=4,sequence_parallel=1", 2},
        DegreesCase{"few_heads_of_keys", llama, "dp=2,tp=4,sequence_parallel=1", 1, 1},
        DegreesCase{"one_head_of_keys",
                    "llama:layers=2,hidden=32,heads=4,kv_heads=1,ffn=48,vocab=47,seq=8,batch=8", "dp=2,tp=4",
                    2, 3},
        DegreesCase{"stages", llama, "dp=2,tp=2,pp=2,sequence_parallel=1", 4, 2, RecomputeMode::full},
        DegreesCase{"stages_with_ends", "gpt:layers=6,hidden=16,heads=2,vocab=48,seq=8,batch=8", "tp=2,pp=4",
                    4, 0, RecomputeMode::selected},
        DegreesCase{"chunks", gpt, "dp=2,tp=2,pp=2", 4, 1, RecomputeMode::none, Schedule::interleaved(2)},
        DegreesCase{
            "operators", llama,
            "dp=2,tp=2,layers.*.ffn.up.matmul={i0: dp},layers.1.ffn.up.matmul={n: dp.tp},head.matmul={}", 2},
        DegreesCase{"operators_over_two_axes", llama,
                    "dp=2,tp=4,layers.*.ffn.down.matmul={n: tp},embedding={i0: dp}"},
        DegreesCase{"operators_in_stages", llama,
                    "dp=2,tp=2,pp=2,layers.0=stage 0,layers.1-3=stage 1,layers.*.norm1={i0: dp, i1: tp}", 4,
                    1},
        DegreesCase{"layers_by_stage", gpt, "tp=2,pp=2,stage_layers=1-3,recompute=full,recompute_layers=0-2",
                    4},
        DegreesCase{"no_layer_in_the_last_stage", llama, "dp=2,pp=4,stage_layers=1-2-1-0", 2},
        DegreesCase{"layers_by_chunk", "gpt:layers=7,hidden=16,heads=2,vocab=48,seq=8,batch=8",
                    "pp=2,stage_layers=1-2-2-2,recompute=selected,recompute_layers=1", 1, 0,
                    RecomputeMode::none, Schedule::interleaved(2)},
        DegreesCase{"chunks_and_few_micro_batches", "gpt:layers=8,hidden=16,heads=2,vocab=48,seq=8,batch=8",
                    "pp=4", 2, 0, RecomputeMode::none, Schedule::interleaved(2)},
        DegreesCase{"layers_together", gpt, "tp=2,recompute=full,recompute_together=3", 2},
        DegreesCase{"instances", gpt, "dp=4,zero=2,optimizer_instances=2", 2},
        DegreesCase{"dropout",
                    "gpt:layers=2,hidden=32,heads=4,kv_heads=2,vocab=48,seq=8,batch=8,dropout=0.2,"
                    "attention_dropout=0.1,activation=squared_relu,tied=0",
                    "dp=2,tp=2,pp=2,sequence_parallel=1", 2, 1, RecomputeMode::full},
        DegreesCase{"wide_heads",
                    "llama:layers=2,hidden=32,heads=4,kv_heads=2,head_dim=16,qk_norm=1,ffn=48,"
                    "vocab=48,seq=8,batch=8,bias=qkv,parallel_residual=1",
                    "dp=2,tp=2,sequence_parallel=1", 1, 1},
        DegreesCase{"encoder",
                    "gpt:layers=2,hidden=32,heads=4,vocab=48,seq=8,batch=8,causal=0,norm=rms,"
                    "activation=quick_geglu,positions=none,bias=0",
                    "dp=2,tp=2,pp=2", 2},
        DegreesCase{"learned_queries", pangu, "dp=2,tp=2,pp=2", 2},
        DegreesCase{"convolutions", "resnet18:image=32,classes=8,batch=8", "tp=2"}),
    [](const auto& test) { return test.param.name; });

/// Of `graph` operators, dims and degrees, drawn: of them one or two behind a dim.
std::string drawn_operators(const Graph& graph, std::mt19937& random) {
  std::vector<NodeId> operators;
  for (NodeId id : graph.node_ids())
    if (graph.node(id).op->kind == OpKind::compute && graph.node(id).phase == Phase::forward)
      operators.push_back(id);
  std::map<std::string, std::string> said;
  for (int i = 0; i < 4; ++i) {
    const NodeId id = operators[random() % operators.size()];
    const Rule rule = rule_of(graph, graph.node(id));
    std::vector<std::string> splits;
    for (const char* degree : {"dp", "tp"})
      if (!rule.loops.empty() && random() % 4 > 0)
        splits.push_back(fmt::format("{}: {}", rule.loops[random() % rule.loops.size()].name, degree));
    said[graph.name_of(id)] = join(splits, ", ");
  }
  std::string out;
  for (const auto& [name, splits] : said) out += fmt::format(",{}={{{}}}", name, splits);
  return out;
}

/// Whatever is said of single operators: it trains to the losses of one device, or is refused.
TEST(EndToEndOperators, drawn_have_the_losses_of_one_device) {
  std::mt19937 random(static_cast<unsigned>(31 + testing::further_seeds()));
  int trained = 0;
  const unsigned all = testing::draws(150);
  for (const char* model : {"llama:layers=2,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=24,seq=8,batch=8",
                            "gpt:layers=2,hidden=16,heads=4,vocab=24,seq=8,batch=8", "ffn:batch=16"}) {
    const TrainingRun run{
        .model = model, .optimizer = {.name = "momentum"}, .precision = DType::f64, .steps = 2};
    const auto want = testing::run_alone(run);
    const Graph graph = testing::train_model(run).graph;
    for (unsigned i = 0; i < all / 3; ++i) {
      const char* degrees =
          std::array{"dp=2,tp=2", "dp=1,tp=4", "dp=2,tp=4,sequence_parallel=1"}[random() % 3];
      const std::string set = degrees + drawn_operators(graph, random);
      SCOPED_TRACE(set);
      std::optional<testing::Outcome> have;
      try {
        const Constraints said = parse_constraints({"--set", set});
        have = testing::run_planned(run, {.devices = static_cast<int>(said.degrees.devices()),
                                          .parallel = Parallel::semi_auto_parallel,
                                          .constraints = said,
                                          .is_set = true});
      } catch (const Error&) {
        continue;  // a dim that does not divide, or stays whole; two degrees that split one dim twice
      }
      ++trained;
      testing::expect_same(have, want, {.losses = 1e-9, .weights = 1e-6});
    }
  }
  EXPECT_GT(trained, static_cast<int>(all) / 6);
}

}  // namespace
}  // namespace shardwright
