// What trains with its sequence split over cp has the losses of one device, whichever way attention sees all of it; and a
// rank sends and holds what docs/long-context.md says.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

#include "shardwright/base/text.h"
#include "shardwright/graph/op.h"
#include "shardwright/lower/program.h"
#include "shardwright/lower/program_text.h"
#include "shardwright/passes/compile.h"
#include "shardwright/plan/set_words.h"
#include "tests/support/degrees_runs.h"
#include "tests/support/draws.h"

namespace shardwright {
namespace {

using testing::request_of_set;
using testing::TrainingRun;

Pipeline program_of(const std::string& model, const std::string& set) {
  TrainingRun run{.model = model, .optimizer = {.name = "sgd"}};
  const Model made = testing::train_model(run);
  const Plan plan = make_plan(made.graph, request_of_set(set));
  return compile_pipeline(made.graph, plan);
}

struct ContextCase {
  std::string name;
  std::string model;
  std::string set;
  int micro_batches = 1;
};
void PrintTo(const ContextCase& c, std::ostream* out) { *out << c.name; }

class EndToEndContext : public ::testing::TestWithParam<ContextCase> {};

TEST_P(EndToEndContext, has_the_losses_of_one_device) {
  const ContextCase& c = GetParam();
  const TrainingRun run{
      .model = c.model, .optimizer = {.name = "momentum"}, .precision = DType::f64, .steps = 3};
  const auto have = testing::run_planned(run, request_of_set(c.set, c.micro_batches)),
             want = testing::run_alone(run);
  testing::expect_same(have, want, {.losses = 1e-9, .weights = 1e-7});
  if (!have || !want) return;
  ASSERT_EQ(have->outputs.size(), want->outputs.size());
  for (std::size_t o = 1; o < want->outputs.size(); ++o)  // scores of tokens, where these stand
    EXPECT_LE(testing::difference(have->outputs[o], want->outputs[o]), 1e-7);
}

const std::string llama = "llama:layers=2,hidden=32,heads=4,kv_heads=2,ffn=48,vocab=48,seq=16,batch=4";
const std::string gpt = "gpt:layers=2,hidden=32,heads=4,vocab=48,seq=16,batch=4";
const std::string heads = "llama:layers=2,hidden=32,heads=4,ffn=48,vocab=48,seq=16,batch=4";
const std::string packed =
    "llama:layers=2,hidden=32,heads=4,kv_heads=2,ffn=48,vocab=48,seq=16,documents=apart,batch=4";
const std::string packed_gpt = "gpt:layers=2,hidden=32,heads=4,vocab=48,seq=16,documents=apart,batch=4";
const std::string alibi = "baichuan2-13b:layers=2,hidden=32,heads=4,ffn=48,vocab=48,seq=16,batch=4";

/// Each rank of a causal ring has both ends of a part of the sequence, in a train step, too, which hands scores out.
TEST(LongContext, balances_a_causal_ring) {
  const std::string ring = "cp=4,context=ring";
  const Pipeline balanced = program_of(llama, ring);
  ASSERT_EQ(balanced.in_order.size(), 1U);
  EXPECT_EQ(balanced.output_name(static_cast<std::size_t>(balanced.in_order[0].output)), "head.matmul");
  EXPECT_EQ(balanced.in_order[0].dim, 1);
  EXPECT_EQ(balanced.in_order[0].blocks, 8);
  const std::string text = to_text(balanced);
  EXPECT_TRUE(text.ends_with("in order %head.matmul dim 1 of 8 blocks\n"));
  EXPECT_EQ(to_text(parse_pipeline(text)), text);
  EXPECT_EQ(program_of(gpt, ring).in_order.size(), 1U);  // whose positions are a table
  EXPECT_TRUE(program_of(llama, "cp=4,context=gather").in_order.empty());
  EXPECT_EQ(program_of(packed, ring).in_order.size(), 1U);  // documents are counted before
}

INSTANTIATE_TEST_SUITE_P(
    all, EndToEndContext,
    ::testing::Values(
        ContextCase{"gather", llama, "cp=4,context=gather"},
        ContextCase{"exchange", llama, "cp=2,context=exchange"},
        ContextCase{"ring", llama, "cp=4,context=ring"},
        ContextCase{"ring_of_two", llama, "cp=2,context=ring"},
        ContextCase{"ring_of_eight", llama, "cp=8,context=ring"},
        ContextCase{"gather_with_all", llama, "dp=2,cp=2,tp=2,sequence_parallel=1,context=gather,zero=3"},
        ContextCase{"exchange_with_all", heads, "dp=2,cp=2,tp=2,sequence_parallel=1,context=exchange,zero=2"},
        ContextCase{"ring_with_all", llama, "dp=2,cp=2,tp=2,sequence_parallel=1,context=ring,zero=3"},
        ContextCase{"exchange_and_ring", llama, "cp=4,context=exchange:2+ring"},
        ContextCase{"exchange_and_gather", llama, "cp=4,context=exchange:2+gather"},
        ContextCase{"exchange_and_ring_of_eight", llama, "cp=8,context=exchange:2+ring"},
        ContextCase{"exchange_and_ring_with_all", heads,
                    "tp=2,cp=4,sequence_parallel=1,context=exchange:2+ring,zero=3"},
        ContextCase{"exchange_and_ring_in_stages", llama, "cp=4,pp=2,context=exchange:2+ring,recompute=full",
                    2},
        ContextCase{"exchange_and_ring_of_learned_positions", gpt,
                    "dp=2,cp=4,context=exchange:2+ring,zero=2"},
        ContextCase{"exchange_and_ring_of_alibi", alibi, "cp=4,context=exchange:2+ring"},
        ContextCase{"exchange_and_ring_as_less_is_sent", llama, "cp=8"},
        ContextCase{"states", llama, "cp=4,zero=1"}, ContextCase{"gradients", llama, "dp=2,cp=2,zero=2", 2},
        ContextCase{"stages", llama, "dp=2,cp=2,pp=2,context=ring,recompute=full", 2},
        ContextCase{"selected", llama, "cp=4,context=ring,recompute=selected", 2},
        ContextCase{"recomputed", llama, "cp=4,context=ring,recompute=full"},
        ContextCase{"learned_positions", gpt, "cp=4,context=ring"},
        ContextCase{"learned_positions_with_all", gpt,
                    "dp=2,cp=2,tp=2,sequence_parallel=1,context=ring,zero=3"},
        ContextCase{"learned_positions_in_stages", gpt, "dp=2,cp=2,pp=2,context=ring,zero=1,recompute=full",
                    2},
        ContextCase{"learned_positions_recomputed", gpt, "cp=4,context=ring,zero=2,recompute=full", 2},
        ContextCase{"learned_positions_gathered", gpt, "cp=2,tp=2,context=gather"},
        ContextCase{"alibi", alibi, "cp=4,context=ring"},
        ContextCase{"dropout", gpt + ",dropout=0.2,attention_dropout=0", "dp=2,cp=2,context=ring"},
        ContextCase{"documents", packed, "cp=4,context=ring"},
        ContextCase{"documents_gathered", packed, "cp=4,context=gather"},
        ContextCase{"documents_with_all", packed, "dp=2,cp=2,tp=2,sequence_parallel=1,context=ring,zero=3"},
        ContextCase{"documents_exchanged", packed, "cp=4,context=exchange:2+ring,recompute=full"},
        ContextCase{"documents_in_stages", packed, "cp=2,pp=2,context=ring,recompute=selected", 2},
        ContextCase{"documents_overlapped", packed,
                    "cp=2,tp=2,sequence_parallel=1,context=ring,overlap_tensor=1"},
        ContextCase{"learned_positions_overlapped", gpt,
                    "cp=2,tp=2,sequence_parallel=1,context=ring,overlap_tensor=1"},
        ContextCase{"documents_recomputed", packed, "cp=4,context=ring,mask=recompute,layers.0=recompute"},
        ContextCase{"documents_of_learned_positions", packed_gpt, "dp=2,cp=2,context=ring"},
        ContextCase{"encoder", gpt + ",causal=0,norm=rms,positions=none", "cp=4,context=ring"},
        ContextCase{"cut_backward", llama, "cp=2,pp=2,context=ring,schedule=zero-bubble", 4}),
    [](const auto& test) { return test.param.name; });

/// Mixes of all degrees, levels, ways and schedules: one device's losses, or a refusal.
TEST(EndToEndContexts, drawn_have_the_losses_of_one_device) {
  testing::DrawnDegrees drawn(static_cast<unsigned>(5 + testing::further_seeds()));
  const unsigned all = testing::draws(60);
  for (unsigned i = 0; i < all; ++i) {
    std::string set = drawn.one_of("cp=2", "cp=4", "dp=2,cp=2", "cp=2,tp=2", "dp=2,cp=2,tp=2", "cp=4,tp=2",
                                   "cp=2,pp=2", "dp=2,cp=2,pp=2", "cp=2,tp=2,pp=2", "cp=8");
    set += drawn.one_of("", ",context=ring", ",context=exchange", ",context=gather",
                        ",context=exchange:2+ring", ",context=exchange:2+gather");
    set = drawn.with_settings(set);
    drawn.compare(drawn.one_of(llama, gpt, alibi, packed), set, {"heads", "layers", "part of cp"});
  }
  EXPECT_GT(drawn.trained(), static_cast<int>(all) / 3);
}

// ---- what a rank sends and holds ----

std::int64_t received(const Program& program, Phase phase, StepKind kind, std::string_view reader) {
  std::int64_t out = 0;
  Redistributor redistributor(program.graph.meshes[0], {.even_only = true});
  for (const Node& node : program.graph.nodes) {
    if (node.phase != phase || node.op->step != kind) continue;
    const auto reads = [&](const Node& other) {
      return other.op->name.starts_with(reader) &&
             std::ranges::count(other.operands, node.results.front()) > 0;
    };
    if (std::ranges::any_of(program.graph.nodes, reads))
      out += redistribution_of(program.graph, node, redistributor).bytes;
  }
  return out;
}

/// batch 2, 2 heads of keys of 8 features, 32 tokens, one layer, floats
TEST(LongContext, sends_round_what_the_formulas_say) {
  for (const std::int64_t p : {2, 4, 8}) {
    const Pipeline pipeline =
        program_of("llama:layers=1,hidden=32,heads=4,kv_heads=2,ffn=48,vocab=48,seq=32,batch=2",
                   fmt::format("cp={},context=ring", p));
    const Program& program = pipeline.stages.front();
    const std::int64_t part = 2 * 2 * (32 / p) * 8 * 4;  // k or v of a rank, bytes
    EXPECT_EQ(received(program, Phase::forward, StepKind::halo, "attention_turn"), 2 * (p - 1) * part);
    EXPECT_EQ(received(program, Phase::backward, StepKind::halo, "attention_turn_grad"), 2 * (p - 1) * part);
    EXPECT_EQ(received(program, Phase::backward, StepKind::halo, "bring_home"), 2 * (p - 1) * part);
  }
}

/// The same with heads exchanged among `n`: a ring of p / n, each with n parts of the sequence and an n-th of the heads.
TEST(LongContext, sends_what_the_formulas_say_both_ways) {
  for (const auto& [p, n] : {std::pair<std::int64_t, std::int64_t>{4, 2}, {8, 2}, {8, 4}}) {
    SCOPED_TRACE(fmt::format("cp={}, {} exchange", p, n));
    const Pipeline pipeline =
        program_of("llama:layers=1,hidden=32,heads=8,kv_heads=4,ffn=48,vocab=48,seq=32,batch=2",
                   fmt::format("cp={},context=exchange:{}+ring", p, n));
    const Program& program = pipeline.stages.front();
    const std::int64_t part = 2 * 4 * (32 / p) * 4 * 4;  // k or v of a rank, bytes
    EXPECT_EQ(received(program, Phase::forward, StepKind::halo, "attention_turn"), 2 * (p / n - 1) * part);
    EXPECT_EQ(received(program, Phase::forward, StepKind::all_to_all, ""), (2 * 2 + 2) * part * (n - 1) / n);
    EXPECT_EQ(received(program, Phase::backward, StepKind::halo, "attention_turn_grad"),
              2 * (p / n - 1) * part);
    EXPECT_EQ(received(program, Phase::backward, StepKind::all_to_all, ""), (2 * 2 + 2) * part * (n - 1) / n);
  }
}

TEST(LongContext, takes_the_way_that_sends_less) {
  const auto has = [](const Pipeline& pipeline, std::string_view op) {
    return std::ranges::any_of(pipeline.stages.front().graph.nodes,
                               [&](const Node& node) { return node.op->name == op; });
  };
  // 4 heads, as many of keys: an exchange sends less from 3 on; of 2 heads of keys, 4 are not divided.
  EXPECT_TRUE(has(program_of("llama:layers=1,hidden=32,heads=4,ffn=48,vocab=48,seq=32,batch=2", "cp=4"),
                  "attention"));
  EXPECT_TRUE(has(program_of("llama:layers=1,hidden=32,heads=4,ffn=48,vocab=48,seq=32,batch=2", "cp=2"),
                  "attention_turn"));
  // Of 2 heads of keys, 4 devices exchange them two by two; where tp has one each, or there is one, keys go round among all.
  const auto axes = [](const char* sizes, const char* set) {
    const Pipeline made =
        program_of(fmt::format("llama:layers=1,hidden=32,{},ffn=48,vocab=48,seq=32,batch=2", sizes), set);
    return to_text(made.stages.front().graph.meshes.front());
  };
  EXPECT_EQ(axes("heads=4,kv_heads=2", "cp=4"), "mesh [cp0=2, cp1=2]");
  EXPECT_EQ(axes("heads=4,kv_heads=2", "tp=2,cp=4"), "mesh [cp=4, tp=2]");
  EXPECT_EQ(axes("heads=4,kv_heads=2", "tp=4,cp=2"), "mesh [cp=2, tp0=2, tp1=2]");
  EXPECT_EQ(axes("heads=4,kv_heads=1", "cp=8"), "mesh [cp=8]");
  EXPECT_EQ(axes("heads=4,kv_heads=1", "cp=4"), "mesh [cp=4]");
}

/// One of eight devices with an eighth of 32k tokens: weights aside, an eighth and what a turn has of others.
TEST(LongContext, takes_a_seventh_of_the_memory_at_most) {
  const std::string model =
      "llama:layers=2,hidden=256,heads=8,kv_heads=2,ffn=512,vocab=256,seq=32768,batch=1";
  const Pipeline whole = program_of(model, "cp=1"), split = program_of(model, "cp=8,context=ring");
  EXPECT_LE(static_cast<double>(split.arena_bytes(0)), 0.15 * static_cast<double>(whole.arena_bytes(0)));
}

}  // namespace
}  // namespace shardwright
