// Collectives that run as one give the same bits as one by one: every tensor is summed in the same order.

#include <gtest/gtest.h>

#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::TrainingRun;

struct Case {
  std::string name;
  TrainingRun run;
  int devices;
  int optimizer_parallel = 0;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> cases() {
  const OptimizerChoice momentum{"momentum", {{"rate", 0.02}, {"momentum", 0.9}}},
      adam{"adam", {{"rate", 0.01}}};
  const TrainingRun ffn{.model = "ffn:widths=64-32-16-10,batch=16", .optimizer = momentum, .steps = 5},
      decoder{
          .model = "gpt:layers=2,hidden=32,heads=4,vocab=64,seq=16,batch=8", .optimizer = adam, .steps = 3},
      resnet18{.model = "resnet18:image=32,width=8,batch=8", .optimizer = momentum, .steps = 2};
  std::vector<Case> out;
  for (int devices : {2, 4, 8})
    for (int level : {0, 1, 3}) {
      const std::string name = fmt::format("on_{}_level_{}", devices, level);
      out.push_back({"ffn_" + name, ffn, devices, level});
      out.push_back({"decoder_" + name, decoder, devices, level});
      if (level == 0) out.push_back({"resnet18_" + name, resnet18, devices});
    }
  return out;
}

class CommFusionRuns : public ::testing::TestWithParam<Case> {};

TEST_P(CommFusionRuns, keep_their_bits) {
  const Case& c = GetParam();
  const auto run = [&](const char* fusion, const char* annotations = "{}") {
    return testing::run_planned(
        c.run, {.devices = c.devices,
                .parallel = Parallel::data_parallel,
                .constraints = merged(parse_annotations(annotations, ""),
                                      constraints_of({.optimizer_parallel = {c.optimizer_parallel, 0},
                                                      .comm_fusion = parse_comm_fusion(fusion)}))});
  };
  const auto want = run("none");
  for (const char* fusion : {"auto", "size:1", "index:0,3"}) testing::expect_same(run(fusion), want, {});
}

INSTANTIATE_TEST_SUITE_P(EndToEnd, CommFusionRuns, ::testing::ValuesIn(cases()),
                         [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace shardwright
