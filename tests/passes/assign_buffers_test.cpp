// The arena of whole programs (tests/support/walk.h), and where their transfers start.

#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/lower/spmd.h"
#include "shardwright/passes/compile.h"
#include "shardwright/passes/optimize.h"
#include "shardwright/passes/parameter_steps.h"
#include "shardwright/plan/complete.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/estimate.h"
#include "tests/support/program.h"
#include "tests/support/transformer.h"
#include "tests/support/walk.h"

namespace shardwright {
namespace {

using testing::Walk;

void expect_sound(const Program& p, const std::string& what, double slack = 1.3) {
  EXPECT_EQ(Walk(p).run(), "") << what;
  for (const Buffer& b : p.buffers) EXPECT_EQ(b.offset % 64, 0) << what;
  const std::int64_t peak = Walk(p).peak();
  EXPECT_GE(p.arena_bytes, peak) << what;
  EXPECT_LE(static_cast<double>(p.arena_bytes), slack * static_cast<double>(peak)) << what;
}

TEST(AssignBuffers, keeps_every_value_until_its_last_read) {
  struct Case {
    std::string model, annotations;
    int devices;
  };
  const std::string seed000 =
      R"({"dense1.matmul": {"in": [[2, 4], [4, 1]]}, "dense3.matmul": {"in": [[1, 8], [8, 1]]}})";
  for (const Case& c : {Case{"ffn", "{}", 1}, Case{"ffn", "{}", 4}, Case{"ffn", seed000, 8},
                        Case{"three_layer_mae", "{}", 2}, Case{"matmul_chain", "{}", 2}})
    for (const char* optimizer : {"sgd", "momentum", "adam"})
      for (int level : {0, 1, 3}) {
        Model m = build_model(c.model);
        add_train_step(m.graph, m.loss, {.name = optimizer, .attributes = {{"rate", 0.01}}});
        const Plan plan =
            make_plan(m.graph, {.model = c.model,
                                .devices = c.devices,
                                .parallel = c.devices == 1 ? Parallel::stand_alone : Parallel::auto_parallel,
                                .search = "recursive",
                                .constraints = merged(parse_annotations(c.annotations, "test"),
                                                      constraints_of({.optimizer_parallel = {level, 0}}))});
        expect_sound(compile(m.graph, plan),
                     fmt::format("{} {} on {} level {}", c.model, optimizer, c.devices, level));
      }
}

TEST(AssignBuffers, keeps_every_value_of_transformers) {
  const Mesh dp{{{"dp", 4}}}, tp{{{"tp", 4}}}, both{{{"dp", 2}, {"tp", 2}}};
  const std::vector<testing::TransformerSplit> splits = {
      {dp, {0}, {}}, {tp, {}, {0}}, {tp, {}, {0}, true}, {both, {0}, {1}}, {both, {0}, {1}, true}};
  for (const auto& split : splits) {
    testing::Transformer t = testing::make_transformer({}, split);
    add_train_step(t.graph, t.loss, {.name = "adam", .attributes = {{"rate", 0.01}}});
    expect_sound(compile(PlannedGraph{t.graph, {}}),
                 to_text(split.mesh) + (split.is_sequence_parallel ? " by sequence" : ""));
  }
}

Program assigned(std::string_view text) {
  Program p{.graph = parse_program_graph(text)};
  Redistributor redistributor(p.graph.meshes[0]);
  return assign_buffers(std::move(p), {redistributor});
}

std::int64_t place(const Program& p, std::string_view name) { return p.offset(p.graph.find(name)); }

TEST(AssignBuffers, writes_over_what_dies) {
  const Program p = assigned(R"(mesh []
%x = input f32[64] as [64] [-]
%a = relu %x {} : f32[64] as [64] [-]
%b = exp %a {} : f32[64] as [64] [-]
%c = add %a, %b {} : f32[64] as [64] [-]
output %c
)");
  EXPECT_EQ(Walk(p).run(), "");
  EXPECT_EQ(place(p, "a"), place(p, "x"));
  EXPECT_NE(place(p, "b"), place(p, "a"));
  EXPECT_EQ(p.arena_bytes, 512);
}

TEST(AssignBuffers, says_what_each_place_is_for_and_from_where_to_where) {
  const Program p = assigned(R"(mesh [dp=2]
%x = input f32[2, 64] as [4, 64] [dp, -]
%w = param f32[64, 64] as [64, 64] [-, -]
%m = state f32[64, 64] as [64, 64] [-, -]
%y = matmul %x, %w {m: dp} : f32[2, 64] as [4, 64] [dp, -]
%z = exp %y {i0: dp} : f32[2, 64] as [4, 64] [dp, -]
backward:
%1 = matmul %x, %z (transpose_a=true) {k: dp} : f32[64, 64] as [64, 64] [-, -] sum(dp)
%g = all_reduce.sum %1 over dp : f32[64, 64] as [64, 64] [-, -]
update:
%w2, %m2 = momentum %w, %g, %m (momentum=0.9, rate=0.1) {} : f32[64, 64] as [64, 64] [-, -], f32[64, 64] as [64, 64] [-, -]
update %w <- %w2
update %m <- %m2
)");
  EXPECT_EQ(Walk(p).run(), "");
  const auto expect = [&p](const char* name, BufferKind kind, int begin, int end) {
    const Buffer& b = *p.buffer(p.graph.find(name));
    EXPECT_EQ(b.kind, kind) << name;
    EXPECT_EQ(b.begin.index, begin) << name;
    EXPECT_EQ(b.end.index, end) << name;
  };
  const int before = -1, after = 8;
  expect("x", BufferKind::activation, before, 5);
  expect("w", BufferKind::parameter, before, after);
  expect("m2", BufferKind::state, before, after);
  expect("y", BufferKind::activation, 3, 5);     // %z is written in its place
  expect("g", BufferKind::communication, 5, 7);  // reduced in place
  EXPECT_EQ(p.buffers.size(), 5);
}

TEST(AssignBuffers, updates_a_leaf_in_its_place_unless_it_is_read_later) {
  const std::string head = R"(mesh []
%w = param f32[64] as [64] [-]
%v = param f32[64] as [64] [-]
update:
%w2 = exp %w {} : f32[64] as [64] [-]
%v2 = exp %v {} : f32[64] as [64] [-]
%late = add %v, %v2 {} : f32[64] as [64] [-]
output %late
)";
  const Program p = assigned(head + "update %w <- %w2\nupdate %v <- %v2\n");
  EXPECT_EQ(Walk(p).run(), "");
  EXPECT_EQ(place(p, "w2"), place(p, "w"));
  EXPECT_NE(place(p, "v2"), place(p, "v"));
}

// All leaves change at once: b gets the old w, so the new w must not stand in its place.
TEST(AssignBuffers, keeps_a_leaf_that_another_update_takes) {
  const Program p = assigned(R"(mesh []
%w = param f32[64] as [64] [-]
%b = param f32[64] as [64] [-]
update:
%w2 = exp %w {} : f32[64] as [64] [-]
output %w2
update %w <- %w2
update %b <- %w
)");
  EXPECT_NE(place(p, "w2"), place(p, "w"));
}

TEST(AssignBuffers, reshapes_in_place) {
  const Program p = assigned(R"(mesh []
%w = param f32[8, 8] as [8, 8] [-, -]
%r = reshape %w (shape=[64]) {} : f32[64] as [64] [-]
%y = exp %r {} : f32[64] as [64] [-]
%w2 = tanh %w {} : f32[8, 8] as [8, 8] [-, -]
output %y
output %r
update %w <- %w2
)");
  EXPECT_EQ(Walk(p).run(), "");
  EXPECT_EQ(place(p, "r"), place(p, "w"));
  EXPECT_NE(place(p, "y"), place(p, "w"));
  EXPECT_NE(place(p, "w2"), place(p, "w"));
}

// One new value for two leaves: they differ until the step is done.
TEST(AssignBuffers, gives_two_leaves_two_places) {
  const Program p = assigned(R"(mesh []
%a = param f32[64] as [64] [-]
%b = param f32[64] as [64] [-]
%y = add %a, %b {} : f32[64] as [64] [-]
update:
%n = exp %y {} : f32[64] as [64] [-]
output %y
update %a <- %n
update %b <- %n
)");
  EXPECT_EQ(Walk(p).run(), "");
  EXPECT_NE(place(p, "a"), place(p, "b"));
}

/// The node in front of which the step that makes `name` starts.
std::string start_of(const Program& p, std::string_view name) {
  const NodeId step = p.graph.value(p.graph.find(name)).producer;
  return p.graph.name_of(p.starts[static_cast<std::size_t>(step.index)]);
}

Program started(std::string_view text) {
  Redistributor redistributor({{{"dp", 2}}});
  return start_transfers(assigned(text), {redistributor});
}

TEST(StartTransfers, starts_where_the_operand_is_ready) {
  const Program p = started(R"(mesh [dp=2]
%x = input f32[4, 8] as [8, 8] [dp, -]
%w = param f32[4, 8] as [8, 8] [dp, -]
%a = matmul %x, %x (transpose_a=true) {k: dp} : f32[8, 8] as [8, 8] [-, -] sum(dp)
%b = exp %x {i0: dp} : f32[4, 8] as [8, 8] [dp, -]
%c = tanh %b {i0: dp} : f32[4, 8] as [8, 8] [dp, -]
%1 = all_reduce.sum %a over dp : f32[8, 8] as [8, 8] [-, -]
%2 = all_gather %w dim 0 over dp : f32[8, 8] as [8, 8] [-, -]
%3 = all_gather %c dim 0 over dp : f32[8, 8] as [8, 8] [-, -]
%y = sum %1, %2, %3 {} : f32[8, 8] as [8, 8] [-, -]
output %y
)");
  EXPECT_EQ(Walk(p).run(), "");
  EXPECT_EQ(place(p, "1"), place(p, "a"));
  EXPECT_EQ(start_of(p, "1"), "b");
  EXPECT_EQ(start_of(p, "2"), "x");  // a parameter is ready from the beginning
  EXPECT_EQ(start_of(p, "3"), "1");  // at once: the node above moves nothing of its own
}

// One bucket ahead: while %y1 is computed the second gather is on its way, and the third is not. Its place is its own
// from there on, and the first's can be taken after that.
TEST(PrefetchGathers, starts_behind_the_gather_before) {
  const std::string_view text = R"(mesh [dp=2]
%x = input f32[8, 8] as [16, 8] [dp, -]
%w1 = param f32[4, 8] as [8, 8] [dp, -]
%1 = all_gather %w1 dim 0 over dp : f32[8, 8] as [8, 8] [-, -]
%y1 = matmul %x, %1 {m: dp} : f32[8, 8] as [16, 8] [dp, -]
%z1 = exp %y1 {i0: dp} : f32[8, 8] as [16, 8] [dp, -]
%w2 = param f32[4, 8] as [8, 8] [dp, -]
%2 = all_gather %w2 dim 0 over dp : f32[8, 8] as [8, 8] [-, -]
%y2 = matmul %z1, %2 {m: dp} : f32[8, 8] as [16, 8] [dp, -]
backward:
%3 = all_gather %w2 dim 0 over dp : f32[8, 8] as [8, 8] [-, -]
%y3 = matmul %y2, %3 {m: dp} : f32[8, 8] as [16, 8] [dp, -]
output %y3
)";
  Program p{.graph = parse_program_graph(text)};
  Redistributor redistributor(p.graph.meshes[0]);
  const PassContext context{redistributor};
  p = start_transfers(assign_buffers(prefetch_gathers(std::move(p), context), context), context);
  EXPECT_EQ(start_of(p, "1"), "x");
  EXPECT_EQ(start_of(p, "2"), "y1");
  EXPECT_EQ(start_of(p, "3"), "y2");
  EXPECT_EQ(Walk(p).run(), "");
  EXPECT_NE(place(p, "2"), place(p, "1"));
  EXPECT_NE(place(p, "3"), place(p, "2"));
  EXPECT_EQ(place(p, "3"), place(p, "1"));
  Program wrong = p;
  testing::share_place(wrong, "2", "y1");
  EXPECT_EQ(Walk(wrong).run(), "%y1 is written while %2 is on its way");
}

