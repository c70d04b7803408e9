#include "shardwright/simulate/framework_memory.h"

#include <gtest/gtest.h>

#include "shardwright/graph/text.h"
#include "shardwright/simulate/evaluate.h"
#include "tests/support/drawn_pipeline.h"
#include "tests/support/draws.h"

namespace shardwright {
namespace {

constexpr std::int64_t million = 1'000'000;

/// A buffer from node to node; 4 is behind the last, -1 before the first.
struct Row {
  BufferKind kind;
  std::int64_t bytes;
  int slots;
  int begin, end;
  const char* value = "";
};

Program program_with(const char* text, const std::vector<Row>& rows) {
  Program p{.graph = parse_program_graph(text)};
  p.buffer_of.assign(p.graph.values.size(), -1);
  for (const Row& row : rows) {
    if (*row.value)
      p.buffer_of[static_cast<std::size_t>(p.graph.find(row.value).index)] =
          static_cast<int>(p.buffers.size());
    p.buffers.push_back({.value = {0},
                         .kind = row.kind,
                         .offset = p.arena_bytes,
                         .bytes = row.bytes,
                         .slots = row.slots,
                         .begin = {row.begin},
                         .end = {row.end}});
    p.arena_bytes = p.buffers.back().end_offset();
  }
  return p;
}

/// Two stages of four devices, 1f1b: stage 0 has two of three micro-batches at once, stage 1 one.
Pipeline small_pipeline() {
  Pipeline p;
  // 256 elements of the weight are on a device. Most is there in the backward: what the forwards of two have kept, 2 * 300,
  // and 400. What is sent, in one of three slots, is gone then.
  p.stages.push_back(program_with(R"(
mesh [dp=2, tp=2]
%x = input bf16[4, 16] as [8, 16] [dp, -]
%w = param bf16[16, 16] as [16, 32] [-, tp]
%h = matmul %x, %w {m: dp, n: tp} : bf16[4, 16] as [8, 32] [dp, tp]
%y = relu %h {i0: dp, i1: tp} : bf16[4, 16] as [8, 32] [dp, tp]
backward:
%dy = receive bf16[4, 16] as [8, 32] [dp, tp]
%dh = relu_grad %dy, %h {i0: dp, i1: tp} : bf16[4, 16] as [8, 32] [dp, tp]
output %dh
)",
                                  {{BufferKind::parameter, 512, 1, -1, 6, "w"},
                                   {BufferKind::state, 2048, 1, -1, 6},
                                   {BufferKind::accumulator, 1000, 1, -1, 6},
                                   {BufferKind::workspace, 50, 1, 0, 2, "x"},
                                   {BufferKind::activation, 300, 2, 2, 5, "h"},
                                   {BufferKind::communication, 70, 3, 3, 6, "y"},
                                   {BufferKind::gradient, 400, 1, 5, 5}}));
  // 320 elements of the weight, and 20 scores. 64 + 36 + 100 at node 4.
  p.stages.push_back(program_with(R"(
mesh [dp=4]
%y = input f16[2, 32] as [8, 32] [dp, -]
%v = param f16[32, 10] as [32, 10] [-, -]
%scores = matmul %y, %v {m: dp} : f16[2, 10] as [8, 10] [dp, -]
%z = relu %scores {i0: dp} : f16[2, 10] as [8, 10] [dp, -]
backward:
%ds = relu_grad %z, %scores {i0: dp} : f16[2, 10] as [8, 10] [dp, -]
output %ds
)",
                                  {{BufferKind::parameter, 640, 1, -1, 5, "v"},
                                   {BufferKind::activation, 64, 1, 0, 4, "y"},
                                   {BufferKind::workspace, 36, 1, 2, 4, "scores"},
                                   {BufferKind::gradient, 100, 1, 4, 4}}));
  p.pipelining = {.stages = 2, .micro_batches = 3};
  p.crossings.push_back({.channel = 1,
                         .from = 0,
                         .to = 1,
                         .sent = p.stage(0).graph.find("y"),
                         .received = p.stage(1).graph.find("y")});
  return p;
}

/// In the order of the kinds: parameters, states, gradients, activations, communication, workspace.
using Want = std::vector<BytesByKind>;

