// Forecasts of a step beside the program that it becomes: of time where what goes once a step takes most of it, and of memory
// where backwards are cut in two, devices are of several kinds, and frameworks count it.

#include "shardwright/search/automatic/step_seconds.h"

#include <gtest/gtest.h>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/automatic/candidates.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {
namespace {

using namespace automatic;

/// Two nodes of four devices with a network of a twentieth between them.
Cluster slow_network() {
  Cluster out = cluster_called("a100-80g:2x4");
  out.links.back().bytes_per_second /= 20, out.links.back().latency_seconds *= 4;
  return out;
}

/// In bf16, with AdamW.
StepOf step_of_model(std::string model, int samples) {
  return [=](int micro_batches) {
    Model m = build_model(
        model,
        {.global_batch = samples, .precision = *precision_called("bf16"), .micro_batches = micro_batches});
    add_train_step(m.graph, m.loss, {.name = "adamw"});
    return std::move(m.graph);
  };
}

/// A tied decoder of 32 samples.
Graph decoder(int micro_batches) {
  return step_of_model("gpt:layers=8,hidden=1024,heads=16,vocab=8192,seq=128", 32)(micro_batches);
}

struct Beside {
  Forecast forecast;
  Estimate program;
};

/// `words` as they are forecast, and the program of the same stages with the same layers computed again.
Beside beside(const PlanRequest& request, const StepOf& step, const char* words) {
  Tables tables(step, request);
  Bounds bounds(tables, 1);
  Candidates candidates(tables, bounds, *request.cluster, usable_bytes(*request.cluster));
  Constraints s = parse_constraints({"test", words});
  if (!s.recompute) s.recompute = RecomputeMode::none;
  const auto c = candidates.forecast(s);
  if (!c) throw error("{}: {}", words, tables.why());
  const Graph graph = step(*s.micro_batches);
  PlanRequest asked = with_candidate(request, *c, graph, tables.row(s));
  asked.parallel = Parallel::semi_auto_parallel;
  return {c->forecast, evaluate(compile_pipeline(graph, make_plan(graph, asked), {.verifies = false}),
                                *request.cluster, {.framework = settings_of(request).framework})
                           .estimate};
}

PlanRequest request_for(Cluster cluster, int devices) {
  PlanRequest out{.model = "test", .cluster = std::move(cluster)};
  out.devices = devices;
  out.verifies = false;
  return out;
}

/// The forecast of `words` errs by `most_error`, and so many times its bound is no more than the program takes.
void expect_near(const PlanRequest& request, const StepOf& step, const char* words, double most_error,
                 double times = 1) {
  SCOPED_TRACE(words);
  const auto [forecast, program] = beside(request, step, words);
  EXPECT_NEAR(forecast.seconds / program.step_seconds(), 1, most_error);
  EXPECT_LE(times * forecast.least_seconds, program.step_seconds());
}

/// Before, the reduction of gradients was counted with every micro-batch, and what tied stages send each other not at all.
TEST(StepSeconds, are_those_of_the_program_where_gradients_take_most) {
  const PlanRequest request = request_for(slow_network(), 8);
  for (const char* words : {"dp=8,tp=1,pp=1,micro_batches=1,zero=1", "dp=8,tp=1,pp=1,micro_batches=4,zero=0",
                            "dp=8,tp=1,pp=1,micro_batches=4,zero=1", "dp=4,tp=2,pp=1,micro_batches=8,zero=1",
                            "dp=4,tp=1,pp=2,micro_batches=4,zero=1,schedule=1f1b",
                            "dp=4,tp=1,pp=2,micro_batches=4,zero=1,schedule=interleaved:2",
                            "dp=2,tp=1,pp=4,micro_batches=8,zero=1,schedule=1f1b"}) {
    SCOPED_TRACE(words);
    const auto [forecast, program] = beside(request, decoder, words);
    EXPECT_NEAR(forecast.seconds / program.step_seconds(), 1, 0.15);
    EXPECT_LE(0.99 * forecast.hopeful_seconds, program.step_seconds());
  }
}

/// Weights are gathered for the forward and again for the backward: both were counted with the forward, which does not hide them.
TEST(StepSeconds, are_those_of_the_program_where_weights_are_gathered) {
  const StepOf step = step_of_model("gpt:layers=12,hidden=2048,heads=32,vocab=8192,seq=1024", 256);
  const PlanRequest request = request_for(cluster_called("a100-80g:64"), 64);
  const std::pair<const char*, double> most_errors[] = {
      {"dp=64,tp=1,pp=1,micro_batches=1,zero=3", 0.02},
      {"dp=32,tp=2,pp=1,micro_batches=1,zero=3,sequence_parallel=1", 0.06}};  // both share links
  for (const auto& [words, most_error] : most_errors) {
    SCOPED_TRACE(words);
    const auto [forecast, program] = beside(request, step, words);
    EXPECT_NEAR(forecast.seconds / program.step_seconds(), 1, most_error);
    EXPECT_LE(0.99 * forecast.hopeful_seconds, program.step_seconds());
  }
}

/// Each gather was counted as if it started by itself: of small weights on many devices what no step was to undercut was 1.8 times what
/// programs take.
TEST(StepSeconds, are_those_of_the_program_where_many_ranks_gather) {
  constexpr int devices = 512;
  const StepOf step = step_of_model(
      "llama:layers=16,hidden=1024,heads=16,kv_heads=4,ffn=2048,vocab=8192,seq=512", 4 * devices);
  const PlanRequest request = request_for(cluster_called("a100-80g:512"), devices);
  for (const char* words :
       {"dp=512,tp=1,pp=1,micro_batches=1,zero=3", "dp=512,tp=1,pp=1,micro_batches=4,zero=3"})
    expect_near(request, step, words, 0.08);
}

/// The update of a parameter that neither replica, stage nor micro-batch waits for goes on in the kernel that makes its gradient; pieces, which
/// receive and send, had it behind their backward: 25 % too long on one device, with a third of the memory too much.
TEST(StepSeconds, are_those_of_the_program_where_nobody_waits_for_gradients) {
  const StepOf step = step_of_model("gpt:layers=10,hidden=2048,heads=16,vocab=8192,seq=1024", 2);
  for (int shards : {1, 4}) {
    SCOPED_TRACE(shards);
    const PlanRequest request = request_for(cluster_called(fmt::format("h100:{}", shards)), shards);
    const std::string words = fmt::format("dp=1,tp={},pp=1,micro_batches=1", shards);
    const auto [forecast, program] = beside(request, step, words.c_str());
    EXPECT_NEAR(forecast.seconds / program.step_seconds(), 1, 0.03);
    EXPECT_NEAR(forecast.bytes / static_cast<double>(program.arena_bytes), 1, 0.03);
  }
}

/// Of a backward in two, what its halves take, and which transfers each of them hides: where halves counted as even, v-min with all layers
/// computed again was 27 % too short, and where sums of gradients hid behind both, level 3 was 12 % too short.
TEST(StepSeconds, are_those_of_the_program_where_backwards_are_cut) {
  const StepOf step =
      step_of_model("llama:layers=16,hidden=4096,heads=32,kv_heads=8,ffn=14336,vocab=32000,seq=2048", 64);
  const PlanRequest request = request_for(cluster_called("h100:32"), 32);
  for (const char* words :
       {"zero=1,recompute=full,schedule=v-min", "zero=1,recompute=none,schedule=v-min",
        "zero=1,recompute=selected,schedule=zero-bubble", "zero=3,recompute=selected,schedule=zb-v",
        "zero=3,recompute=none,schedule=v-half", "zero=3,recompute=full,schedule=zero-bubble"})
    expect_near(request, step, fmt::format("dp=8,tp=1,pp=4,micro_batches=8,{}", words).c_str(), 0.11);
}

/// What crosses between stages shares a way, and gradients of a tied table come as replicas have them: forecasts were up to 10 % too
/// short, of level 3 8 % too long and its bound 1 % above the program, that of interleaved:2 7 %.
TEST(StepSeconds, are_those_of_the_program_where_crossings_take_long) {
  const StepOf step = step_of_model("gpt:layers=8,hidden=4096,heads=64,vocab=8192,seq=1024", 256);
  Cluster cluster = cluster_called("a100-80g:2x8");
  cluster.links.back().bytes_per_second /= 20, cluster.links.back().latency_seconds *= 10;
  const PlanRequest request = request_for(std::move(cluster), 16);
  for (const char* words : {"dp=8,tp=1,pp=2,micro_batches=1,zero=0,schedule=1f1b",
                            "dp=8,tp=1,pp=2,micro_batches=2,zero=3,schedule=1f1b",
                            "dp=8,tp=1,pp=2,micro_batches=8,zero=3,schedule=zero-bubble:2",
                            "dp=8,tp=1,pp=2,micro_batches=8,zero=1,schedule=interleaved:2",
                            "dp=4,tp=1,pp=4,micro_batches=8,zero=3,schedule=interleaved:2",
                            "dp=8,tp=1,pp=2,micro_batches=8,zero=3,schedule=v-half",
                            "dp=4,tp=1,pp=4,micro_batches=8,zero=1,schedule=v-half"})
    expect_near(request, step, words, 0.04);
}

/// A first stage has all of its transfers in one half: where its gathers hid behind nothing, bounds were 5.6 % above programs.
TEST(StepSeconds, are_those_of_the_program_where_the_first_stage_is_long) {
  const StepOf step =
      step_of_model("llama:layers=15,hidden=4096,heads=32,kv_heads=8,ffn=14336,vocab=32000,seq=2048", 1024);
  Cluster cluster = cluster_called("h100:4x8");
  cluster.nodes = 16, cluster.devices_per_node = 2, cluster.links.front().devices = 2;
  cluster.links.back().devices = 32;
  const PlanRequest request = request_for(std::move(cluster), 32);
  for (const char* schedule : {"1f1b", "zero-bubble", "zero-bubble:2"})
    expect_near(request, step,
                fmt::format("dp=16,tp=1,pp=2,micro_batches=8,zero=3,schedule={}", schedule).c_str(), 0.08);
}

/// The pieces that share a table each summed its gradient over replicas before they added it up, and what the first piece leaves, the last to
/// be there, was hidden: 23 % too long in fp16, so that what no step was to undercut was, and 22 % too short in bf16.
TEST(StepSeconds, are_those_of_the_program_where_a_large_table_is_tied) {
  const StepOf step = step_of_model("gpt:layers=4,hidden=2048,heads=16,vocab=50304,seq=2048", 64);
  const PlanRequest request = request_for(cluster_called("v100-32g:256"), 256);
  for (const char* words :
       {"dp=32,tp=8,pp=1,micro_batches=1,zero=0", "dp=32,tp=8,pp=1,micro_batches=1,zero=1",
        "dp=32,tp=8,pp=1,micro_batches=1,zero=2", "dp=32,tp=8,pp=1,micro_batches=2,zero=1"})
    expect_near(request, step, words, 0.06);
}

/// What the first piece leaves its own backward hides, where it is all there is.
TEST(StepSeconds, are_those_of_the_program_where_all_is_one_piece) {
  const StepOf step = step_of_model("ffn:widths=8192-8000-8192-7936-8192-7744-1024", 16384);
  const PlanRequest request = request_for(cluster_called("a100-80g:8"), 8);
  for (const char* words : {"dp=8,tp=1,pp=1,micro_batches=1,zero=0", "dp=8,tp=1,pp=1,micro_batches=1,zero=1"})
    expect_near(request, step, words, 0.06, 0.99);
}

Graph plain_decoder(int micro_batches) {
  return step_of_model("llama:layers=8,hidden=512,heads=4,ffn=1376,vocab=512,seq=512", 32)(micro_batches);
}

/// What lies between the halves of a backward was counted for nothing: with layers computed again half of what there is.
TEST(ForecastBytes, are_those_of_the_program_whatever_the_schedule) {
  for (const char* cluster : {"a100-80g:4", "a100-80g:2+h100:2"})
    for (const char* schedule : {"1f1b", "zero-bubble", "zb-v", "v-half"})
      for (const char* more : {"none", "selected", "full"}) {
        const std::string words =
            fmt::format("dp=1,tp=1,pp=4,micro_batches=16,zero=0,schedule={},recompute={}", schedule, more);
        SCOPED_TRACE(fmt::format("{} {}", cluster, words));
        const auto [forecast, program] =
            beside(request_for(cluster_called(cluster), 4), plain_decoder, words.c_str());
        EXPECT_NEAR(forecast.bytes / static_cast<double>(program.arena_bytes), 1, 0.09);
      }
}

/// What is sent was not counted, and what lives within a task for each chunk.
TEST(ForecastBytes, are_those_of_the_program_where_devices_have_chunks) {
  for (const char* schedule : {"interleaved:2", "zb-v"})
    for (const char* more : {"none", "full"})
      for (int zero : {1, 3}) {
        const std::string words = fmt::format(
            "dp=2,tp=1,pp=2,micro_batches=8,zero={},schedule={},recompute={}", zero, schedule, more);
        SCOPED_TRACE(words);
        const auto [forecast, program] =
            beside(request_for(cluster_called("a100-80g:4"), 4), plain_decoder, words.c_str());
        EXPECT_NEAR(forecast.bytes / static_cast<double>(program.arena_bytes), 1, 0.09);
      }
}

TEST(ForecastBytes, are_those_of_frameworks) {
  for (const char* framework : {"megatron-lm", "megatron-bridge"})
    for (const char* words :
         {"dp=4,tp=1,pp=1,micro_batches=2,zero=0", "dp=4,tp=1,pp=1,micro_batches=2,zero=1",
          "dp=1,tp=1,pp=4,micro_batches=16,zero=0,schedule=1f1b",
          "dp=1,tp=1,pp=4,micro_batches=16,zero=0,schedule=zb-v",
          "dp=1,tp=1,pp=4,micro_batches=16,zero=0,schedule=zb-v,recompute=full"}) {
      SCOPED_TRACE(fmt::format("{} {}", framework, words));
      PlanRequest request = request_for(cluster_called("a100-80g:4"), 4);
      request.constraints.framework = std::string(framework);
      const auto [forecast, program] = beside(request, plain_decoder, words);
      const double fixed = 84 << 20;  // more than all else of so small a network
      EXPECT_NEAR((forecast.bytes - fixed) / (static_cast<double>(program.arena_bytes) - fixed), 1, 0.12);
    }
}

}  // namespace
}  // namespace shardwright