TEST(PrefetchGathers, hides_gathers_of_weights_for_little_memory) {
  Cluster cluster = cluster_called("a100-80g:2x8");
  cluster.links.back().member_seconds =
      0;  // of so small a network rings are longer than anything that could hide them
  Model m = build_model("llama:layers=4,hidden=512,heads=8,vocab=8192,seq=256,batch=32");
  add_train_step(m.graph, m.loss, {.name = "sgd", .attributes = {{"rate", 0.01}}});
  Program p =
      compile(m.graph, make_plan(m.graph, {.devices = 16,
                                           .cluster = cluster,
                                           .parallel = Parallel::data_parallel,
                                           .constraints = constraints_of({.optimizer_parallel = {3, 0}})}));
  const double ahead = estimate(p, cluster).exposed_communication_seconds;
  Redistributor redistributor(p.graph.meshes[0]);
  Program late = p;
  late.starts = late.graph.node_ids();
  late = start_transfers(assign_buffers(late, {redistributor}), {redistributor});
  EXPECT_LT(ahead, 0.2 * estimate(late, cluster).exposed_communication_seconds);
  EXPECT_LT(static_cast<double>(p.arena_bytes), 1.09 * static_cast<double>(late.arena_bytes));
}

/// The same with each gather of weights behind the one before.
Program one_ahead(Program p, const PassContext& context) {
  const std::vector<ValueId> parameters = parameter_steps(p.graph);
  const std::vector<bool> is_ahead = gathers_ahead(p.graph);
  p.starts = p.graph.node_ids();
  NodeId behind{0};
  for (const Fusion& f : fusions_of(p.graph)) {
    const auto first = static_cast<std::size_t>(f.begin.index);
    if (!is_ahead[first] || !parameters[first].is_valid()) continue;
    while (p.graph.node(behind).is_fused || p.graph.node(behind).phase != p.graph.node(f.begin).phase)
      ++behind.index;
    for (NodeId id = f.begin; id < f.end; ++id.index) p.starts[static_cast<std::size_t>(id.index)] = behind;
    behind = f.end;
  }
  return start_transfers(assign_buffers(std::move(p), context), context);
}

