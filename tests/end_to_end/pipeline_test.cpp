// Networks trained in stages and micro-batches, on virtual devices: the losses of one device with the same
// micro-batches, and, where no operator looks at a whole batch, of one device with the batch as it is.

#include <gtest/gtest.h>

#include <array>

#include "shardwright/graph/text.h"
#include "shardwright/passes/compile.h"
#include "tests/support/draws.h"
#include "tests/support/on_each_rank.h"
#include "tests/support/program.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::TrainingRun;

struct PipelineCase {
  std::string name;
  TrainingRun run;
  bool has_batch_statistics = false;  // batch norm looks at a micro-batch
};
void PrintTo(const PipelineCase& c, std::ostream* out) { *out << c.name; }

class Pipelines : public ::testing::TestWithParam<PipelineCase> {};

TEST_P(Pipelines, losses_are_those_of_one_device) {
  const TrainingRun& run = GetParam().run;
  const auto alone = testing::run_alone(run);
  std::map<int, std::optional<testing::Outcome>> in_parts;
  const auto expect = [&](const std::string& what, PlanRequest request) {
    SCOPED_TRACE(what);
    const int parts = settings_of(request).pipelining.micro_batches;
    if (GetParam().has_batch_statistics && parts > 1 && !in_parts.contains(parts))
      in_parts[parts] = testing::run_planned(
          run, {.devices = 1,
                .parallel = Parallel::stand_alone,
                .constraints = constraints_of({.pipelining = {.micro_batches = parts}})});
    testing::expect_same(testing::run_planned(run, request),
                         in_parts.contains(parts) ? in_parts.at(parts) : alone,
                         // A step of a network with batch norms multiplies differences by thousands.
                         {.losses = GetParam().has_batch_statistics ? 1e-8 : 1e-9, .weights = 1e-7});
  };
  const auto gpipe = Schedule::gpipe(), alternating = Schedule::one_forward_one_backward();
  expect("accumulation", {.devices = 1,
                          .parallel = Parallel::stand_alone,
                          .constraints = constraints_of({.pipelining = {.micro_batches = 4}})});
  expect("accumulation on 2", {.devices = 2,
                               .parallel = Parallel::data_parallel,
                               .constraints = constraints_of({.pipelining = {.micro_batches = 2}})});
  expect("2 stages, one batch",
         {.devices = 2, .constraints = constraints_of({.pipelining = {alternating, 2, 1}})});
  expect("2 stages, 1f1b",
         {.devices = 2, .constraints = constraints_of({.pipelining = {alternating, 2, 4}})});
  expect("2 stages, gpipe", {.devices = 2, .constraints = constraints_of({.pipelining = {gpipe, 2, 4}})});
  expect("4 stages, 1f1b",
         {.devices = 4, .constraints = constraints_of({.pipelining = {alternating, 4, 4}})});
  expect("4 stages of 2, gpipe",
         {.devices = 8, .constraints = constraints_of({.pipelining = {gpipe, 4, 4}})});
  expect("2 stages of 4, 1f1b", {.devices = 8,
                                 .parallel = Parallel::data_parallel,
                                 .constraints = constraints_of({.pipelining = {alternating, 2, 2}})});
  expect("2 stages of 4, sharded states",
         {.devices = 8,
          .constraints = constraints_of({.optimizer_parallel = {1, 0}, .pipelining = {alternating, 2, 4}})});
  expect("2 stages of 4, sharded gradients",
         {.devices = 8,
          .parallel = Parallel::data_parallel,
          .constraints = constraints_of({.optimizer_parallel = {2, 0}, .pipelining = {gpipe, 2, 2}})});
  expect("2 stages of 4, sharded weights",
         {.devices = 8,
          .parallel = Parallel::data_parallel,
          .constraints = constraints_of({.optimizer_parallel = {3, 0}, .pipelining = {alternating, 2, 2}})});
}

const OptimizerChoice adam_slow{"adam", {{"rate", 0.001}}};

INSTANTIATE_TEST_SUITE_P(
    EndToEnd, Pipelines,
    ::testing::Values(
        PipelineCase{"ffn",
                     {.model = "ffn:batch=32,widths=48-32-32-24-10",
                      .optimizer = adam_slow,
                      .precision = DType::f64,
                      .steps = 5}},
        PipelineCase{"ffn_clipped",
                     {.model = "ffn:batch=32,widths=48-32-32-24-10",
                      .optimizer = {"momentum", {{"rate", 0.1}, {"momentum", 0.9}}, 0.5},
                      .precision = DType::f64,
                      .steps = 5}},
        PipelineCase{"resnet18",
                     {.model = "resnet18:image=32,width=8,batch=8",
                      .file = "resnet18",
                      .optimizer = {"momentum", {{"rate", 0.0002}, {"momentum", 0.9}}},
                      .precision = DType::f64,
                      .steps = 3},
                     true},
        PipelineCase{"llama",
                     {.model = "llama:layers=4,hidden=32,heads=4,kv_heads=2,ffn=64,vocab=48,seq=8,batch=8",
                      .optimizer = adam_slow,
                      .precision = DType::f64,
                      .steps = 5}},
        PipelineCase{"gpt_tied",
                     {.model = "gpt:layers=4,hidden=32,heads=4,vocab=48,seq=8,batch=8",
                      .optimizer = adam_slow,
                      .precision = DType::f64,
                      .steps = 5}}),
    [](const auto& tested) { return tested.param.name; });

