// What trains under plans of `--search auto` has the losses of one device, whatever memory is left to them.

#include <gtest/gtest.h>

#include "shardwright/passes/compile.h"
#include "shardwright/simulate/evaluate.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::TrainingRun;

struct WholeCase {
  std::string name;
  std::string model;
  std::string cluster;
  double share = 0;  // of the memory that the plan without a limit takes; 0: no limit
  std::string fix = {};
};
void PrintTo(const WholeCase& c, std::ostream* out) { *out << c.name; }

class EndToEndWholePlans : public ::testing::TestWithParam<WholeCase> {};

std::int64_t bytes_of(const TrainingRun& run, const PlanRequest& request) {
  const auto step = [&](int micro_batches) { return testing::train_model(run, micro_batches).graph; };
  const Plan plan = make_plan(step, request);
  const Graph graph = step(plan.settings.pipelining.micro_batches);
  return evaluate(compile_pipeline(graph, plan), *request.cluster).estimate.arena_bytes;
}

TEST_P(EndToEndWholePlans, have_the_losses_of_one_device) {
  const WholeCase& c = GetParam();
  const TrainingRun run{.model = c.model, .optimizer = {.name = "adam"}, .precision = DType::f64, .steps = 3};
  PlanRequest request{.cluster = cluster_called(c.cluster), .search = "auto"};
  request.devices = request.cluster->devices();
  if (!c.fix.empty()) request.fixed = parse_expert({"--fix", c.fix});
  if (c.share > 0)
    request.options.memory_cap =
        static_cast<std::int64_t>(c.share * static_cast<double>(bytes_of(run, request)));
  testing::expect_same(testing::run_planned(run, request), testing::run_alone(run),
                       {.losses = 1e-9, .weights = 1e-6});
}

const std::string llama = "llama:layers=4,hidden=32,heads=4,kv_heads=2,ffn=48,vocab=48,seq=8,batch=8";
const std::string gpt = "gpt:layers=6,hidden=32,heads=4,vocab=48,seq=8,batch=8";

INSTANTIATE_TEST_SUITE_P(
    all, EndToEndWholePlans,
    ::testing::Values(WholeCase{"ffn", "ffn", "cpu:8"},
                      WholeCase{"ffn_of_an_accelerator", "ffn", "a100-80g:8"},
                      WholeCase{"ffn_of_little_memory", "ffn", "a100-80g:8", 0.7},
                      WholeCase{"decoder", llama, "a100-80g:8"},
                      WholeCase{"decoder_of_little_memory", llama, "a100-80g:8", 0.6},
                      WholeCase{"decoder_over_hosts", llama, "v100-32g:4x2", 0.8},
                      WholeCase{"decoder_in_stages", llama, "h100:8", 0, "pp=2,tp=2"},
                      WholeCase{"decoder_in_chunks", llama, "h100:4", 0, "pp=2,schedule=interleaved:2"},
                      WholeCase{"tied_decoder", gpt, "cpu:6"},
                      WholeCase{"tied_decoder_in_uneven_stages", gpt, "a100-80g:4", 0, "pp=4"},
                      WholeCase{"tied_decoder_of_little_memory", gpt, "a100-80g:4", 0.5},
                      WholeCase{"convolutions", "resnet18:image=32,classes=8,batch=8", "a100-80g:4"},
                      WholeCase{"convolutions_in_stages", "resnet18:image=32,classes=8,batch=8", "a100-80g:4",
                                0, "pp=2"}),
    [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace shardwright
