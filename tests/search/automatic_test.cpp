// Whole plans: never slower than any structure that an expert could ask for, and whatever is fixed is kept.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/name_pattern.h"
#include "shardwright/frontend/model.h"
#include "shardwright/graph/text.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/automatic/structure.h"
#include "shardwright/simulate/evaluate.h"
#include "tests/support/draws.h"
#include "tests/support/onnx_decoder.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

StepOf step_of(const std::string& model, const Precision& precision = {}, const std::string& loss = "") {
  return [=](int micro_batches) {
    Model m = build_model(model, {.precision = precision, .loss = loss, .micro_batches = micro_batches});
    add_train_step(m.graph, m.loss, {.name = "adamw"});
    return std::move(m.graph);
  };
}

PlanRequest request_for(const std::string& cluster, std::optional<std::int64_t> cap = {}) {
  PlanRequest out{.model = "test", .cluster = cluster_called(cluster), .search = "auto"};
  out.devices = out.cluster->devices();
  out.options.memory_cap = cap;
  return out;
}

/// Without a look at the graph after each pass, which takes longer than the rest: hundreds are made here.
Evaluation judged(const StepOf& step, const Plan& plan, const PlanRequest& request) {
  return evaluate(compile_pipeline(step(plan.settings.pipelining.micro_batches), plan, {.verifies = false}),
                  *request.cluster, {.memory_cap = request.options.memory_cap});
}

/// As --set would have it.
std::optional<Evaluation> judged(const StepOf& step, const Constraints& s, const PlanRequest& request) {
  try {
    PlanRequest asked = automatic::with_structure(request, s);
    asked.parallel = Parallel::semi_auto_parallel;
    return judged(step, make_plan(step(s.micro_batches.value_or(1)), asked), request);
  } catch (const Error&) {
    return std::nullopt;  // a dim does not divide
  }
}

struct WholeCase {
  std::string name;
  std::string model;
  std::int64_t samples = 0;
  std::string cluster;
  double share = 0;          // of the memory that the fastest plan takes; 0: no limit
  bool keeps_batch = false;  // parts of it have other losses
  std::string fix = {};
};
void PrintTo(const WholeCase& c, std::ostream* out) { *out << c.name; }

class WholePlans : public ::testing::TestWithParam<WholeCase> {};

/// All structures that --set takes, each made into a program.
TEST_P(WholePlans, are_as_fast_as_the_best_of_the_grid) {
  const WholeCase& c = GetParam();
  const bool is_import = c.model == "import";  // of 482 operators
  const OnnxDecoder decoder{.layers = 12, .hidden = 512, .heads = 8, .vocab = 2048, .seq = 128};
  const std::string model = is_import ? onnx_decoder(scratch_folder(), decoder, 2) : c.model;
  const StepOf step = step_of(model, *precision_called("bf16"), is_import ? "cross_entropy" : "");
  PlanRequest request = request_for(c.cluster);
  if (!c.fix.empty()) request.constraints = parse_constraints({"--fix", c.fix});
  if (c.share > 0) {
    const Evaluation freely = judged(step, make_plan(step, request), request);
    request.options.memory_cap =
        static_cast<std::int64_t>(c.share * static_cast<double>(freely.estimate.arena_bytes));
  }
  const Plan plan = make_plan(step, request);
  const Evaluation found = judged(step, plan, request);
  std::vector<int> counts;
  for (int m = 1; m <= (c.keeps_batch ? 1 : c.samples); ++m)
    if (c.samples % m == 0) counts.push_back(m);
  std::optional<Evaluation> best;
  std::string which;
  double bound = *plan.lower_bound_seconds;
  for (const Constraints& s : automatic::structures_of(request, {c.samples, counts})) {
    const auto e = judged(step, s, request);
    if (!e) continue;
    if (e->fits()) {
      EXPECT_GE(e->estimate.step_seconds(), 0.99 * bound) << to_text(s);
    }
    if (best && !is_better(*e, *best)) continue;
    best = e;
    which = to_text(s);
  }
  ASSERT_TRUE(best);
  EXPECT_GE(found.fits(), best->fits()) << which;
  if (found.fits() != best->fits()) return;  // with a part of it on the host
  EXPECT_LE(found.estimate.step_seconds(), 1.01 * best->estimate.step_seconds()) << which;
}

