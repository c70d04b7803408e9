// Networks trained under plans of the recursive search, on 8 virtual devices: the losses of one device.

#include <gtest/gtest.h>

#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::TrainingRun;

struct SearchedCase {
  std::string name;
  TrainingRun run;
};
void PrintTo(const SearchedCase& c, std::ostream* out) { *out << c.name; }

class Searched : public ::testing::TestWithParam<SearchedCase> {};

/// Prices of several machines, so that plans of all kinds come out.
TEST_P(Searched, losses_are_those_of_one_device) {
  const TrainingRun& run = GetParam().run;
  const auto alone = testing::run_alone(run);
  const auto expect = [&](const std::string& what, PlanRequest request) {
    SCOPED_TRACE(what);
    request.devices = 8;
    request.search = "recursive";
    testing::expect_same(testing::run_planned(run, request), alone, {.losses = 1e-9, .weights = 1e-7});
  };
  expect("cpu", {});
  expect("one node", {.cluster = cluster_called("a100-80g:8")});
  expect("nodes", {.cluster = cluster_called("v100-32g:2x4")});
  expect("data parallelism is cheap", {.cluster = cluster_called("h100:8"), .options = {.mem_coeff = 0.001}});
  expect("data parallelism is dear", {.cluster = cluster_called("h100:8"), .options = {.mem_coeff = 100}});
  expect("memory is scarce", {.cluster = cluster_called("a100-80g:8"), .options = {.memory_cap = 1}});
  expect("symbolic costs", {.options = {.costs = Costs::symbolic}});
  expect("symbolic costs, tensor parallel", {.options = {.costs = Costs::symbolic, .mem_coeff = 10}});
  expect("sharded weights", {.cluster = cluster_called("a100-80g:8"),
                             .constraints = constraints_of({.optimizer_parallel = {3, 0}})});
}

const OptimizerChoice adam_slow{"adam", {{"rate", 0.001}}};

INSTANTIATE_TEST_SUITE_P(
    EndToEnd, Searched,
    ::testing::Values(
        SearchedCase{"ffn",
                     {.model = "ffn:batch=32", .optimizer = adam_slow, .precision = DType::f64, .steps = 5}},
        SearchedCase{"resnet18",
                     {.model = "resnet18:image=32,width=8,batch=8",
                      .file = "resnet18",
                      .optimizer = {"momentum", {{"rate", 0.02}, {"momentum", 0.9}}},
                      .precision = DType::f64}},
        SearchedCase{"decoder",
                     {.model = "llama:layers=3,hidden=64,heads=8,kv_heads=4,ffn=128,vocab=96,seq=16,batch=8",
                      .optimizer = adam_slow,
                      .precision = DType::f64,
                      .steps = 5}}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace shardwright
