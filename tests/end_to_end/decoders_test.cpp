// Decoders against PyTorch's f64 (tests/reference/make_decoders.py): on one device, and split in every way that there is.
// SHARDWRIGHT_FULL=1 runs ten random plans for each number of devices instead of one.

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "tests/support/draws.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::TrainingRun;

struct DecoderCase {
  std::string name;
  std::string model;
  OptimizerChoice optimizer;
  int layers = 0;
  std::vector<std::string> columns, rows;  // dense layers of a layer split by columns, and by rows

  TrainingRun in_f64() const { return {model, name, optimizer, DType::f64, 5}; }
  TrainingRun in_f32() const { return {model, name, optimizer, DType::f32}; }
};
void PrintTo(const DecoderCase& c, std::ostream* out) { *out << c.name; }

/// Megatron's split: heads, feed-forward and vocabulary over `tensor` devices, the batch over `data`.
Constraints tensor_parallel(const DecoderCase& c, int data, int tensor) {
  std::string json;
  const auto add = [&](const std::string& node, const std::string& in) {
    json += fmt::format("{}\"{}\": {{\"in\": {}}}", json.empty() ? "{" : ", ", node, in);
  };
  for (int l = 0; l < c.layers; ++l) {
    for (const std::string& d : c.columns)
      add(fmt::format("layers.{}.{}.matmul", l, d), fmt::format("[[{},1,1],[1,{}]]", data, tensor));
    for (const std::string& d : c.rows)
      add(fmt::format("layers.{}.{}.matmul", l, d), fmt::format("[[{0},1,{1}],[{1},1]]", data, tensor));
    add(fmt::format("layers.{}.attention.attend", l),
        fmt::format("[[{0},{1},1,1],[{0},{1},1,1],[{0},{1},1,1]]", data, tensor));
  }
  add("embedding", fmt::format("[[{},1],[{},1]]", tensor, data));
  return parse_annotations(json + "}", "tensor_parallel");
}

class Decoders : public ::testing::TestWithParam<DecoderCase> {
 protected:
  const DecoderCase& c() const { return GetParam(); }
  /// Losses of one device to nine digits.
  void expect_losses_of_one_device(const std::optional<testing::Outcome>& have) const {
    testing::expect_same(have, alone(), {.losses = 1e-9, .weights = 1e-7});
  }
  const std::optional<testing::Outcome>& alone() const {
    static std::map<std::string, std::optional<testing::Outcome>> runs;
    auto& run = runs[c().name];
    if (!run) run = testing::run_alone(c().in_f64());
    return run;
  }
};

TEST_P(Decoders, losses_of_pytorch_in_f64) {
  testing::expect_losses_of_reference(*alone(), c().in_f64(), 1e-7);
}

TEST_P(Decoders, losses_of_pytorch_in_f32) {
  testing::expect_losses_of_reference(*testing::run_alone(c().in_f32()), c().in_f32(), 1e-5);
}

TEST_P(Decoders, data_parallel_and_propagation_agree_with_one_device) {
  for (int devices : {2, 4, 8})
    for (Parallel mode : {Parallel::data_parallel, Parallel::auto_parallel}) {
      SCOPED_TRACE(fmt::format("{} on {} devices", name_of(mode), devices));
      expect_losses_of_one_device(testing::run_planned(c().in_f64(), {.devices = devices, .parallel = mode}));
    }
}

TEST_P(Decoders, tensor_parallel_annotations_agree_with_one_device) {
  for (const auto& [data, tensor] : {std::pair{1, 2}, {2, 2}, {1, 4}, {2, 4}}) {
    SCOPED_TRACE(fmt::format("data {} tensor {}", data, tensor));
    expect_losses_of_one_device(testing::run_planned(
        c().in_f64(), {.devices = data * tensor, .constraints = tensor_parallel(c(), data, tensor)}));
  }
}

TEST_P(Decoders, random_plans_agree_with_one_device) {
  const int plans = testing::is_full() ? 10 : 1;
  for (int devices : {2, 4, 8})
    for (int seed = 0; seed < plans; ++seed) {
      SCOPED_TRACE(fmt::format("{} devices, seed {}", devices, seed));
      expect_losses_of_one_device(
          testing::run_random(c().in_f64(), devices, static_cast<std::uint64_t>(seed)));
    }
}

const std::vector<DecoderCase> cases{
    {.name = "llama",
     .model = "llama:layers=4,hidden=32,heads=8,kv_heads=4,ffn=48,vocab=64,seq=16,batch=8",
     .optimizer = {"adamw", {{"rate", 0.003}, {"beta2", 0.95}, {"weight_decay", 0.1}}},
     .layers = 4,
     .columns = {"attention.q", "attention.k", "attention.v", "ffn.gate", "ffn.up"},
     .rows = {"attention.o", "ffn.down"}},
    {.name = "gpt",
     .model = "gpt:layers=2,hidden=32,heads=8,vocab=64,seq=16,batch=8",
     .optimizer = {"momentum", {{"rate", 0.1}, {"momentum", 0.9}}},
     .layers = 2,
     .columns = {"attention.q", "attention.k", "attention.v", "ffn.up"},
     .rows = {"attention.o", "ffn.down"}}};

INSTANTIATE_TEST_SUITE_P(EndToEnd, Decoders, ::testing::ValuesIn(cases),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace shardwright