/// SHARDWRIGHT_FULL=1: with more like some of them.
std::vector<WholeCase> whole_cases() {
  const std::string llama = "llama:layers=4,hidden=512,heads=8,ffn=1024,vocab=2048,seq=256,batch=4";
  std::vector<WholeCase> out{
      {"small_decoder_of_little_memory", "gpt:layers=4,hidden=256,heads=4,vocab=1024,seq=128,batch=4", 4,
       "a100-80g:4", 0.6},
      {"tied_decoder", "gpt:layers=6,hidden=256,heads=4,vocab=1024,seq=128,batch=4", 4, "a100-80g:2x2"},
      {"import", "import", 2, "cpu:4", 0, false, "recompute=none"},
      {"dense", "ffn:batch=64", 64, "a100-80g:4"},
      {"face", "face:backbone=resnet18,image=32,width=16,classes=20000,batch=16", 16, "a100-80g:8", 0, true}};
  if (!testing::is_full()) return out;
  out.push_back({"decoder", llama, 4, "a100-80g:4"});
  out.push_back({"decoder_of_little_memory", llama, 4, "a100-80g:4", 0.6});
  out.push_back(
      {"few_layers", "llama:layers=2,hidden=512,heads=8,ffn=1024,vocab=2048,seq=256,batch=8", 8, "h100:8"});
  out.push_back({"convolutions", "resnet18:image=64,batch=16", 16, "v100-32g:2x4", 0, true});
  return out;
}

INSTANTIATE_TEST_SUITE_P(all, WholePlans, ::testing::ValuesIn(whole_cases()),
                         [](const auto& c) { return c.param.name; });

/// All of the structure of `plan`.
Constraints fixed_as(const Plan& plan) {
  const auto size = [&](std::string_view name) {
    int out = 1;
    for (const auto& axis : plan.stages.front().meshes.front().axes)
      if (axis.name.starts_with(name)) out *= axis.size;
    return out;
  };
  const Settings& s = plan.settings;
  return {.degrees = {{"dp", size("dp")}, {"tp", size("tp")}, {"pp", s.pipelining.stages}},
          .micro_batches = s.pipelining.micro_batches,
          .zero = s.optimizer_parallel.level};
}

const std::string llama = "llama:layers=4,hidden=64,heads=4,ffn=128,vocab=256,seq=32,batch=16";

/// Layers are found by what they compute: a decoder of another framework's operators gets the plan of the one by name, and
/// so does one whose values are called otherwise. SHARDWRIGHT_FULL=1 asks on every cluster for all that is fixed.
TEST(WholePlan, knows_no_model_by_its_name) {
  const auto structure_of = [](const Plan& plan) {
    const Settings& s = plan.settings;
    return fmt::format("{} in {} stages, {} micro-batches, {}, level {}, recompute {}",
                       to_text(plan.stages.front().meshes.front()), s.pipelining.stages,
                       s.pipelining.micro_batches, name_of(s.pipelining.schedule), s.optimizer_parallel.level,
                       name_of(s.recompute.mode));
  };
  const Precision bf16 = *precision_called("bf16");
  const StepOf named = step_of("gpt:layers=6,hidden=1024,heads=16,vocab=8192,seq=512,batch=16", bf16);
  const StepOf renamed = [&](int micro_batches) {
    Graph out = named(micro_batches);
    for (std::size_t v = 0; v < out.values.size(); ++v) out.values[v].name = fmt::format("v{}", v);
    return out;
  };
  const OnnxDecoder decoder{.layers = 6, .hidden = 1024, .heads = 16, .vocab = 8192, .seq = 512};
  const StepOf import = step_of(onnx_decoder(scratch_folder(), decoder, 16), bf16, "cross_entropy");
  unsigned k = 0;
  for (const char* cluster : {"a100-80g:8", "h100:16"})
    for (const char* fix : {"micro_batch=1", "tp=2", "recompute=full"}) {
      if (!testing::is_asked(k++, 3)) continue;
      SCOPED_TRACE(fmt::format("{}, {}", cluster, fix));
      PlanRequest request = request_for(cluster);
      request.constraints = parse_constraints({"--fix", fix});
      const Plan want = make_plan(named, request), same = make_plan(import, request);
      EXPECT_EQ(structure_of(make_plan(renamed, request)), structure_of(want));
      // What other operators take is not the same to the last nanosecond, and structures may be as fast as each other.
      const double seconds = judged(import, same, request).estimate.step_seconds();
      const auto recompute = request.constraints.recompute;
      request.constraints = fixed_as(want);
      request.constraints.recompute = recompute;
      const Evaluation as_named = judged(import, make_plan(import, request), request);
      EXPECT_LE(seconds, 1.02 * as_named.estimate.step_seconds()) << structure_of(same);
      EXPECT_NEAR(seconds, as_named.estimate.step_seconds(), 0.02 * seconds) << structure_of(want);
    }
}

