// What lies and runs on the host: losses are those of one device without it, and the arena of a device is what it was less
// what went.

#include <gtest/gtest.h>

#include <array>

#include "shardwright/lower/program_text.h"
#include "shardwright/passes/compile.h"
#include "shardwright/simulate/estimate.h"
#include "shardwright/verify/verify.h"
#include "tests/support/draws.h"
#include "tests/support/message_of.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::TrainingRun;

TrainingRun decoder(OptimizerChoice optimizer = {"adam", {{"rate", 0.001}}}) {
  return {.model = "gpt:layers=4,hidden=16,heads=2,vocab=24,seq=4,batch=8",
          .file = "",
          .optimizer = std::move(optimizer),
          .precision = DType::f64,
          .steps = 3};
}

struct Way {
  const char* constraints;
  int devices;
};
constexpr std::array<Way, 9> ways{{{"", 1},
                                   {"micro_batches=4,recompute=selected", 1},
                                   {"zero=3,zero_threshold=0", 2},
                                   {"zero=2,zero_threshold=0,micro_batches=2", 4},
                                   {"pp=2,micro_batches=4,schedule=1f1b", 2},
                                   {"pp=2,micro_batches=4,schedule=gpipe,recompute=full", 4},
                                   {"pp=2,micro_batches=4,schedule=zero-bubble,zero=1,zero_threshold=0", 4},
                                   {"pp=2,micro_batches=4,schedule=zb-v", 2},
                                   {"pp=2,micro_batches=4,schedule=interleaved:2", 2}}};

PlanRequest request_of(const Way& way, std::string_view offload) {
  std::string words = way.constraints;
  words += fmt::format("{}offload={{{}}}", words.empty() ? "" : ",", offload);
  PlanRequest out{.devices = way.devices,
                  .parallel = Parallel::auto_parallel,
                  .constraints = parse_constraints({"test", words})};
  const int stages = out.constraints.degrees.of("pp");
  if (way.devices > stages) out.parallel = Parallel::data_parallel;
  if (way.devices == 1) out.parallel = Parallel::stand_alone;
  return out;
}

TEST(EndToEndOffload, losses_are_those_of_one_device) {
  const TrainingRun run = decoder();
  const auto alone = testing::run_alone(run);
  unsigned mix = 0;
  for (const char* offload :
       {"optimizer", "parameters", "activations", "optimizer:0.5,parameters:0.5,activations:0.5",
        "optimizer,parameters,activations", "host(layers.*.ffn.up.matmul)", "host(embedding)",
        "host(layers.1.ffn.down.weight),activations"})
    for (const Way& way : ways) {
      if (!testing::is_asked(mix++, ways.size(), 3)) continue;
      SCOPED_TRACE(fmt::format("{} on {}, {}", way.constraints, way.devices, offload));
      testing::expect_same(testing::run_planned(run, request_of(way, offload)), alone,
                           {.losses = 1e-9, .weights = 1e-7});
    }
}

TEST(EndToEndOffload, stages_with_shares_of_their_own_have_the_same_losses) {
  const TrainingRun run = decoder();
  const auto alone = testing::run_alone(run);
  for (const auto& [way, offload] : {std::pair<Way, const char*>{ways[4], "activations:1/0,optimizer:0/1"},
                                     {ways[6], "activations:0.5/0,parameters:0/0.5"},
                                     {ways[8], "activations:1/0.5/0.5/0"}}) {
    SCOPED_TRACE(offload);
    testing::expect_same(testing::run_planned(run, request_of(way, offload)), alone,
                         {.losses = 1e-9, .weights = 1e-7});
  }
}

TEST(EndToEndOffload, losses_with_clipping_and_short_precision_stay) {
  OptimizerChoice clipped{"adamw", {{"rate", 0.001}}};
  clipped.clip_norm = 0.1;
  TrainingRun run = decoder(clipped);
  run.precision = Precision::mixed(DType::bf16);
  const auto alone = testing::run_alone(run);
  testing::expect_same(testing::run_planned(run, request_of({"", 1}, "optimizer,parameters,activations")),
                       alone, {.losses = 1e-12, .weights = 1e-12});
}

// ---- memory ----

Program program_of(const std::string& model, const char* optimizer, std::string_view offload) {
  Model m = build_model(model);
  add_train_step(m.graph, m.loss, {.name = optimizer, .attributes = {{"rate", 0.001}}});
  const Plan plan = make_plan(
      m.graph, {.model = model,
                .devices = 1,
                .parallel = Parallel::stand_alone,
                .constraints = parse_constraints({"test", fmt::format("offload={{{}}}", offload)})});
  return compile(m.graph, plan);
}

std::int64_t bytes_of(const Program& p, BufferKind kind, Space space) {
  std::int64_t out = 0;
  for (const Buffer& b : p.buffers)
    if (b.kind == kind && b.space == space) out += b.slots * b.bytes;
  return out;
}