TEST(PrefetchGathers, hides_large_weights_by_more_than_what_stands_before_them) {
  const Cluster cluster = cluster_called("a100-80g:16x8");
  Model m = build_model("llama2-7b",
                        {.global_batch = 512, .precision = *precision_called("bf16"), .micro_batches = 4});
  add_train_step(m.graph, m.loss, {.name = "adamw"});
  const Program p =
      compile(m.graph, make_plan(m.graph, {.devices = 128,
                                           .cluster = cluster,
                                           .parallel = Parallel::data_parallel,
                                           .constraints = constraints_of({.optimizer_parallel = {3, 0}}),
                                           .micro_batches = {.count = 4}}));
  Redistributor redistributor(p.graph.meshes[0]);
  const Program one = one_ahead(p, {redistributor});
  EXPECT_LT(estimate(p, cluster).exposed_communication_seconds,
            0.8 * estimate(one, cluster).exposed_communication_seconds);
}

// Peers write the result of an all_reduce as soon as it is started, so its memory must be free by then.
TEST(StartTransfers, waits_until_the_place_of_a_sum_is_free) {
  Program p = testing::program_of(R"(mesh [dp=2]
%x = input f32[8, 8] as [16, 8] [dp, -]
%a = matmul %x, %x (transpose_a=true) {k: dp} : f32[8, 8] as [8, 8] [-, -] sum(dp)
%b = exp %x {i0: dp} : f32[8, 8] as [16, 8] [dp, -]
%c = tanh %b {i0: dp} : f32[8, 8] as [16, 8] [dp, -]
%1 = all_reduce.sum %a over dp : f32[8, 8] as [8, 8] [-, -]
output %1
output %c
)");
  Redistributor redistributor(p.graph.meshes[0]);
  EXPECT_EQ(start_of(start_transfers(p, {redistributor}), "1"), "b");
  testing::share_place(p, "1", "x");
  EXPECT_EQ(start_of(start_transfers(p, {redistributor}), "1"), "c");
  testing::share_place(p, "1", "c");
  EXPECT_EQ(start_of(start_transfers(p, {redistributor}), "1"), "1");
}