TEST(WholePlan, keeps_what_is_fixed) {
  for (const char* fix :
       {"pp=2", "tp=4", "dp=8", "dp=2,tp=2,pp=2", "micro_batch=1,dp=2", "zero=2,dp=4", "recompute=full",
        "pp=2,schedule=gpipe", "tp=2,sequence_parallel=1", "tp=2,sequence_parallel=0"}) {
    SCOPED_TRACE(fix);
    PlanRequest request = request_for("a100-80g:8");
    request.constraints = parse_constraints({"--fix", fix});
    const Plan plan = make_plan(step_of(llama), request);
    const Constraints& want = request.constraints;
    const Settings& has = plan.settings;
    EXPECT_EQ(has.pipelining.stages, want.degrees.said("pp").value_or(has.pipelining.stages));
    EXPECT_EQ(has.optimizer_parallel.level, want.zero.value_or(has.optimizer_parallel.level));
    EXPECT_EQ(has.recompute.mode, want.recompute.value_or(Again(has.recompute.mode)).mode);
    EXPECT_EQ(has.pipelining.schedule, want.schedule.value_or(has.pipelining.schedule));
    const Constraints all = fixed_as(plan);
    for (const char* name : {"dp", "tp"})
      EXPECT_EQ(all.degrees.of(name), want.degrees.said(name).value_or(all.degrees.of(name)));
    const std::int64_t micro_batch = 16 / has.pipelining.micro_batches / all.degrees.of("dp");
    EXPECT_EQ(micro_batch, want.micro_batch.value_or(micro_batch));
  }
}

/// Of what is said of operators each structure is planned: of layers that are said to differ, too.
TEST(WholePlan, keeps_operators_that_are_fixed) {
  unsigned k = 0;
  for (const char* fix : {"layers.*.ffn.up.matmul={i0: dp}", "layers.2.ffn.up.matmul={n: dp.tp}",
                          "head.matmul={n: tp}", "tp=2,layers.*.norm1={i0: dp, i1: tp}"}) {
    SCOPED_TRACE(fix);
    PlanRequest request = request_for("a100-80g:4");
    request.constraints = parse_constraints({"--fix", fix});
    const StepOf step = step_of(llama);
    const Plan plan = make_plan(step, request);
    const auto& [name, split] = *request.constraints.operators.begin();
    int found = 0;
    for (const StagePlan& stage : plan.stages)
      for (const PlannedOperator& op : stage.operators) {
        if (!matches(name, op.name)) continue;
        ++found;
        for (const auto& [loop, axes] : op.strategy)
          EXPECT_TRUE(axes.empty() || split.contains(loop)) << op.name;
        const bool is_split = plan.cluster.devices() > plan.settings.pipelining.stages;  // alone all is whole
        if (is_split) {
          EXPECT_EQ(to_text(op.reason), fmt::format("{}={}", name, to_text(split)));
        }
      }
    EXPECT_EQ(found, is_pattern(name) ? 4 : 1);
    const Evaluation has = judged(step, plan, request);
    for (const Constraints& s : automatic::structures_of(request, {16, {1, 2, 4}})) {
      if (!testing::is_asked(k++, 7, 6)) continue;
      if (const auto other = judged(step, s, request); other && other->fits()) {
        EXPECT_LE(has.estimate.step_seconds(), 1.01 * other->estimate.step_seconds()) << to_text(s);
      }
    }
  }
}

