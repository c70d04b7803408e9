// Tensor and sequence parallelism of decoders, asked for with one call or by patterns in a file: the collectives that
// design.md knows, and the losses of one device.

#include <gtest/gtest.h>

#include <map>

#include "shardwright/annotations/patterns.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/modules.h"
#include "shardwright/graph/op.h"
#include "shardwright/passes/compile.h"
#include "shardwright/simulate/memory.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using Counts = std::map<std::string, int>;

const DecoderOptions small{
    .layers = 2, .hidden = 32, .heads = 8, .kv_heads = 8, .ffn = 48, .vocabulary = 64, .sequence = 16};
const std::string llama = "llama:layers=2,hidden=32,heads=8,ffn=48,vocab=64,seq=16,batch=8";
const std::string gpt = "gpt:layers=2,hidden=32,heads=8,ffn=48,vocab=64,seq=16,batch=8";

DecoderOptions as_gpt(DecoderOptions o) {
  o.positions = Positions::learned;
  o.activation = Activation::gelu;
  o.layer_norm = o.qkv_bias = o.bias = o.tied_head = true;
  return o;
}

/// What the module's annotations are: the model of that name has the same operators.
Constraints annotations_of(const DecoderOptions& options, const DecoderSplit& split) {
  Decoder decoder(options);
  decoder.shard(split);
  Trace trace;
  decoder(trace.input("input", {DType::i32, {8, options.sequence}}));
  return trace.constraints();
}

Program program_of(const std::string& name, int devices, const Constraints& annotations) {
  Model model = build_model(name);
  add_train_step(model.graph, model.loss, {.name = "adam", .attributes = {{"rate", 0.01}}});
  return compile(
      model.graph,
      make_plan(model.graph,
                {.model = name, .devices = devices, .search = "propagation", .constraints = annotations}));
}

Counts collectives(const Program& p, Phase phase) {
  Counts out;
  for (const Node& node : p.graph.nodes)
    if (node.phase == phase && node.op->step && !is_local(*node.op->step))
      ++out[std::string(name_of(*node.op->step))];
  return out;
}

// The embedding, and per layer behind the attention and behind the network; the cross entropy reduces its largest and
// its two sums.
TEST(DecoderSplit, reduces_behind_every_network) {
  const Program p = program_of(llama, 4, annotations_of(small, {.tensor = 4}));
  EXPECT_EQ(collectives(p, Phase::forward), (Counts{{"all_reduce", 7}}));
  EXPECT_EQ(collectives(p, Phase::backward), (Counts{{"all_reduce", 5}}));
  EXPECT_EQ(collectives(p, Phase::update), Counts{});
}

TEST(DecoderSplit, by_sequence_scatters_and_gathers_instead) {
  const Program p = program_of(llama, 4, annotations_of(small, {.tensor = 4, .sequence = true}));
  EXPECT_EQ(collectives(p, Phase::forward),
            (Counts{{"all_reduce", 2}, {"all_gather", 5}, {"reduce_scatter", 5}}));
  EXPECT_EQ(collectives(p, Phase::backward), (Counts{{"all_gather", 5}, {"reduce_scatter", 5}}));
}

TEST(DecoderSplit, by_sequence_holds_parts_of_what_is_between_the_networks) {
  const Program p = program_of(llama, 8, annotations_of(small, {.data = 2, .tensor = 4, .sequence = true}));
  for (const char* name : {"layers.0.norm1", "layers.0.add1", "layers.1.add2", "norm"}) {
    const Value& v = p.graph.value(p.graph.find(name));
    EXPECT_EQ(v.type.shape, (Shape{4, 4, 32})) << name;
    EXPECT_EQ(v.global_shape, (Shape{8, 16, 32})) << name;
  }
}

/// Large enough that gathering again pays: between the networks a rank keeps its part of the sequence.
const DecoderOptions wide{
    .layers = 2, .hidden = 128, .heads = 8, .kv_heads = 8, .ffn = 192, .vocabulary = 64, .sequence = 64};
const std::string wide_llama = "llama:layers=2,hidden=128,heads=8,ffn=192,vocab=64,seq=64,batch=8";

TEST(DecoderSplit, by_sequence_gathers_again_in_the_backward) {
  const Program p = program_of(wide_llama, 4, annotations_of(wide, {.tensor = 4, .sequence = true}));
  EXPECT_EQ(collectives(p, Phase::forward),
            (Counts{{"all_reduce", 2}, {"all_gather", 5}, {"reduce_scatter", 5}}));
  EXPECT_EQ(collectives(p, Phase::backward), (Counts{{"all_gather", 10}, {"reduce_scatter", 5}}));
}

