// What micro-batches that are alive take in the arenas of stages.

#include <gtest/gtest.h>

#include "shardwright/annotations/patterns.h"
#include "shardwright/base/index.h"
#include "shardwright/frontend/model.h"
#include "shardwright/lower/program_text.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/memory_curve.h"
#include "shardwright/simulate/step_trace.h"
#include "shardwright/verify/verify.h"

namespace shardwright {
namespace {

constexpr int stages = 4;
constexpr std::int64_t most_bytes = std::int64_t{1} << 60;

/// A decoder layer on each of four ranks; micro-batches of 2 samples.
Pipeline compiled(Schedule schedule, int micro_batches) {
  const std::string model =
      fmt::format("llama:layers=4,hidden=64,heads=4,ffn=128,vocab=128,seq=32,batch={}", 2 * micro_batches);
  Model m = build_model(model, {.global_batch = {}, .loss = "", .micro_batches = micro_batches});
  add_train_step(m.graph, m.loss, {.name = "adamw", .attributes = {{"rate", 0.01}}});
  m.graph.outputs.resize(1);  // the loss; scores of all micro-batches are kept for the caller
  // An even cut would weigh updates by how many micro-batches share one.
  const Constraints layers = parse_annotations(
      R"({"layers.0": {"stage": 0}, "layers.1": {"stage": 1}, "layers.2": {"stage": 2},
          "layers.3": {"stage": 3}})",
      "layers");
  return compile_pipeline(
      m.graph, make_plan(m.graph, {.model = model,
                                   .devices = stages,
                                   .parallel = Parallel::data_parallel,
                                   .constraints = merged(
                                       without_patterns(layers, m.graph),
                                       constraints_of({.pipelining = {schedule, stages, micro_batches}}))}));
}

/// What a micro-batch takes more.
std::int64_t slot_bytes(const Program& program) {
  std::int64_t bytes = 0;
  for (const Buffer& b : program.buffers) bytes += b.slots > 1 ? b.bytes : 0;
  return bytes;
}

std::vector<std::int64_t> arenas(const Pipeline& pipeline) {
  std::vector<std::int64_t> out;
  for (const Program& p : pipeline.stages) out.push_back(p.arena_bytes);
  return out;
}

TEST(PipelineMemory, of_1f1b_holds_no_more_micro_batches_than_stages_behind) {
  const Pipeline eight = compiled(Schedule::one_forward_one_backward(), 8);
  for (int s = 0; s < stages; ++s) {
    EXPECT_EQ(eight.stage(s).lanes.slots[0], stages - s);
    // The last stage's only one needs no place of its own.
    EXPECT_GE(slot_bytes(eight.stage(s)), s + 1 < stages ? 2 * 32 * 64 * 4 : 0)
        << "less than a layer's input";
  }
  EXPECT_EQ(arenas(compiled(Schedule::one_forward_one_backward(), 16)), arenas(eight));
}

TEST(PipelineMemory, of_gpipe_holds_all_micro_batches) {
  const Pipeline eight = compiled(Schedule::gpipe(), 8), nine = compiled(Schedule::gpipe(), 9);
  for (int s = 0; s < stages; ++s) {
    EXPECT_EQ(eight.stage(s).lanes.slots[0], 8);
    EXPECT_EQ(nine.stage(s).arena_bytes, eight.stage(s).arena_bytes + slot_bytes(eight.stage(s)));
  }
  const Pipeline alternating = compiled(Schedule::one_forward_one_backward(), 8);
  for (int s = 0; s + 1 < stages; ++s)
    EXPECT_EQ(eight.stage(s).arena_bytes - alternating.stage(s).arena_bytes,
              (8 - (stages - s)) * slot_bytes(eight.stage(s)));
}

/// Two devices a stage, each with two chunks of two layers.
Pipeline chunked(const std::string& schedule) {
  const std::string model = "llama:layers=8,hidden=64,heads=4,ffn=128,vocab=128,seq=32,batch=16";
  Model m = build_model(model, {.global_batch = {}, .loss = "", .micro_batches = 4});
  add_train_step(m.graph, m.loss, {.name = "adamw", .attributes = {{"rate", 0.01}}});
  return compile_pipeline(
      m.graph,
      make_plan(m.graph,
                {.model = model,
                 .devices = 4,
                 .parallel = Parallel::semi_auto_parallel,
                 .constraints = parse_constraints(
                     {"--set", "dp=2,pp=2,micro_batches=4,zero=3,recompute=full,schedule=" + schedule})}));
}