TEST(WholePlan, refuses_what_no_structure_has) {
  PlanRequest request = request_for("a100-80g:8");
  for (const char* fix : {"dp=3", "dp=4,tp=4", "pp=16", "micro_batch=5"}) {
    request.constraints = parse_constraints({"--fix", fix});
    EXPECT_THROW(make_plan(step_of(llama), request), Infeasible) << fix;
  }
  request.constraints = {};
  request.constraints =
      parse_annotations(R"({"layers.0.attention.query.matmul": {"in": [[1, 1], [1, 8]]}})", "test");
  EXPECT_THROW(make_plan(step_of(llama), request), Error);
}

/// Of a network that sums over the batch, parts have other statistics.
TEST(WholePlan, leaves_the_batch_whole_where_parts_have_other_losses) {
  PlanRequest request = request_for("a100-80g:4");
  const std::string model = "resnet18:image=32,classes=8,batch=16";
  EXPECT_EQ(make_plan(step_of(model), request).settings.pipelining.micro_batches, 1);
  request.constraints.micro_batches = 2;
  EXPECT_EQ(make_plan(step_of(model), request).settings.pipelining.micro_batches, 2);
}

/// Also of networks whose pieces would be others for parts of the batch.
TEST(WholePlan, is_the_same_every_time) {
  std::vector<std::string> models{llama, "ffn"};
  if (testing::is_full()) models.push_back("resnet18:image=32,classes=8,batch=16");
  for (const std::string& model : models) {
    const PlanRequest request = request_for("a100-80g:4");
    Plan a = make_plan(step_of(model), request), b = make_plan(step_of(model), request);
    a.search_seconds = b.search_seconds = 0;
    EXPECT_EQ(to_json(a), to_json(b)) << model;
  }
}

/// The front of a pipeline may take longer: the others wait for it anyway.
TEST(WholePlan, cuts_stages_for_the_end_of_the_step) {
  PlanRequest request = request_for("cpu:2");
  request.constraints = parse_constraints({"--fix", "pp=2,dp=1,tp=1,recompute=none"});
  request.constraints.micro_batches = 2;
  const StepOf step = step_of("llama:layers=8,hidden=128,ffn=256,vocab=64,heads=4,seq=64,batch=8");
  const Plan plan = make_plan(step, request);
  PlanRequest even = request;
  even.search = "recursive";
  even.constraints =
      merged(even.constraints, constraints_of({.pipelining = {Schedule::one_forward_one_backward(), 2, 2}}));
  EXPECT_LT(judged(step, plan, request).estimate.step_seconds(),
            judged(step, make_plan(step(2), even), request).estimate.step_seconds());
}

/// What cannot be made does not end the search.
TEST(WholePlan, passes_over_chunks_that_skip_stages) {
  PlanRequest request = request_for("a100-80g:4");
  request.constraints.degrees.set("pp", 2);
  request.constraints.micro_batches = 2;
  const std::string model = "resnet18:image=16,width=8,classes=8,batch=8";
  EXPECT_EQ(make_plan(step_of(model), request).settings.pipelining.stages, 2);
}

/// A sample alone has no replicas to compare with.
TEST(WholePlan, splits_a_single_sample) {
  const Plan plan = make_plan(step_of("llama:layers=2,hidden=64,heads=8,ffn=128,vocab=256,seq=32,batch=1"),
                              request_for("h100:128"));
  EXPECT_EQ(plan.devices(), 128);
}

