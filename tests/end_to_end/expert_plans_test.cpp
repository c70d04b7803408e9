// The plans of docs/search.md's table, of experts and of auto, train small networks of the same family on 8 devices with
// one device's losses: their structure as far as 8 devices have it.

#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/search/automatic/structure.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::TrainingRun;

/// As --set says it, of 64 samples.
struct ExpertCase {
  std::string model;
  std::string expert;
  std::string found;          // empty: the same
  std::string adapters = {};  // keys of lora(MODEL); empty: the whole model is trained
};
void PrintTo(const ExpertCase& c, std::ostream* out) { *out << c.model << c.adapters; }

class EndToEndExpertPlans : public ::testing::TestWithParam<ExpertCase> {};

PlanRequest request_of(const std::string& set, std::int64_t samples) {
  Constraints said = parse_constraints({"--set", set});
  said.micro_batches = static_cast<int>(samples / said.degrees.of("dp") / said.micro_batch.value_or(1));
  PlanRequest out{.devices = static_cast<int>(said.degrees.devices()),
                  .parallel = Parallel::semi_auto_parallel};
  out.constraints.zero_threshold = 0;  // of small networks, too
  return automatic::with_structure(std::move(out), said);
}

TEST_P(EndToEndExpertPlans, have_the_losses_of_one_device) {
  const ExpertCase& c = GetParam();
  constexpr std::int64_t samples = 64;
  const std::string network = fmt::format("{}:layers=4,hidden=32,heads=8,{}ffn=48,vocab=48,seq=8,batch={}",
                                          c.model, c.model == "llama2-70b" ? "kv_heads=2," : "", samples);
  const TrainingRun run{
      .model = c.adapters.empty() ? network : fmt::format("lora({}):{}", network, c.adapters),
      .optimizer = {.name = "adamw"},
      .precision = DType::f64,
      .steps = 3};
  const auto want = testing::run_alone(run);
  for (const std::string& set : {c.expert, c.found}) {
    if (set.empty()) continue;
    SCOPED_TRACE(set);
    testing::expect_same(testing::run_planned(run, request_of(set, samples)), want,
                         {.losses = 1e-9, .weights = 1e-6});
  }
}

INSTANTIATE_TEST_SUITE_P(
    all, EndToEndExpertPlans,
    ::testing::Values(
        ExpertCase{"baichuan2-7b", "dp=8,micro_batch=2,zero=3"},
        ExpertCase{"baichuan2-13b", "dp=8,micro_batch=1,zero=3"},
        ExpertCase{"qwen-7b", "dp=2,tp=4,micro_batch=2,zero=1", "dp=8,micro_batch=1,zero=3"},
        ExpertCase{"qwen-14b", "tp=8,micro_batch=4", "dp=8,micro_batch=2,zero=3,recompute=full"},
        ExpertCase{"llama2-7b", "dp=8,micro_batch=2,zero=3"},
        ExpertCase{"llama2-13b", "dp=8,micro_batch=1,zero=3"},
        ExpertCase{"llama2-70b", "dp=2,tp=2,pp=2,micro_batch=1,zero=1,sequence_parallel=1",
                   "dp=8,micro_batch=4,zero=3,recompute=full"},
        ExpertCase{"llama2-7b", "dp=8,micro_batch=4,zero=3", "", "rank=4,alpha=4,targets=q.k.v.o"},
        ExpertCase{"baichuan2-7b", "dp=8,micro_batch=4,zero=3,recompute=selected", "",
                   "rank=4,alpha=4,targets=q.k.v.o"},
        ExpertCase{"qwen-7b", "dp=2,tp=4,micro_batch=4,recompute=selected,sequence_parallel=1",
                   "dp=8,micro_batch=2,zero=3,recompute=selected", "rank=8,alpha=4,targets=all"}),
    [](const auto& row) {
      std::string name = row.param.model + (row.param.adapters.empty() ? "" : "_lora");
      std::ranges::replace(name, '-', '_');
      return name;
    });

}  // namespace
}  // namespace shardwright
