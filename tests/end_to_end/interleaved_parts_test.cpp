// Micro-batches whose parts run side by side: the losses are those of one device, which cuts nothing.

#include <gtest/gtest.h>

#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::TrainingRun;

struct PartsCase {
  std::string name;
  std::string set;  // with micro_batch_interleave
};
void PrintTo(const PartsCase& c, std::ostream* out) { *out << c.name; }

PlanRequest request_of(const std::string& set) {
  const Constraints said = parse_constraints({"--set", set});
  PlanRequest out{.devices = static_cast<int>(said.degrees.devices()),
                  .parallel = Parallel::semi_auto_parallel,
                  .constraints = said,
                  .is_set = true};
  out.constraints.zero_threshold = 0;
  if (out.devices == 1) out.parallel = Parallel::stand_alone;
  return out;
}

/// A tied embedding, one norm that clips all, and sizes that nothing but the batch divides by.
TrainingRun decoder() {
  TrainingRun run{.model = "gpt:layers=4,hidden=24,heads=4,vocab=46,seq=6,batch=24",
                  .file = "",
                  .optimizer = {"adam", {{"rate", 0.001}}},
                  .precision = DType::f64,
                  .steps = 3};
  run.optimizer.clip_norm = 0.1;
  return run;
}

class EndToEndInterleavedParts : public ::testing::TestWithParam<PartsCase> {};

TEST_P(EndToEndInterleavedParts, have_the_losses_of_one_device) {
  testing::expect_same(testing::run_planned(decoder(), request_of(GetParam().set)),
                       testing::run_alone(decoder()), {.losses = 1e-9, .weights = 1e-7});
}

INSTANTIATE_TEST_SUITE_P(
    all, EndToEndInterleavedParts,
    ::testing::Values(
        PartsCase{"alone", "micro_batch_interleave=2"},
        PartsCase{"three", "micro_batch_interleave=3,micro_batches=2"},
        PartsCase{"data", "dp=4,micro_batch_interleave=2"},
        PartsCase{"accumulated", "dp=2,micro_batches=3,micro_batch_interleave=2"},
        PartsCase{"level_1", "dp=2,micro_batch_interleave=2,zero=1"},
        PartsCase{"level_2", "dp=4,micro_batches=3,micro_batch_interleave=2,zero=2"},
        PartsCase{"level_2_of_one", "dp=4,micro_batch_interleave=2,zero=2"},
        PartsCase{"level_3", "dp=4,micro_batch_interleave=3,zero=3"},
        PartsCase{"tensor", "tp=4,micro_batch_interleave=2"},
        PartsCase{"tensor_recomputed", "tp=2,micro_batches=2,micro_batch_interleave=2,recompute=full"},
        PartsCase{"tensor_selected", "tp=2,micro_batches=2,micro_batch_interleave=4,recompute=selected"},
        PartsCase{"sequence",
                  "dp=2,tp=2,micro_batches=2,micro_batch_interleave=2,sequence_parallel=1,zero=2"},
        PartsCase{"stages", "pp=2,micro_batches=4,micro_batch_interleave=2"},
        PartsCase{"stages_of_all", "dp=2,tp=2,pp=2,micro_batches=3,micro_batch_interleave=2,zero=3"},
        PartsCase{"gpipe",
                  "tp=2,pp=2,micro_batches=4,micro_batch_interleave=3,schedule=gpipe,recompute=full"},
        PartsCase{"chunks", "pp=2,micro_batches=4,micro_batch_interleave=2,schedule=interleaved:2"},
        PartsCase{"cut_backward",
                  "dp=2,pp=2,micro_batches=3,micro_batch_interleave=2,schedule=zero-bubble,zero=2"},
        PartsCase{"in_a_v", "tp=2,pp=2,micro_batches=4,micro_batch_interleave=2,schedule=zb-v"}),
    [](const auto& one) { return one.param.name; });

/// Statistics are those of a part: what as many micro-batches have.
TEST(EndToEndInterleavedStatistics, are_those_of_as_many_micro_batches) {
  const TrainingRun run{.model = "resnet18:image=32,width=8,classes=8,batch=8",
                        .file = "",
                        .optimizer = {"momentum", {{"rate", 0.01}}},
                        .precision = DType::f64,
                        .steps = 3};
  const auto want = testing::run_planned(run, request_of("micro_batches=4"));
  for (const char* set : {"micro_batches=2,micro_batch_interleave=2", "micro_batch_interleave=4",
                          "pp=2,micro_batches=2,micro_batch_interleave=2"})
    testing::expect_same(testing::run_planned(run, request_of(set)), want, {.losses = 1e-9, .weights = 1e-7});
}

}  // namespace
}  // namespace shardwright