/// Some imports are for one number of samples: there are no parts of their batch, neither to plan nor to measure.
TEST(WholePlan, plans_what_has_no_parts_of_its_batch) {
  const StepOf any = step_of("ffn:batch=32");
  const StepOf whole = [&](int micro_batches) {
    if (micro_batches > 1) throw error("a batch of {} but the file is for 32", 32 / micro_batches);
    return any(1);
  };
  for (const char* cluster : {"cpu:3", "cpu:4"})
    EXPECT_EQ(make_plan(whole, request_for(cluster)).settings.pipelining.micro_batches, 1) << cluster;
  PlanRequest parts = request_for("cpu:4");
  parts.constraints.micro_batches = 2;
  EXPECT_THROW(make_plan(whole, parts), Infeasible);
}

/// As an import says it: what is repeated for each sample is not there for one. Layers are alike or each of another width.
StepOf with_a_token_for_each_sample(std::int64_t samples, bool are_alike) {
  return [=](int micro_batches) {
    const std::int64_t b = samples / micro_batches;
    std::string text = "%t = param f32[1,1,8]\n";
    if (b > 1) text += fmt::format("%r = broadcast %t (shape=[{},1,8]) : f32[{},1,8]\n", b, b);
    text += fmt::format("%x = input f32[{},6,8]\n%s = sigmoid %x\n%h0 = concat %{}, %s (dim=1)\n", b,
                        b > 1 ? "r" : "t");
    const auto width = [&](int l) { return are_alike ? 8 : 8 + l; };
    for (int l = 0; l < 4; ++l)
      text += fmt::format("%w{0} = param f32[{2},{3}]\n%m{0} = matmul %h{0}, %w{0}\n%h{1} = relu %m{0}\n", l,
                          l + 1, width(l), width(l + 1));
    Graph graph = parse_graph(text + "%loss = reduce_mean %h4\noutput %loss\n");
    add_train_step(graph, graph.outputs.front(), {.name = "sgd"});
    return graph;
  };
}

TEST(WholePlan, has_as_many_parts_as_samples_where_one_has_fewer_operators) {
  for (bool are_alike : {true, false})
    for (const char* fix : {"micro_batch=1,pp=2", "micro_batch=1,pp=1,tp=1"}) {
      PlanRequest request = request_for("cpu:2");
      request.constraints = parse_constraints({"--fix", fix});
      const StepOf step = with_a_token_for_each_sample(8, are_alike);
      const Plan plan = make_plan(step, request);
      const int parts = plan.settings.pipelining.micro_batches;
      EXPECT_EQ(parts, 8 / (plan.devices() / plan.settings.pipelining.stages)) << fix;
      EXPECT_GT(judged(step, plan, request).estimate.arena_bytes, 0) << fix;  // it is compiled
    }
}

TEST(WholePlan, of_what_has_no_structure_keeps_what_is_fixed) {
  PlanRequest request = request_for("a100-80g:7");
  request.constraints = parse_constraints({"--fix", "pp=7"});
  const Plan plan = make_plan(step_of("gpt:layers=4,hidden=32,heads=4,vocab=48,seq=8,batch=3"), request);
  EXPECT_EQ(plan.settings.pipelining.stages, 7);
  EXPECT_FALSE(plan.lower_bound_seconds);
}

/// A loss alone takes no time on the last device, and of 6 samples there are no 8 parts.
TEST(WholePlan, has_stages_that_compute_nothing_and_no_empty_parts) {
  PlanRequest request = request_for("cpu:5");
  request.constraints.degrees.set("pp", 5);
  request.constraints.micro_batches = 1;
  EXPECT_EQ(make_plan(step_of("ffn"), request).settings.pipelining.stages, 5);
  request = request_for("cpu:8");
  request.constraints.micro_batches = 8;
  EXPECT_THROW(make_plan(step_of("resnet18:width=8,image=16,batch=6"), request), Infeasible);
}