TEST(StartTransfers, many_start_early_in_the_networks) {
  for (const char* model : {"ffn", "three_layer_mae", "matmul_chain"})
    for (int level : {0, 1, 3}) {
      Model m = build_model(model);
      add_train_step(m.graph, m.loss, {.name = "adam", .attributes = {{"rate", 0.01}}});
      const Program p = compile(
          m.graph,
          make_plan(m.graph, {.model = model,
                              .devices = 4,
                              .parallel = Parallel::data_parallel,
                              .constraints = constraints_of({.optimizer_parallel = {level, 0},
                                                             .comm_fusion = parse_comm_fusion("none")})}));
      int steps = 0, early = 0;
      for (const Fusion& f : fusions_of(p.graph)) {
        const OpDef& op = *p.graph.node(f.begin).op;
        if (op.kind != OpKind::step || is_local(*op.step)) continue;
        ++steps;
        early += p.starts[static_cast<std::size_t>(f.begin.index)] < f.begin;
      }
      EXPECT_GE(3 * early, steps) << model << " level " << level;
    }
}

TEST(AssignBuffers, sees_a_transfer_that_is_disturbed) {  // the checker itself
  Program p = testing::program_of(R"(mesh [dp=2]
%x = input f32[8, 8] as [16, 8] [dp, -]
%a = matmul %x, %x (transpose_a=true) {k: dp} : f32[8, 8] as [8, 8] [-, -] sum(dp)
%b = exp %x {i0: dp} : f32[8, 8] as [16, 8] [dp, -]
%1 = all_reduce.sum %a over dp : f32[8, 8] as [8, 8] [-, -]
output %1
)");
  p.starts = p.graph.node_ids();
  p.starts[3] = NodeId{2};
  EXPECT_EQ(Walk(p).run(), "");
  Program wrong = p;
  testing::share_place(wrong, "b", "a");
  EXPECT_EQ(Walk(wrong).run(), "%b is written while %1 is on its way");
  wrong = p;
  testing::share_place(wrong, "1", "x");
  EXPECT_EQ(Walk(wrong).run(), "%x is read while %1 is on its way");
  wrong = p;
  wrong.starts[3] = NodeId{1};
  EXPECT_EQ(Walk(wrong).run(), "%a, wanted when 1 starts, was overwritten by %nothing");
}

TEST(AssignBuffers, sees_a_value_that_is_overwritten) {  // the checker itself
  Program p = assigned(R"(mesh []
%x = input f32[64] as [64] [-]
%a = exp %x {} : f32[64] as [64] [-]
%b = tanh %x {} : f32[64] as [64] [-]
%c = add %a, %b {} : f32[64] as [64] [-]
output %c
)");
  EXPECT_EQ(Walk(p).run(), "");
  testing::share_place(p, "b", "a");
  EXPECT_EQ(Walk(p).run(), "%a, read by c, was overwritten by %b");
}

}  // namespace
}  // namespace shardwright
