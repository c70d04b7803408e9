// What a user gets who names no search: whatever it is, training has the losses of one device.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "shardwright/base/text.h"
#include "shardwright/frontend/network.h"
#include "shardwright/frontend/train_step.h"
#include "shardwright/ops/calls.h"
#include "tests/support/scratch.h"
#include "tests/support/verified_command.h"

namespace shardwright {
namespace {

struct DefaultCase {
  std::string name;
  std::string model;
  std::string flags = {};
  std::string search = "auto";  // that plans
};
void PrintTo(const DefaultCase& c, std::ostream* out) { *out << c.name; }

std::string printed(const std::string& command) {
  std::vector<std::string> words;
  for (std::string_view word : split(std::string_view(command), ' '))
    if (!word.empty()) words.emplace_back(word);
  std::istringstream in;
  std::ostringstream out, err;
  Terminal terminal{in, out, err};
  EXPECT_EQ(testing::run_verified(words, terminal), 0) << command << ": " << err.str();
  return out.str();
}

std::vector<double> losses_of(const std::string& command) {
  std::vector<double> out;
  const std::string text = printed(command + " --steps 3 --json");
  for (std::string_view line : split(std::string_view(text), '\n'))
    if (!line.empty())
      if (const auto json = nlohmann::json::parse(line); json.contains("loss"))
        out.push_back(json.at("loss"));
  return out;
}

class EndToEndDefault : public ::testing::TestWithParam<DefaultCase> {};

TEST_P(EndToEndDefault, has_the_losses_of_one_device) {
  const DefaultCase& c = GetParam();
  std::string model = c.model;
  if (model.empty()) {
    model = scratch_folder() + "/net.graph";
    write_bytes(model, printed("show matmul_chain:batch=16,widths=32-64-64-8 --precision f64"));
  }
  const std::string usual = model.ends_with(".graph") ? "" : " --precision f64";
  const std::string plan = printed("plan " + model + usual + " --devices 8 --json " + c.flags);
  EXPECT_EQ(nlohmann::json::parse(plan).at("search"), c.search);
  const auto one = losses_of("train " + model + usual),
             eight = losses_of("train " + model + usual + " --devices 8 " + c.flags);
  ASSERT_EQ(one.size(), 3U);
  ASSERT_EQ(eight.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(eight[i], one[i], 1e-9 * std::abs(one[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(
    all, EndToEndDefault,
    ::testing::Values(DefaultCase{"dense", "ffn"},
                      DefaultCase{"chain", "matmul_chain:widths=16-16-16,batch=8"},
                      DefaultCase{"llama", "llama:layers=2,hidden=32,heads=4,ffn=48,vocab=48,seq=8,batch=8"},
                      DefaultCase{"gpt", "gpt:layers=2,hidden=32,heads=4,vocab=48,seq=8,batch=8"},
                      DefaultCase{"resnet18", "resnet18:image=16,width=8,batch=8"},
                      DefaultCase{"graph_as_text", ""},
                      DefaultCase{"states_as_asked", "ffn", "--optimizer-parallel 2:threshold=0"},
                      DefaultCase{"stages_as_asked", "ffn", "--stages 2"},
                      DefaultCase{"stages_to_suggest", "ffn", "--stages 2 --auto-pipeline 0"},
                      DefaultCase{"coefficient", "ffn", "--mem-coeff 0.2", "recursive"},
                      DefaultCase{"data_as_asked", "ffn", "--dataset-strategy data_parallel", "recursive"}),
    [](const auto& tested) { return tested.param.name; });

/// Written in C++: as many micro-batches as asked for, all else is chosen.
TEST(EndToEndDefaultStep, of_a_forward_function_has_the_losses_of_one_device) {
  constexpr std::int64_t batch = 16, width = 32, classes = 8;
  const Parameter w1{"w1", {width, width}, normal(0.5)}, w2{"w2", {width, classes}, normal(0.5)};
  const auto forward = [&](Traced x, Traced label) {
    Trace& t = *x.trace;
    const Traced h = t.call("tanh", {t.call("matmul", {x, t.parameter(w1)})});
    const Traced y = t.call("matmul", {h, t.parameter(w2)});
    const Traced each = {&t, cross_entropy(t.builder(), y.id, label.id, false, "entropy")};
    return LossAndAux{t.call("reduce_mean", {each})};
  };
  const InputTypes inputs{{"x", {DType::f64, {batch, width}}}, {"label", {DType::i32, {batch}}}};
  const auto losses = [&](const TrainOptions& options, int micro_batches) {
    TrainStep step(forward, inputs, adam(0.01), options);
    EXPECT_EQ(step.plan().settings.pipelining.micro_batches, micro_batches);
    if (options.devices > 1) {
      EXPECT_EQ(step.plan().search, "auto");
    }
    std::vector<double> x(batch * width), label(batch), out;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i % 7) - 3;
    for (std::size_t i = 0; i < label.size(); ++i) label[i] = static_cast<double>(i % classes);
    for (int i = 0; i < 3; ++i)
      out.push_back(step(make_tensor(inputs[0].second, x), make_tensor(inputs[1].second, label)));
    return out;
  };
  const std::vector<double> alone = losses({.precision = DType::f64}, 1);
  for (int parts : {1, 4}) {
    TrainOptions options{.devices = 8, .precision = DType::f64};
    options.settings.pipelining.micro_batches = parts;
    const std::vector<double> have = losses(options, parts);
    for (std::size_t i = 0; i < alone.size(); ++i)
      EXPECT_NEAR(have[i], alone[i], 1e-9 * std::abs(alone[i])) << parts << " " << i;
  }
  TrainOptions options{.devices = 8, .precision = DType::f64};
  options.settings.optimizer_parallel = {2, 0};
  EXPECT_EQ(TrainStep(forward, inputs, adam(0.01), options).plan().settings.optimizer_parallel.level, 2);
}

}  // namespace
}  // namespace shardwright