/// Where memory is short of what selected recompute leaves, some layers of a stage are computed again, and no more than it
/// wants: faster than all, and what is left open is less than one layer.
TEST(WholePlan, computes_as_few_layers_again_as_memory_wants) {
  const StepOf step = step_of("llama:layers=16,hidden=512,heads=8,ffn=1024,vocab=512,seq=512,batch=32");
  for (const char* fix :
       {"dp=4,micro_batch=4,offload=none", "pp=2,dp=2,micro_batch=4,schedule=1f1b,offload=none"}) {
    SCOPED_TRACE(fix);
    PlanRequest request = request_for("a100-80g:4");
    const auto with = [&](const std::string& recompute) {
      request.constraints = parse_constraints({"--fix", fix + recompute});
      return judged(step, make_plan(step, request), request);
    };
    const Evaluation least = with(",recompute=full"), most = with(",recompute=selected");
    request.options.memory_cap = (2 * least.estimate.arena_bytes + most.estimate.arena_bytes) / 3;
    const Evaluation full = with(",recompute=full"), some = with("");
    EXPECT_FALSE(with(",recompute=selected").fits());
    ASSERT_TRUE(full.fits() && some.fits());
    EXPECT_LT(some.estimate.step_seconds(), full.estimate.step_seconds());
    EXPECT_GT(some.estimate.recompute_seconds, 0);
    EXPECT_LT(some.estimate.recompute_seconds, 0.8 * full.estimate.recompute_seconds);
  }
}

void expect_no_slower_than_one_recompute(std::initializer_list<int> kilobytes_of_devices) {
  const StepOf step = step_of("llama:layers=12,hidden=64,heads=4,ffn=128,vocab=64,seq=64,batch=32");
  for (const int kilobytes : kilobytes_of_devices) {
    PlanRequest request = request_for("a100-80g:8");
    request.options.memory_cap = kilobytes * 1000;
    const Evaluation found = judged(step, make_plan(step, request), request);
    EXPECT_TRUE(found.fits()) << kilobytes;
    for (const char* fix : {"recompute=none", "recompute=selected", "recompute=full"}) {
      request.constraints = parse_constraints({"--fix", fix});
      const Evaluation other = judged(step, make_plan(step, request), request);
      if (other.fits()) {
        EXPECT_LE(found.estimate.step_seconds(), 1.01 * other.estimate.step_seconds())
            << kilobytes << " " << fix;
      }
    }
  }
}

/// However short memory is: no mode of recompute for all layers is faster, or fits where nothing was found.
TEST(WholePlan, is_no_slower_than_one_recompute_for_all_layers) {
  expect_no_slower_than_one_recompute({1300});
}
TEST(SlowWholePlan, is_no_slower_than_one_recompute_for_all_layers) {
  expect_no_slower_than_one_recompute({8000, 4000, 3200, 2400, 1700});
}

TEST(WholePlan, ends_when_its_time_is_over) {
  PlanRequest request = request_for("a100-80g:8");
  const StepOf step = step_of(llama);
  EXPECT_EQ(make_plan(step, request).status, "feasible");
  request.options.most_seconds = 0;
  const Plan first = make_plan(step, request);
  EXPECT_EQ(first.status, "timeout");
  EXPECT_NE(first.compared.find("1 simulated; --search-time 0 ended it"), first.compared.npos)
      << first.compared;
  EXPECT_TRUE(judged(step, first, request).fits());
  EXPECT_LE(*first.lower_bound_seconds, judged(step, first, request).estimate.step_seconds());
}

/// Sharded weights are gathered while others compute: a level that was forecast to take longer is tried, too, and the bound
/// holds for it.
TEST(WholePlan, is_no_slower_than_another_level_of_the_same_structure) {
  const StepOf step = step_of("pangualpha-2.6b", *precision_called("fp16"));
  PlanRequest request = request_for("h100:8");
  const Plan plan = make_plan(step, request);
  const Evaluation found = judged(step, plan, request);
  for (const int level : {1, 2, 3}) {
    const auto other = judged(step, Constraints{.degrees = {{"dp", 8}}, .zero = level}, request);
    ASSERT_TRUE(other);
    EXPECT_LE(found.estimate.step_seconds(), 1.01 * other->estimate.step_seconds()) << level;
    if (plan.lower_bound_seconds) {
      EXPECT_LE(*plan.lower_bound_seconds, other->estimate.step_seconds()) << level;
    }
  }
}

