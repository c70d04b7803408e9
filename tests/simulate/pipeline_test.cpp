// What a pipeline's step is estimated to take: bubbles and what crosses between stages.

#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/estimate.h"
#include "shardwright/simulate/simulation.h"

namespace shardwright {
namespace {

Pipeline compiled(const std::string& model, const Pipelining& pipelining, const OptimizerChoice& optimizer,
                  int devices = 0) {
  Model m = build_model(model, {.global_batch = {}, .loss = "", .micro_batches = pipelining.micro_batches});
  add_train_step(m.graph, m.loss, optimizer);
  m.graph.outputs.resize(1);
  return compile_pipeline(m.graph,
                          make_plan(m.graph, {.model = model,
                                              .devices = devices ? devices : pipelining.stages,
                                              .parallel = Parallel::data_parallel,
                                              .constraints = constraints_of({.pipelining = pipelining})}));
}

const OptimizerChoice sgd{"sgd", {{"rate", 0.01}}};

/// A forward takes 1 s, a backward 2 s, each part of one that is cut 1 s; what is received is read at once, and sent in the
/// end.
TimedStep equally_timed(RankStep step) {
  TimedStep out;
  const bool is_cut =
      std::ranges::any_of(step.sections, [](const Section& s) { return s.phase == Phase::weights; });
  for (Section& section : step.sections) {
    std::vector<Instruction> list;
    const auto cross = [&](Act act) {
      for (const Instruction& i : section.instructions)
        if (i.act == act && step.transfer(i).crossing >= 0) list.push_back(i);
    };
    cross(Act::finish);
    list.push_back({Act::compute});
    std::vector<double>& seconds = out.sections.emplace_back().seconds;
    seconds.resize(list.size(), 0);
    seconds.back() = section.phase == Phase::update ? 0 : section.phase == Phase::backward && !is_cut ? 2 : 1;
    cross(Act::start);
    seconds.resize(list.size(), 0);
    section.instructions = std::move(list);
  }
  out.transfers.resize(step.transfers.size());
  out.step = std::move(step);
  return out;
}

/// That crosses at once.
std::vector<TimedCrossing> at_once(const Pipeline& p) {
  std::vector<TimedCrossing> out;
  for (const PlacedCrossing& c : p.crossings)
    out.push_back({p.pipelining.stage_of(c.from), p.pipelining.stage_of(c.to), {}});
  return out;
}

double end_of(const std::vector<TimedStep>& ranks, const std::vector<TimedCrossing>& crossings) {
  std::vector<const TimedStep*> told;
  for (const TimedStep& rank : ranks) told.push_back(&rank);
  double end = 0;
  for (const SimulatedRank& rank : simulate(told, crossings)) end = std::max(end, rank.end);
  return end;
}

/// S equal stages work M of M + S - 1 turns (GPipe, Huang et al. 2019; the same for 1F1B).
TEST(PipelineEstimate, has_the_bubbles_that_are_known) {
  for (int stages : {2, 4})
    for (int micro_batches : {4, 8, 16})
      for (const Schedule& schedule : {Schedule::gpipe(), Schedule::one_forward_one_backward()}) {
        SCOPED_TRACE(
            fmt::format("{} stages, {} micro-batches, {}", stages, micro_batches, name_of(schedule)));
        const Pipeline p = compiled(
            fmt::format("llama:layers=16,hidden=256,heads=4,ffn=688,vocab=32,seq=64,batch={}", micro_batches),
            {schedule, stages, micro_batches}, sgd);
        const Estimate e = estimate(p, cluster_called(fmt::format("cpu:{}", stages)));
        const double known = (stages - 1.0) / (micro_batches + stages - 1.0);
        EXPECT_NEAR(e.bubble_seconds / e.step_seconds(), known, 0.03);
      }
}

/// Where S divides M: (S - 1) / (V M) of the time in which a stage works (Narayanan et al., 2021).
TEST(Simulation, interleaved_chunks_shorten_the_bubble) {
  for (int stages : {2, 3, 4})
    for (int chunks : {1, 2, 3})
      for (int micro_batches : {stages, 2 * stages, 3 * stages}) {
        SCOPED_TRACE(fmt::format("{} stages of {} chunks, {} micro-batches", stages, chunks, micro_batches));
        const Pipeline p =
            compiled(fmt::format("ffn:batch={},widths=8-8-8-8-8-8-8-8-8-8-8-8-8", micro_batches),
                     {Schedule::interleaved(chunks), stages, micro_batches}, sgd);
        std::vector<TimedStep> ranks;
        for (RankStep& step : steps_of_stages(p)) ranks.push_back(equally_timed(std::move(step)));
        const double work = 3 * chunks * micro_batches;
        const double bubble = end_of(ranks, at_once(p)) - work;
        EXPECT_DOUBLE_EQ(bubble / work, (stages - 1.0) / (chunks * micro_batches));
      }
}

/// Of the steps that ranks run, with F = I = W = 1: what tests/plan/schedule_times_test.cpp says of their tasks.
TEST(Simulation, waits_as_schedules_whose_backward_is_cut_do) {
  for (const auto& [name, idle_of] : std::initializer_list<std::pair<const char*, double (*)(int)>>{
           {"1f1b", [](int p) { return 3.0 * (p - 1); }},
           {"zero-bubble", [](int p) { return p - 1.0; }},
           {"zero-bubble:2", [](int) { return 0.0; }},
           {"zb-v", [](int) { return 0.0; }}})
    for (int stages : {2, 3, 4, 8})
      for (int micro_batches : {2 * stages, 20}) {
        SCOPED_TRACE(fmt::format("{}, {} stages, {} micro-batches", name, stages, micro_batches));
        const Pipeline p =
            compiled(fmt::format("ffn:batch={},widths=8-8-8-8-8-8-8-8-8-8-8-8-8-8-8-8-8", micro_batches),
                     {schedule_called(name), stages, micro_batches}, sgd);
        std::vector<TimedStep> ranks;
        for (RankStep& step : steps_of_stages(p)) ranks.push_back(equally_timed(std::move(step)));
        std::vector<const TimedStep*> told;
        for (const TimedStep& rank : ranks) told.push_back(&rank);
        double most = 0;
        for (const SimulatedRank& rank : simulate(told, at_once(p), {.with_events = true})) {
          double begin = -1, end = 0, busy = 0;
          for (const SimulatedEvent& e : rank.events) {
            if (e.instruction.act != Act::compute || e.end == e.begin) continue;
            if (begin < 0) begin = e.begin;
            end = e.end, busy += e.end - e.begin;
          }
          most = std::max(most, end - begin - busy);
        }
        EXPECT_DOUBLE_EQ(most, idle_of(stages));
      }
}

TEST(PipelineEstimate, has_smaller_bubbles_with_more_chunks) {
  double before = 1;
  for (int chunks : {1, 2, 4}) {
    const Pipeline p = compiled("llama:layers=16,hidden=256,heads=4,ffn=688,vocab=32,seq=64,batch=8",
                                {Schedule::interleaved(chunks), 2, 8}, sgd);
    const Estimate e = estimate(p, cluster_called("cpu:2"));
    EXPECT_LT(e.bubble_seconds, 0.7 * before * e.step_seconds());
    EXPECT_GT(e.bubble_seconds, 0);
    EXPECT_EQ(e.stages.size(), 2U);
    EXPECT_EQ(e.arena_bytes, std::max(p.arena_bytes(0), p.arena_bytes(1)));
    before = e.bubble_seconds / e.step_seconds();
  }
}

/// On links that take a second to start: forward and backward; then, when what the last stage sent is over and its update
/// begins, its part of the norm of all gradients, and the norm back. A tied weight and its gradient cross beside forward
/// and backward.
TEST(PipelineEstimate, counts_what_crosses) {
  Cluster cluster = cluster_called("cpu:2");
  const auto seconds_of_links = [&](const std::string& model, const OptimizerChoice& optimizer) {
    const Pipeline p = compiled(model, {.stages = 2}, optimizer);
    cluster.links.back().latency_seconds = 0;
    const double none = estimate(p, cluster).step_seconds();
    cluster.links.back().latency_seconds = 1;
    return estimate(p, cluster).step_seconds() - none;
  };
  const std::string sizes = "layers=2,hidden=32,heads=2,vocab=32,seq=8,batch=4";
  OptimizerChoice clipped = sgd;
  clipped.clip_norm = 1;
  EXPECT_NEAR(seconds_of_links("llama:ffn=64," + sizes, sgd), 2, 1e-3);
  EXPECT_NEAR(seconds_of_links("gpt:" + sizes, sgd), 2, 1e-3);
  EXPECT_NEAR(seconds_of_links("llama:ffn=64," + sizes, clipped), 4, 1e-3);
}

/// On a link that takes a second for the table: to the other stage in front of the step, and back as a gradient.
TEST(PipelineEstimate, counts_tied_weights) {
  const Pipeline p = compiled("gpt:layers=2,hidden=32,heads=2,vocab=4096,seq=8,batch=4", {.stages = 2}, sgd);
  Cluster cluster = cluster_called("cpu:2");
  const double fast = estimate(p, cluster).step_seconds();
  cluster.links.back().bytes_per_second = 4096 * 32 * 4 / cluster.link_efficiency;
  EXPECT_NEAR(estimate(p, cluster).step_seconds() - fast, 2, 0.05);
}

/// Of two nodes of three devices the second of three stages has one in each.
TEST(PipelineEstimate, prices_each_stage_by_the_links_of_its_devices) {
  const Pipeline p = compiled("ffn:batch=8,widths=64-64-64-64", {.stages = 3}, sgd, 6);
  const Estimate together = estimate(p, cluster_called("a100-80g:1x6"));
  const Estimate apart = estimate(p, cluster_called("a100-80g:2x3"));
  for (const std::size_t s : {0, 2})
    EXPECT_DOUBLE_EQ(apart.stages[s].communication_seconds, together.stages[s].communication_seconds) << s;
  EXPECT_GT(apart.stages[1].communication_seconds, 1.05 * together.stages[1].communication_seconds);
  EXPECT_THROW(estimate(p, cluster_called("a100-80g:5")), Error);
}

}  // namespace
}  // namespace shardwright