std::string found(const Pipeline& pipeline) {
  const Violations out = violations(unrolled_steps(pipeline), pipeline);
  return out.empty() ? "nothing" : out.front().text;
}

TEST(PipelineMemory, of_what_lives_within_a_task_is_one_for_all_chunks) {
  for (const char* schedule : {"interleaved:2", "zb-v", "v-half"}) {
    SCOPED_TRACE(schedule);
    const Pipeline p = chunked(schedule);
    for (int rank = 0; rank < p.rank_count(); ++rank) {
      std::int64_t apart = 0, own = 0, passing = 0;
      for (int stage : p.stages_of(rank)) {
        const Program& program = p.stage(stage);
        EXPECT_GT(program.passing_bytes, 0);
        apart += program.arena_bytes, own += program.own_bytes();
        passing = std::max(passing, program.passing_bytes);
      }
      EXPECT_EQ(p.arena_bytes(rank), own + passing);
      EXPECT_LT(p.arena_bytes(rank), apart);
    }
    EXPECT_EQ(found(p), "nothing");
    const Cluster cluster = cluster_called("a100-80g:4");
    const StepTrace trace = simulated_trace(p, cluster);
    for (int group = 0; group < p.group_count(); ++group) {
      const int rank = p.first_rank(group);
      EXPECT_EQ(total_of(memory_use(p, rank).bytes), p.arena_bytes(rank));
      for (const MemoryPoint& point : memory_over_time(p, trace, step_of(p, rank)))
        ASSERT_LE(point.bytes, p.arena_bytes(rank));
    }
    EXPECT_EQ(to_text(parse_pipeline(to_text(p))), to_text(p));
  }
}

TEST(PipelineMemory, that_chunks_share_may_hold_nothing_longer) {
  const Pipeline p = chunked("interleaved:2");
  Pipeline changed = p;
  Program &middle = changed.stages[1], &last = changed.stages[3];  // of the same devices
  const auto bytes = [](const Buffer& b) { return b.kind == BufferKind::parameter ? b.bytes : most_bytes; };
  Buffer& parameter = *std::ranges::min_element(middle.buffers, {}, bytes);
  ASSERT_LE(middle.passing_bytes, last.passing_bytes);
  for (Buffer& b : last.buffers) b.offset += b.offset >= last.own_bytes() ? parameter.bytes : 0;
  parameter.offset = middle.arena_bytes;
  for (Program* program : {&middle, &last})
    program->arena_bytes += parameter.bytes, program->passing_bytes += parameter.bytes;
  EXPECT_NE(found(changed).find(" of another stage on its devices has been written over it"),
            std::string::npos)
      << found(changed);
  parameter.offset = middle.own_bytes() - 64;
  EXPECT_NE(found(changed).find(" of them shared"), std::string::npos) << found(changed);
}

/// A copy between chunks of one device that reads where it writes.
TEST(PipelineMemory, of_what_crosses_within_a_device_is_read_before_it_is_written) {
  Pipeline p = chunked("zb-v");
  const auto crossing = std::ranges::find_if(p.crossings, [](const PlacedCrossing& c) {
    return c.from == 1 && c.to == 2 && c.time == CrossingTime::micro_batch;
  });
  ASSERT_NE(crossing, p.crossings.end());
  const auto move = [&](int stage, ValueId v, std::int64_t into) {
    Program& program = p.stages[at(stage)];
    Buffer& b = program.buffers[at(program.buffer_of[at(v.index)])];
    b.offset = program.own_bytes() + into;
    program.passing_bytes += b.slots * b.bytes + into, program.arena_bytes += b.slots * b.bytes + into;
  };
  const std::int64_t behind = std::max(p.stage(1).passing_bytes, p.stage(2).passing_bytes);
  move(1, crossing->sent, behind), move(2, crossing->received, behind + 64);
  EXPECT_NE(found(p).find("is written where"), std::string::npos) << found(p);
}

}  // namespace
}  // namespace shardwright