/// Four nodes of two stages each: every second boundary is slow.
TEST(WholePlan, is_no_slower_where_nodes_are_far_apart) {
  const StepOf step = step_of("llama2-7b:batch=256", *precision_called("bf16"));
  PlanRequest request = request_for("v100-32g:4x8");
  request.cluster->memory_bytes = 24'000'000'000;
  request.cluster->links.back().bytes_per_second = 0.15e9;
  const Plan plan = make_plan(step, request);
  ASSERT_TRUE(plan.lower_bound_seconds);
  const double found = judged(step, plan, request).estimate.step_seconds();
  for (const auto& [data, stages] : {std::pair(4, 8), {8, 4}}) {
    const auto other = judged(step,
                              Constraints{.degrees = {{"dp", data}, {"pp", stages}},
                                          .micro_batches = 256 / data,
                                          .zero = 1,
                                          .recompute = RecomputeMode::selected},
                              request);
    ASSERT_TRUE(other);
    EXPECT_LE(found, other->estimate.step_seconds()) << stages;
    EXPECT_LE(*plan.lower_bound_seconds, other->estimate.step_seconds()) << stages;
  }
  EXPECT_GT(*plan.lower_bound_seconds, found / 2);
}

/// A twentieth of the network, and ten times as late.
PlanRequest on_slow_network(const std::string& cluster) {
  PlanRequest out = request_for(cluster);
  LinkLevel& network = out.cluster->links.back();
  network.bytes_per_second /= 20, network.latency_seconds *= 10, network.start_seconds *= 10;
  return out;
}

/// What is found takes so many times as long as `s`.
double found_beside(const Constraints& s, const std::string& model, const std::string& precision,
                    const PlanRequest& request) {
  const StepOf step = step_of(model, *precision_called(precision));
  const auto other = judged(step, s, request);
  return judged(step, make_plan(step, request), request).estimate.step_seconds() /
         other.value().estimate.step_seconds();
}

/// Bounds know of tensor parallelism's transfers alone: where the network is slow, what waits for replicas comes first, and a
/// search has done its trials before it comes to stages.
TEST(WholePlan, is_no_slower_where_replicas_are_waited_for) {
  EXPECT_LE(found_beside({.degrees = {{"dp", 32}, {"pp", 2}},
                          .micro_batches = 16,
                          .zero = 1,
                          .schedule = schedule_called("zb-v")},
                         "pangualpha-2.6b:batch=1024", "fp16", on_slow_network("v100-32g:64")),
            1.01);
}

/// The stages that a structure has where nothing else is said are tried, too, and so are other numbers of chunks of what is not
/// the best with those that are searched.
TEST(WholePlan, is_no_slower_than_its_structure_as_it_is_cut) {
  EXPECT_LE(found_beside({.degrees = {{"dp", 64}, {"pp", 8}},
                          .micro_batches = 2,
                          .zero = 1,
                          .schedule = schedule_called("zero-bubble")},
                         "gpt:layers=8,hidden=2048,heads=32,vocab=8192,seq=1024,batch=128", "bf16",
                         request_for("ascend910b:512")),
            1.002);
  PlanRequest request = request_for("ascend910b:1024");
  request.constraints.framework = std::string("megatron");
  EXPECT_LE(
      found_beside({.degrees = {{"dp", 256}, {"pp", 4}},
                    .micro_batches = 4,
                    .schedule = schedule_called("interleaved:8")},
                   "llama:layers=60,hidden=2048,heads=16,kv_heads=4,ffn=6144,vocab=8192,seq=512,batch=2048",
                   "f32", request),
      1.002);
}