// Of a layer a device of t keeps s b h 34 / t bytes: Korthikanti et al., "Reducing activation recomputation in large
// transformer models" (arXiv 2205.05198), table 2, tensor and sequence parallelism, without the scores of attention,
// which is one operator here. Two of its 34 are masks of dropout; ours are attention's result with the heads side by side,
// beside the one that attention made.
TEST(DecoderSplit, by_sequence_keeps_the_activations_of_the_paper) {
  constexpr double t = 8, s = 2048, h = 4096, bytes = 34 * s * h / t;
  const auto activations = [](int layers) {
    const DecoderOptions options = as_gpt({.layers = layers,
                                           .hidden = 4096,
                                           .heads = 32,
                                           .kv_heads = 32,
                                           .ffn = 16384,
                                           .vocabulary = 512,
                                           .sequence = 2048});
    const std::string name =
        fmt::format("gpt:layers={},hidden=4096,heads=32,vocab=512,seq=2048,batch=1", layers);
    Model model =
        build_model(name, {.global_batch = {}, .precision = Precision::mixed(DType::bf16), .loss = ""});
    add_train_step(model.graph, model.loss, {.name = "sgd", .attributes = {{"rate", 0.01}}});
    PlanRequest request{
        .model = name, .devices = 8, .cluster = cluster_called("a100-80g:8"), .search = "propagation"};
    request.constraints = annotations_of(options, {.tensor = 8, .sequence = true});
    const Program p = compile(model.graph, make_plan(model.graph, request));
    return static_cast<double>(memory_use(p).of(MemoryKind::activations));
  };
  EXPECT_NEAR((activations(6) - activations(2)) / 4 / bytes, 1, 0.03);
}

struct Case {
  std::string name;
  std::string model;
  DecoderOptions options;
  DecoderSplit split;
};

class SplitDecoders : public ::testing::TestWithParam<Case> {};

TEST_P(SplitDecoders, have_the_losses_of_one_device) {
  const testing::TrainingRun run{.model = GetParam().model,
                                 .file = {},
                                 .optimizer = {"adam", {{"rate", 0.003}}},
                                 .precision = DType::f64,
                                 .steps = 4};
  const DecoderSplit& split = GetParam().split;
  const auto alone = testing::run_alone(run);
  for (const char* search : {"propagation", "recursive"}) {
    SCOPED_TRACE(search);
    testing::expect_same(
        testing::run_planned(run, {.devices = split.data * split.tensor,
                                   .search = search,
                                   .constraints = annotations_of(GetParam().options, split)}),
        alone, {.losses = 1e-9, .weights = 1e-7});
  }
}

DecoderOptions with_few_keys(DecoderOptions o) {
  o.kv_heads = 2;
  return o;
}

INSTANTIATE_TEST_SUITE_P(
    EndToEnd, SplitDecoders,
    ::testing::Values(
        Case{"llama_tensor", llama, small, {.data = 2, .tensor = 4}},
        Case{"llama_sequence", llama, small, {.data = 2, .tensor = 4, .sequence = true}},
        Case{"llama_few_keys",
             llama + ",kv_heads=2",
             with_few_keys(small),
             {.data = 1, .tensor = 4, .sequence = true}},
        Case{"llama_gathered_again", wide_llama, wide, {.data = 1, .tensor = 4, .sequence = true}},
        Case{"gpt_sequence", gpt, as_gpt(small), {.data = 2, .tensor = 2, .sequence = true}}),
    [](const auto& tested) { return tested.param.name; });

TEST(EndToEndDecoderSplit, with_shared_states_and_clipping_has_the_losses_of_one_device) {
  const testing::TrainingRun run{.model = llama,
                                 .file = {},
                                 .optimizer = {"adamw", {{"rate", 0.003}}, 0.3},
                                 .precision = DType::f64,
                                 .steps = 4};
  const auto alone = testing::run_alone(run);
  for (const OptimizerParallel& options : std::vector<OptimizerParallel>{{1, 0}, {3, 0}, {3, 0, 2}}) {
    SCOPED_TRACE(fmt::format("level {}, group {}", options.level, options.group));
    PlanRequest request{
        .devices = 8,
        .constraints = merged(annotations_of(small, {.data = 4, .tensor = 2, .sequence = true}),
                              constraints_of({.optimizer_parallel = options}))};
    testing::expect_same(testing::run_planned(run, request), alone, {.losses = 1e-9, .weights = 1e-7});
  }
}

TEST(DecoderSplit, is_the_same_by_patterns_in_a_file) {
  const Constraints of_file = load_annotations("examples/annotations/llama_sequence_parallel.json");
  const Model model = build_model(llama);
  const Constraints named = without_patterns(of_file, model.graph);
  const Constraints of_module = annotations_of(small, {.data = 2, .tensor = 4, .sequence = true});
  EXPECT_EQ(named.tensors.size(), of_module.tensors.size());
  for (const Phase phase : {Phase::forward, Phase::backward, Phase::update})
    EXPECT_EQ(collectives(program_of(llama, 8, named), phase),
              collectives(program_of(llama, 8, of_module), phase));
}

}  // namespace
}  // namespace shardwright
