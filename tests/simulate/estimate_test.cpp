#include "shardwright/simulate/estimate.h"

#include <gtest/gtest.h>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/make_plan.h"
#include "tests/support/program.h"

namespace shardwright {
namespace {

using testing::program_of;

/// A flop or a byte in memory takes a second of two devices, a byte of a collective too; nothing has to start.
Cluster plain_cluster(double overlap) {
  return {.name = "plain",
          .devices_per_node = 2,
          .flops_per_second = {.f32 = 1},
          .memory_bytes_per_second = 1,
          .efficiency = {},
          .rows = no_lines,
          .links = {{.kind = "wire", .devices = 2}},
          .link_efficiency = 1,
          .overlap = overlap};
}

/// The transfer of `result` may start in front of the node that makes `early`.
void start_early(Program& p, std::string_view result, std::string_view early) {
  if (p.starts.empty()) p.starts = p.graph.node_ids();
  p.starts[static_cast<std::size_t>(p.graph.value(p.graph.find(result)).producer.index)] =
      p.graph.value(p.graph.find(early)).producer;
}

// One all_reduce of 40 bytes, 40 s, and two relus of 10 elements, 80 s each.
const char* const reduced = R"(
mesh [tp=2]
%x = input f32[10] as [10] [-]
%z = input f32[10] as [10] [-]
%g = mask %z over tp : f32[10] as [10] [-] sum(tp)
%a = relu %x : f32[10] as [10] [-]
%b = relu %a : f32[10] as [10] [-]
%r = all_reduce.sum %g over tp : f32[10] as [10] [-]
output %b
output %r
)";

TEST(Estimate, exposes_what_has_not_run_beside_compute) {
  Program p = program_of(reduced);
  EXPECT_DOUBLE_EQ(estimate(p, plain_cluster(1)).compute_seconds, 160);
  EXPECT_DOUBLE_EQ(estimate(p, plain_cluster(1)).communication_seconds, 40);
  EXPECT_DOUBLE_EQ(estimate(p, plain_cluster(1)).exposed_communication_seconds,
                   40);  // starts where it is waited for
  start_early(p, "r", "b");
  EXPECT_DOUBLE_EQ(estimate(p, plain_cluster(1)).exposed_communication_seconds, 0);
  EXPECT_DOUBLE_EQ(estimate(p, plain_cluster(1)).step_seconds(), 160);
  EXPECT_DOUBLE_EQ(estimate(p, plain_cluster(0.25)).exposed_communication_seconds, 20);  // a quarter of 80 s
  EXPECT_DOUBLE_EQ(estimate(p, plain_cluster(0)).exposed_communication_seconds, 40);
  start_early(p, "r", "a");
  EXPECT_DOUBLE_EQ(estimate(p, plain_cluster(0.125)).exposed_communication_seconds, 20);  // of 160 s
}

TEST(Estimate, runs_transfers_of_a_group_in_the_order_in_which_they_start) {
  Program p = program_of(R"(
mesh [tp=2]
%x = input f32[1] as [1] [-]
%z = input f32[10] as [10] [-]
%g = mask %z over tp : f32[10] as [10] [-] sum(tp)
%h = mask %z over tp : f32[10] as [10] [-] sum(tp)
%a = relu %x : f32[1] as [1] [-]
%now = all_reduce.sum %h over tp : f32[10] as [10] [-]
%b = relu %a : f32[1] as [1] [-]
%later = all_reduce.sum %g over tp : f32[10] as [10] [-]
output %b
output %now
output %later
)");
  start_early(p, "later", "a");
  // A relu takes 8 s, in which `later` gets on by 8 of its 40 s; `now` comes behind it, in front of the other relu.
  EXPECT_DOUBLE_EQ(estimate(p, plain_cluster(1)).exposed_communication_seconds, 40 + 40 - 8);
}

/// Two all_reduces of 40 bytes over different groups of four devices on one wire: each takes 40 s alone.
TEST(Estimate, lets_collectives_of_different_groups_share_their_links) {
  Program p = program_of(R"(
mesh [a=2, b=2]
%x = input f32[10] as [10] [-]
%g = mask %x over a : f32[10] as [10] [-] sum(a)
%h = mask %x over b : f32[10] as [10] [-] sum(b)
%r = all_reduce.sum %g over a : f32[10] as [10] [-]
%s = all_reduce.sum %h over b : f32[10] as [10] [-]
output %r
output %s
)");
  Cluster cluster = plain_cluster(1);
  cluster.devices_per_node = cluster.links.front().devices = 4;
  const double one_by_one = estimate(p, cluster).exposed_communication_seconds;
  EXPECT_DOUBLE_EQ(one_by_one, 80);
  start_early(p, "s", "h");
  EXPECT_DOUBLE_EQ(estimate(p, cluster).exposed_communication_seconds, one_by_one);
}

TEST(Estimate, reads_of_a_table_no_more_than_the_rows_that_are_asked_for) {
  const Program p = program_of(R"(
mesh [tp=1]
%ids = input i32[2] as [2] [-]
%table = param f32[1000, 4] as [1000, 4] [-, -]
%y = gather %table, %ids (dim=0) {} : f32[2, 4] as [2, 4] [-, -]
output %y
)");
  Cluster one = plain_cluster(0);
  one.devices_per_node = 1;
  EXPECT_LT(estimate(p, one).compute_seconds, 200);
}

TEST(Estimate, takes_nothing_for_an_operand_seen_otherwise) {
  Program p = program_of(R"(
mesh [tp=2]
%x = input f32[4] as [4] [-]
%y = reshape %x (shape=[2, 2]) {} : f32[2, 2] as [2, 2] [-, -]
output %y
)");
  EXPECT_GT(estimate(p, plain_cluster(0)).compute_seconds, 0);  // at a place of its own it is copied
  testing::share_place(p, "y", "x");
  EXPECT_EQ(estimate(p, plain_cluster(0)).compute_seconds, 0);
}

TEST(Estimate, knows_how_much_of_the_peak_is_reached) {
  // 2 * 4 * 8 * 6 flops on two devices of 1 flop/s: 192 s at the peak; reading and writing takes longer.
  const Program p = program_of(R"(
mesh [tp=2]
%x = input f32[2, 8] as [4, 8] [tp, -]
%w = param f32[8, 6] as [8, 6] [-, -]
%y = matmul %x, %w {m: tp} : f32[2, 6] as [4, 6] [tp, -]
output %y
)");
  const Estimate e = estimate(p, plain_cluster(0));
  EXPECT_DOUBLE_EQ(e.peak_seconds, 192);
  EXPECT_DOUBLE_EQ(e.compute_seconds, 4 * (16 + 48 + 12));
  EXPECT_DOUBLE_EQ(e.mfu(), 192.0 / 304);
}

/// A train step of `model` as compiled for `devices`.
Program compiled(const std::string& model, int devices, const std::string& optimizer, int level = 0,
                 Precision precision = {}, bool reduces_short = false) {
  Model m = build_model(model, {.global_batch = {}, .precision = precision, .loss = "", .micro_batches = 1});
  add_train_step(
      m.graph, m.loss,
      {.name = optimizer, .attributes = {{"rate", 0.01}}, .clip_norm = 0, .reduces_short = reduces_short});
  return compile(m.graph,
                 make_plan(m.graph, {.model = model,
                                     .devices = devices,
                                     .parallel = Parallel::data_parallel,
                                     .constraints = constraints_of({.optimizer_parallel = {level, 0}})}));
}

TEST(MemoryUse, of_all_kinds_is_the_arena) {
  for (const char* model :
       {"ffn", "three_layer_mae", "llama:layers=2,hidden=32,heads=4,ffn=64,vocab=64,seq=16,batch=4"})
    for (int level : {0, 1, 3})
      for (const Precision& precision : {Precision(DType::f32), Precision::mixed(DType::bf16)}) {
        const Program p = compiled(model, 4, "adam", level, precision);
        const MemoryUse use = memory_use(p);
        std::int64_t sum = 0;
        for (std::int64_t bytes : use.bytes) {
          EXPECT_GE(bytes, 0) << model;
          sum += bytes;
        }
        EXPECT_EQ(sum, p.arena_bytes) << model << " level " << level << " " << to_text(precision);
      }
}

// In mixed precision: a weight in 2 bytes, its master and two moments in 4 each, and a gradient as long as it is reduced.
TEST(MemoryUse, of_mixed_precision_is_fourteen_bytes_a_parameter_and_its_gradient) {
  const std::string model = "llama:layers=2,hidden=128,heads=4,ffn=512,vocab=2048,seq=8,batch=4";
  const Program f32 = compiled(model, 4, "adamw");
  const auto count = static_cast<double>(memory_use(f32).of(MemoryKind::parameters)) / 4;
  for (const int level : {0, 1, 3})
    for (const bool reduces_short : {false, true})
      for (const DType type : {DType::bf16, DType::f16}) {
        const MemoryUse use =
            memory_use(compiled(model, 4, "adamw", level, Precision::mixed(type), reduces_short));
        const auto bytes = [&](MemoryKind kind) { return static_cast<double>(use.of(kind)) / count; };
        SCOPED_TRACE(fmt::format("level {}, reduced {}", level, reduces_short ? "short" : "in f32"));
        // Norms keep 4 bytes, of which they have few.
        EXPECT_NEAR(bytes(MemoryKind::parameters), level == 3 ? 0.5 : 2.0, 0.03);
        EXPECT_NEAR(bytes(MemoryKind::optimizer_state), level > 0 ? 3.0 : 12.0, 0.03);
        EXPECT_LE(bytes(MemoryKind::gradients), reduces_short ? 2.6 : 4.6);
      }
}

TEST(MemoryUse, counts_what_each_value_is_for) {
  // 64 rows of 32 -> 64 -> 16 on one device, f32: weights 32*64 + 64*16, with adam two states each and a step count.
  const MemoryUse use = memory_use(compiled("ffn:widths=32-64-16,batch=64", 1, "adam"));
  const std::int64_t weights = 4 * (32 * 64 + 64 + 64 * 16 + 16);
  EXPECT_EQ(use.of(MemoryKind::parameters), weights);
  EXPECT_GE(use.of(MemoryKind::optimizer_state), 2 * weights);
  EXPECT_LE(use.of(MemoryKind::optimizer_state), 2 * weights + 4 * 64);
  // The backward reads the data, their labels and the hidden layer, or what relu has made of it.
  EXPECT_GE(use.of(MemoryKind::activations), 4 * 64 * (32 + 64));
  EXPECT_EQ(use.of(MemoryKind::communication), 0);
}

/// Where gradients are accumulated, what they are accumulated in is gradients for the whole step, at any level.
TEST(MemoryUse, counts_accumulators_as_gradients) {
  Model m = build_model("llama:layers=2,hidden=64,heads=4,ffn=172,vocab=128,seq=64,batch=4");
  add_train_step(m.graph, m.loss, {"adamw", {{"rate", 0.01}}});
  for (int level : {0, 1, 2, 3}) {
    PlanRequest request{.devices = 4, .parallel = Parallel::data_parallel};
    request.constraints.zero = level;
    request.constraints.zero_threshold = 0;
    request.constraints.micro_batches = 4;
    const Program p = compile_pipeline(m.graph, make_plan(m.graph, request)).stages.front();
    std::int64_t accumulators = 0;
    for (const Node& node : p.graph.nodes)
      if (node.op->kind == OpKind::accumulator)
        accumulators += p.graph.value(node.results.front()).type.bytes();
    EXPECT_GT(accumulators, 0);
    EXPECT_GE(memory_use(p).of(MemoryKind::gradients), accumulators) << level;
  }
}

/// Levels on 8 devices: 8 layers whose weights are much and whose activations are little. All is counted by hand.
TEST(MemoryUse, of_gradients_is_a_share_and_three_whole_ones_from_level_2_on) {
  const std::string model = "llama:layers=8,hidden=256,heads=8,ffn=1024,vocab=256,seq=8,batch=";
  const double parameters = 8 * (4 * 256 * 256 + 3 * 256 * 1024 + 2 * 256) + 2 * 256 * 256 + 256;
  const double largest = 256 * 1024;
  for (int micro_batches : {1, 4}) {
    Model m = build_model(fmt::format("{}{}", model, 8 * micro_batches),
                          {.global_batch = {}, .loss = "", .micro_batches = micro_batches});
    add_train_step(m.graph, m.loss, {"adamw", {{"rate", 0.01}}});
    const auto arena = [&](int level) {
      PlanRequest request{.devices = 8, .parallel = Parallel::data_parallel};
      request.constraints.zero = level;
      request.constraints.zero_threshold = 0;
      request.constraints.comm_fusion = parse_comm_fusion("none");
      request.constraints.micro_batches = micro_batches;
      return static_cast<double>(compile_pipeline(m.graph, make_plan(m.graph, request)).arena_bytes(0)) / 4;
    };
    // Weights, two moments and gradients. What differs is less than five weights: activations and gradients under way (three
    // whole ones at most), and of level 3 gathered weights, four with those ahead. All of them are 32.
    const double rest = 5 * largest, gathered = 4 * largest;
    EXPECT_NEAR(arena(0), 4 * parameters, rest) << micro_batches;
    EXPECT_NEAR(arena(1), (2 + 2. / 8) * parameters, rest) << micro_batches;
    EXPECT_NEAR(arena(2), (1 + 3. / 8) * parameters, rest) << micro_batches;
    EXPECT_NEAR(arena(3), 4. / 8 * parameters, rest + gathered) << micro_batches;
  }
}

/// What level 2 reduces with each of four micro-batches runs beside their backwards: level 1 reduces once.
TEST(Estimate, hides_reductions_of_every_micro_batch) {
  const std::string model = "llama2-7b:layers=4,batch=256";
  Model m = build_model(model, {.global_batch = {}, .loss = "", .micro_batches = 4});
  add_train_step(m.graph, m.loss, {"adamw", {{"rate", 0.01}}});
  const auto estimated = [&](int level) {
    PlanRequest request{
        .devices = 64, .cluster = cluster_called("a100-80g:64"), .parallel = Parallel::data_parallel};
    request.constraints = merged(request.constraints, constraints_of({.optimizer_parallel = {level}}));
    request.constraints.micro_batches = 4;
    return estimate(compile_pipeline(m.graph, make_plan(m.graph, request)), cluster_called("a100-80g:64"));
  };
  const Estimate once = estimated(1), each = estimated(2);
  EXPECT_EQ(each.collectives.at("reduce_scatter"), 4 * once.collectives.at("reduce_scatter"));
  EXPECT_EQ(each.collectives.at("all_reduce"), once.collectives.at("all_reduce")) << "what is small waits";
  EXPECT_LT(each.step_seconds(), 1.03 * once.step_seconds());
}

TEST(MemoryUse, sees_optimizer_state_shrink_when_replicas_share_it) {
  const auto states = [](int level) {
    return static_cast<double>(memory_use(compiled("ffn:widths=64-64-64,batch=64", 4, "adam", level))
                                   .of(MemoryKind::optimizer_state));
  };
  EXPECT_NEAR(states(1) / states(0), 0.25, 0.02);
}

TEST(MemoryUse, names_the_largest_consumers) {
  const MemoryUse use = memory_use(compiled("ffn:widths=512-64-16,batch=8", 1, "sgd"));
  ASSERT_FALSE(use.largest.empty());
  EXPECT_EQ(use.largest[0].name, "dense1.weight");
  EXPECT_EQ(use.largest[0].kind, MemoryKind::parameters);
  EXPECT_EQ(use.largest[0].bytes, 4 * 512 * 64);
  for (std::size_t i = 1; i < use.largest.size(); ++i)
    EXPECT_GE(use.largest[i - 1].bytes, use.largest[i].bytes);
}

}  // namespace
}  // namespace shardwright