/// Cut for the step to end soonest it takes 23 MB too much, as it is cut otherwise it fits.
TEST(WholePlan, is_no_slower_than_what_misses_by_little) {
  PlanRequest request = on_slow_network("v100-32g:128");
  request.constraints.framework = std::string("megatron");
  EXPECT_LE(found_beside({.degrees = {{"dp", 4}, {"tp", 4}, {"pp", 8}},
                          .micro_batches = 128,
                          .zero = 1,
                          .schedule = schedule_called("zero-bubble:2"),
                          .sequence_parallel = true},
                         "llama2-13b:batch=512", "fp16", request),
            1.002);
}

/// Forecasts of what cuts backwards err most in small networks.
TEST(WholePlan, of_a_small_network_is_no_slower_than_what_is_forecast_to_be) {
  EXPECT_LE(found_beside({.degrees = {{"dp", 64}, {"pp", 4}},
                          .micro_batches = 4,
                          .zero = 1,
                          .schedule = schedule_called("v-half")},
                         "gpt:layers=8,hidden=2048,heads=32,vocab=8192,seq=256,batch=1024", "bf16",
                         request_for("ascend910b:256")),
            1.002);
}

/// Of structures that differ in the level alone and are equally fast one has a neighbour that is faster.
TEST(WholePlan, is_no_slower_than_neighbours_of_what_is_as_fast) {
  EXPECT_LE(found_beside(
                {.degrees = {{"dp", 32}, {"pp", 8}},
                 .micro_batches = 128,
                 .zero = 1,
                 .schedule = schedule_called("zero-bubble:2")},
                "llama:layers=16,hidden=8192,heads=64,kv_heads=16,ffn=24576,vocab=32000,seq=512,batch=4096",
                "f32", on_slow_network("v100-32g:256")),
            1.002);
}

/// Few programs turn out not to fit, so that the search does not end with the first that does.
TEST(WholePlan, forecasts_the_memory_of_the_framework) {
  const StepOf step = step_of("llama:layers=16,hidden=2048,heads=16,ffn=5504,vocab=32000,seq=2048,batch=64",
                              *precision_called("bf16"));
  PlanRequest request = request_for("a100-80g:8");
  request.constraints.framework = std::string("megatron");
  request.options.writes_log = true;
  for (const std::int64_t gigabytes : {30, 16}) {
    SCOPED_TRACE(gigabytes);
    request.options.memory_cap = gigabytes * 1'000'000'000;
    const Plan plan = make_plan(step, request);
    const Evaluation e =
        evaluate(compile_pipeline(step(plan.settings.pipelining.micro_batches), plan), *request.cluster,
                 {.memory_cap = request.options.memory_cap, .framework = "megatron"});
    EXPECT_TRUE(e.fits());
    EXPECT_LE(std::ranges::count_if(plan.log,
                                    [](const std::string& line) {
                                      return line.starts_with("dp=") && line.find("simulated") != line.npos &&
                                             line.find("does not fit") != line.npos;
                                    }),
              2);
  }
}

/// Small products take less time than their transfers.
TEST(WholePlan, may_split_nothing) {
  const StepOf step = step_of("matmul_chain:widths=1024-1024-1024-1024-1024,batch=64");
  const auto seconds_on = [&](const char* cluster) {
    const PlanRequest request = request_for(cluster);
    return judged(step, make_plan(step, request), request).estimate.step_seconds();
  };
  EXPECT_LE(seconds_on("a100-80g:8"), seconds_on("a100-80g:1"));
}

/// Micro-batches and recompute are there to choose.
TEST(WholePlan, of_one_device_spares_memory) {
  const StepOf step = step_of("llama:layers=4,hidden=64,heads=4,ffn=128,vocab=64,seq=64,batch=16");
  PlanRequest request = request_for("a100-80g:1");
  const auto bytes = [&] { return judged(step, make_plan(step, request), request).estimate.arena_bytes; };
  const std::int64_t freely = bytes();
  request.options.memory_cap = freely / 2;
  EXPECT_LE(bytes(), freely / 2);
}

}  // namespace
}  // namespace shardwright