TEST(FrameworkMemory, of_megatron_has_buckets_groups_gradients_scores_and_slack) {
  const std::int64_t buckets = 2500 * million, group = 500 * million;
  // Stage 0 is in groups over dp, tp and the stages: gradients take 8 bytes an element, a fifth of 600 is slack.
  // Stage 1 is in groups over dp and the stages: 4 bytes an element, 5 bytes a score, a fifth of 64 + 36 + 100.
  const Want want{{512, 2048, 8 * 256, 600, buckets + 3 * group, 120},
                  {640, 0, 4 * 320, 64, buckets + 2 * group, 36 + 5 * 20 + 40}};
  EXPECT_EQ(framework_memory(small_pipeline(), framework_called("megatron")), want);
  EXPECT_EQ(framework_memory(small_pipeline(), framework_called("megatron-deepspeed")), want);
}

TEST(FrameworkMemory, of_fsdp_has_groups_and_slack) {
  const std::int64_t group = 500 * million;
  EXPECT_EQ(framework_memory(small_pipeline(), framework_called("fsdp")),
            (Want{{512, 2048, 1000 + 400, 600, 3 * group, 30}, {640, 0, 100, 64, 2 * group, 36 + 5}}));
}

TEST(FrameworkMemory, of_mindspore_has_groups_and_slack) {
  const std::int64_t group = 400 * million;
  const Want want{{512, 2048, 1000 + 400, 600, 3 * group, 12}, {640, 0, 100, 64, 2 * group, 36 + 2}};
  EXPECT_EQ(framework_memory(small_pipeline(), framework_called("mindspore")), want);
  EXPECT_EQ(framework_memory(small_pipeline(), framework_called("mindformers")), want);
}

/// Gradients lie in buffers of their own, 4 bytes an element of bf16 and 2 of fp16, and nowhere else.
TEST(FrameworkMemory, of_megatron_lm_has_main_gradients_and_a_padded_vocabulary) {
  const std::int64_t fixed = 84 << 20;
  // No weight has a dim of as many elements as there are classes but that of stage 1: 32 x 10 become 32 x 128. So do
  // scores, of 2 bytes, and 2 bytes more of each of them. On stage 0 most is there in the forward, with what it sends.
  const std::int64_t padded = 32 * 128, scores = 2 * 128;
  EXPECT_EQ(framework_memory(small_pipeline(), framework_called("megatron-lm")),
            (Want{{512, 2048, 4 * 256, 600, fixed + 70, 0},
                  {2 * padded, 0, 2 * padded, 64, fixed, 36 + 2 * scores + 2 * (scores - 20)}}));
}

/// Chunks of an interleaved schedule are on the same devices, whose buckets and groups there are once. Of stage 1 the last
/// chunk alone has scores.
TEST(FrameworkMemory, of_chunks_adds_up_on_their_devices) {
  Pipeline p = small_pipeline();
  const std::vector<Program> stages = p.stages;
  p.stages.insert(p.stages.end(), stages.begin(), stages.end());
  p.crossings.push_back(p.crossings.front());
  p.crossings.back().from = 2, p.crossings.back().to = 3;
  p.pipelining.schedule = Schedule::interleaved(2);
  p.pipelining.micro_batches = 2;
  const std::int64_t group = 500 * million;
  // Each chunk keeps what its forward leaves until its backward, for each micro-batch: on stage 0 two of both chunks, on
  // stage 1 those that have run.
  const std::vector<BytesByKind> bytes = framework_memory(p, framework_called("fsdp"));
  EXPECT_EQ(bytes[0], (BytesByKind{2 * 512, 2 * 2048, 2 * 1000 + 400, 4 * 300, 3 * group, 60}));
  EXPECT_EQ(bytes[1], (BytesByKind{2 * 640, 0, 100, 3 * 64, 2 * group, 3 * 36 + 15}));
}

/// Nothing is negative, whatever the arena has besides; what a device has is the sum of all kinds.
TEST(FrameworkMemory, is_what_an_evaluation_tells_by_kind) {
  for (std::uint64_t seed = 0; seed < testing::draws(40); ++seed) {
    const testing::DrawnPipeline drawn = testing::drawn_pipeline(seed);
    const Cluster cluster = cluster_called(fmt::format("a100-80g:{}", drawn.pipeline.rank_count()));
    for (const Framework& framework : frameworks()) {
      const Estimate e = evaluate(drawn.pipeline, cluster, {.framework = framework.name}).estimate;
      for (const Estimate& stage : stages_of(e)) {
        EXPECT_EQ(stage.arena_bytes, total_of(stage.memory.bytes)) << framework.name << " " << drawn.what;
        EXPECT_LE(stage.arena_bytes, e.arena_bytes) << drawn.what;
        for (const std::int64_t bytes : stage.memory.bytes)
          EXPECT_GE(bytes, 0) << framework.name << " " << drawn.what;
      }
    }
  }
}

}  // namespace
}  // namespace shardwright