TEST(Offload, what_is_kept_goes_to_the_host_and_nothing_else) {
  const std::string model = "ffn:batch=16,widths=64-256-256-64";
  const Program whole = program_of(model, "adam", "none");
  EXPECT_EQ(whole.host_bytes, 0);
  const std::int64_t states = bytes_of(whole, BufferKind::state, Space::device),
                     parameters = bytes_of(whole, BufferKind::parameter, Space::device);
  const Program of_states = program_of(model, "adam", "optimizer");
  EXPECT_EQ(bytes_of(of_states, BufferKind::state, Space::device), 64);  // the count of steps
  EXPECT_EQ(of_states.host_bytes, states - 64);
  EXPECT_EQ(bytes_of(of_states, BufferKind::parameter, Space::device), parameters);
  const Program of_weights = program_of(model, "adam", "parameters");
  EXPECT_EQ(bytes_of(of_weights, BufferKind::parameter, Space::device), 0);
  EXPECT_EQ(of_weights.host_bytes, parameters);
  for (const Program* p : {&of_states, &of_weights}) {
    EXPECT_LT(p->arena_bytes, whole.arena_bytes);
    for (const Buffer& b : p->buffers)
      EXPECT_EQ(b.offset >= p->arena_bytes, b.space == Space::host) << p->graph.value(b.value).name;
  }
}

TEST(Offload, stages_have_shares_of_their_own) {
  Model m = build_model("ffn:batch=16,widths=64-256-256-256-64");
  add_train_step(m.graph, m.loss, {.name = "adam", .attributes = {{"rate", 0.001}}});
  const auto programs = [&](const std::string& offload) {
    const std::string words = "pp=2,schedule=gpipe,micro_batches=2,offload={" + offload + "}";
    return compile_pipeline(
        m.graph, make_plan(m.graph, {.devices = 2, .constraints = parse_constraints({"test", words})}));
  };
  const Pipeline all = programs("optimizer"), first = programs("optimizer:1/0"), none = programs("none");
  EXPECT_EQ(to_text(first.stage(0)), to_text(all.stage(0)));
  EXPECT_EQ(to_text(first.stage(1)), to_text(none.stage(1)));
  EXPECT_NE(to_text(all.stage(1)), to_text(none.stage(1)));
  EXPECT_NE(testing::message_of([&] { programs("optimizer:1/0/0"); }).find("shares of 3 stages"),
            std::string::npos);
}

/// Tensors go whole, and never more than was asked for.
TEST(Offload, a_share_is_at_most_what_was_asked_for) {
  const std::string model = "ffn:batch=16,widths=64-256-256-256-64";
  const std::int64_t all = program_of(model, "adam", "optimizer").host_bytes;
  std::int64_t before = 0;
  for (const double share : {0.2, 0.4, 0.6, 0.8, 1.0}) {
    const std::int64_t bytes = program_of(model, "adam", fmt::format("optimizer:{}", share)).host_bytes;
    EXPECT_LE(static_cast<double>(bytes), share * static_cast<double>(all) + 64 * 16) << share;  // alignment
    EXPECT_GE(bytes, before) << share;
    before = bytes;
  }
}

/// The more activations are on the host, the less is on the device, at the fullest moment as well.
TEST(Offload, activations_leave_the_device) {
  const std::string model = "ffn:batch=4096,widths=32-64-64-64-64-64-64-64-32";
  std::int64_t before = program_of(model, "sgd", "none").arena_bytes;
  const std::int64_t whole = before;
  for (const double share : {0.3, 0.6, 1.0}) {
    const Program p = program_of(model, "sgd", fmt::format("activations:{}", share));
    EXPECT_LE(p.arena_bytes, before) << share;
    before = p.arena_bytes;
  }
  EXPECT_LT(before, 6 * whole / 10);
}

TEST(Offload, text_of_a_program_says_it) {
  for (const char* offload : {"optimizer,parameters,activations", "host(dense1.matmul)"}) {
    const Program p = program_of("ffn:batch=16,widths=64-32-10", "adam", offload);
    const std::string text = to_text(p);
    const Pipeline read = parse_pipeline(text);
    EXPECT_EQ(to_text(read.stage(0)), text);
    EXPECT_EQ(read.stage(0).host_bytes, p.host_bytes);
    EXPECT_NO_THROW(prove(read));
  }
}

// ---- time ----

Estimate estimate_of(std::string_view offload, double bytes_per_second) {
  Cluster cluster = cluster_called("a100-80g:1");
  cluster.host.bytes_per_second = bytes_per_second;
  return estimate(program_of("ffn:batch=8192,widths=1024-4096-4096-1024", "adam", offload), cluster);
}

TEST(Offload, copies_take_the_link_and_run_beside_compute) {
  for (const char* offload : {"optimizer", "parameters", "activations"}) {
    const Estimate none = estimate_of("none", 1e9), slow = estimate_of(offload, 1e9),
                   fast = estimate_of(offload, 1e15);
    EXPECT_NEAR(fast.step_seconds(), none.step_seconds(), 0.05 * none.step_seconds()) << offload;
    EXPECT_NEAR(slow.host_seconds, static_cast<double>(slow.host_bytes_moved) / 1e9, 0.02 * slow.host_seconds)
        << offload;
    // Each way has a link of its own, and what is moved on the busier one takes as long at least.
    EXPECT_GE(slow.step_seconds(), slow.host_seconds / 2) << offload;
    EXPECT_LE(slow.step_seconds(), none.step_seconds() + slow.host_seconds) << offload;
  }
}

}  // namespace
}  // namespace shardwright