/// The root of a mean, whose gradient reads the root, and a count; ten micro-batches of two rows, and the same of the
/// whole batch.
const char* const root_of_ten_parts = R"(%x = input f64[2, 3]
%v = param f64[3] (init=normal)
%w = param f64[3] (init=normal)
%1 = add %x, %v
%2 = mul %1, %w
%3 = square %2
%4 = reduce_mean %3 (dims=[0, 1])
%loss = sqrt %4
%none = scale %loss (factor=0)
%one = shift %none (value=1)
%count = cast %one (to=i32)
output %count
)";
const char* const root_of_the_whole = R"(%x = input f64[10, 2, 3]
%v = param f64[3] (init=normal)
%w = param f64[3] (init=normal)
%1 = add %x, %v
%2 = mul %1, %w
%3 = square %2
%4 = reduce_mean %3 (dims=[1, 2])
%5 = sqrt %4
%loss = reduce_mean %5 (dims=[0])
%none = scale %loss (factor=0)
%one = shift %none (value=1)
%count = cast %one (to=i32)
output %count
)";

/// Loss, count, and both parameters after each of two steps; nothing if this process has no part in it.
std::vector<std::vector<double>> trained(const char* text, const Shape& batch, const PlanRequest& request) {
  Graph graph = parse_graph(text);
  add_train_step(graph, graph.find("loss"), {"sgd", {{"rate", 0.1}}});
  const auto session = session_of(compile_pipeline(graph, make_plan(graph, request)), {.seed = 7});
  std::vector<std::vector<double>> out;
  for (int step = 0; session && step < 2; ++step) {
    for (const Tensor& t : session->step({{"x", testing::counting({DType::f64, batch})}}))
      out.push_back(to_doubles(t));
    for (const char* name : {"v", "w"}) out.push_back(to_doubles(session->get(name)));
  }
  return out;
}

TEST(MeansOfMicroBatches, leave_what_the_backward_reads) {
  const auto want = trained(root_of_the_whole, {10, 2, 3}, {});
  for (const int stages : {1, 2}) {
    SCOPED_TRACE(stages);
    const auto have = trained(
        root_of_ten_parts, {20, 3},
        {.devices = stages, .constraints = constraints_of({.pipelining = {Schedule::gpipe(), stages, 10}})});
    if (want.empty() || have.empty()) continue;
    ASSERT_EQ(have.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_LE(testing::difference(have[i], want[i]), 1e-12) << i;
  }
}

/// A parameter of the size of one sample has the gradient of what it is added to, which two stages read and the backward
/// goes on with.
const char* const position_of_one_sample = R"(%x = input f64[1, 3]
%v = param f64[1, 3] (init=normal)
%w = param f64[3] (init=normal)
%a = mul %x, %w
%b = add %a, %v
%c = square %b
%d = add %c, %b
%e = square %d
%loss = reduce_mean %e
output %loss
)";

TEST(OneSample, may_have_the_size_of_a_parameter) {
  std::string of_four = position_of_one_sample;
  of_four.replace(of_four.find("f64[1, 3]"), 9, "f64[4, 3]");
  const auto want = trained(of_four.c_str(), {4, 3}, {});
  for (const char* first_of_last : {"c", "d", "e"}) {
    SCOPED_TRACE(first_of_last);
    PlanRequest request{
        .devices = 2,
        .constraints = constraints_of({.pipelining = {Schedule::one_forward_one_backward(), 2, 4}})};
    request.constraints.stages = {{"a", 0}, {first_of_last, 1}};
    const auto have = trained(position_of_one_sample, {4, 3}, request);
    if (want.empty() || have.empty()) continue;
    ASSERT_EQ(have.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_LE(testing::difference(have[i], want[i]), 1e-12) << i;
  }
}

/// Any cut, any numbers of devices, any strategies: the run ends, and with one device's losses. Seeds are printed.
class RandomPipelines : public ::testing::TestWithParam<int> {};

void expect_random_pipelines(int first, int count) {
  const TrainingRun run{
      .model = "ffn:batch=24,widths=12-12-8-6", .optimizer = adam_slow, .precision = DType::f64, .steps = 2};
  const auto alone = testing::run_alone(run);
  const std::uint64_t begin = testing::further_seeds() + static_cast<std::uint64_t>(first);
  for (std::uint64_t seed = begin; seed < begin + static_cast<std::uint64_t>(count); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const int devices = 1 + static_cast<int>(seed % 8);
    const int micro_batches = std::array{1, 2, 3, 4, 6}[seed % 5];
    testing::expect_same(testing::run_random_pipeline(run, devices, micro_batches, seed), alone,
                         {.losses = 1e-9, .weights = 1e-7});
  }
}

TEST_P(RandomPipelines, end_with_the_losses_of_one_device) { expect_random_pipelines(GetParam(), 40); }
INSTANTIATE_TEST_SUITE_P(EndToEnd, RandomPipelines, ::testing::Range(0, 160, 40));

class SlowRandomPipelines : public RandomPipelines {};
TEST_P(SlowRandomPipelines, end_with_the_losses_of_one_device) { expect_random_pipelines(GetParam(), 100); }
INSTANTIATE_TEST_SUITE_P(Slow, SlowRandomPipelines, ::testing::Range(1000, 2000, 100));

}  // namespace
}  // namespace shardwright
