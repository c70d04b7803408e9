// Models with adapters: losses and gradients as PEFT computes them in f64 (tests/reference/lora), under any plan; what is saved, merged and
// resumed; and that nothing is kept, sent or computed for what is frozen.
#include "shardwright/frontend/adapters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "shardwright/base/file.h"
#include "shardwright/base/text.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/runtime/safetensors.h"
#include "tests/support/command_outcome.h"
#include "tests/support/draws.h"
#include "tests/support/folder_runs.h"
#include "tests/support/scratch.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::expect_near, testing::losses, testing::outcome_of, testing::TrainingRun, testing::write_data;
using AdaptedJson = nlohmann::ordered_json;
using Words = std::vector<std::string>;
namespace fs = std::filesystem;

const std::string adapters_folder = "tests/reference/lora/", bases_folder = "tests/reference/hf/";

/// A reference's adapters beside its folder, and the data of that.
struct EndToEndAdapters : ::testing::TestWithParam<std::string> {
  EndToEndAdapters() : folder(scratch_folder()) {
    reference = AdaptedJson::parse(read_text(adapters_folder + GetParam() + "/reference.json"));
    base = bases_folder + reference["folder"].get<std::string>();
    const AdaptedJson& said = reference["targets"];
    std::string targets = said.is_string() ? "all" : join(said.get<Words>(), ".");
    model = fmt::format("lora({}):rank={},alpha={},targets={}", base, reference["rank"].get<int>(),
                        reference["alpha"].get<int>(), targets);
    adapters = adapters_folder + GetParam() + "/adapter_model.safetensors";
    write_data(at("data.safetensors"), AdaptedJson::parse(read_text(base + "/reference.json"))["inputs"]);
  }
  ~EndToEndAdapters() override { fs::remove_all(folder); }

  std::string at(const std::string& name) const { return folder + "/" + name; }
  std::vector<double> losses_under(int steps, Words plan) const {
    plan.insert(plan.end(), {"--init", adapters});
    return losses(model, at("data.safetensors"), steps, plan);
  }
  std::vector<double> wanted() const {
    std::vector<double> out = reference["f64"]["losses"];
    out.push_back(reference["f64"]["loss_after"]);
    return out;
  }

  const std::string folder;
  AdaptedJson reference;
  std::string base, model, adapters;
};

TEST_P(EndToEndAdapters, train_as_peft_does_under_several_plans) {
  for (const Words& plan : {Words{},
                            {"--devices", "2", "--fix", "dp=2", "--micro-batches", "2"},
                            {"--devices", "2", "--fix", "tp=2"},
                            {"--devices", "2", "--stages", "2", "--micro-batches", "4"},
                            {"--devices", "4"},
                            {"--devices", "4", "--fix", "dp=4", "--optimizer-parallel", "3:threshold=0"}}) {
    SCOPED_TRACE(join(plan, " "));
    expect_near(losses_under(5, plan), wanted());
  }
}

/// One step of plain gradient descent at rate 1 takes the gradient off the adapters.
TEST_P(EndToEndAdapters, have_pefts_gradients_and_are_saved_under_its_names) {
  const auto ran = outcome_of({"train", model, "--data", at("data.safetensors"), "--precision", "f64",
                               "--optimizer", "sgd", "--lr", "1", "--steps", "1", "--devices", "2", "--init",
                               adapters, "--save-folder", at("saved"), "--json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const SafetensorsFile before = SafetensorsFile::open(adapters),
                        after = SafetensorsFile::open(at("saved/adapter_model.safetensors"));
  ASSERT_EQ(before.names(), after.names());
  const AdaptedJson& norms = reference["f64"]["grad_norms"];
  ASSERT_EQ(before.names().size(), norms.size());
  for (const std::string& name : before.names()) {
    const auto x = to_doubles(before.read(name)), y = to_doubles(after.read(name));
    double squares = 0;
    for (std::size_t i = 0; i < x.size(); ++i) squares += (x[i] - y[i]) * (x[i] - y[i]);
    EXPECT_NEAR(std::sqrt(squares), norms[name].get<double>(), 1e-9) << name;
  }
}

TEST_P(EndToEndAdapters, saved_are_read_again_and_merged_have_the_same_loss) {
  losses_under(4, {"--devices", "2", "--save-folder", at("saved"), "--save-merged", at("merged")});
  const std::vector<double> want{reference["f64"]["loss_after"]};
  expect_near(losses(model, at("data.safetensors"), 1, {"--init", at("saved/adapter_model.safetensors")}),
              want);
  expect_near(losses(at("merged"), at("data.safetensors"), 1, {"--devices", "2", "--fix", "tp=2"}), want);
  EXPECT_FALSE(fs::exists(at("saved/model.safetensors")));
  const AdaptedJson config = AdaptedJson::parse(read_text(at("saved/adapter_config.json")));
  const AdaptedJson theirs =
      AdaptedJson::parse(read_text(adapters_folder + GetParam() + "/adapter_config.json"));
  for (const char* key : {"peft_type", "r", "lora_alpha", "bias", "fan_in_fan_out"})
    EXPECT_EQ(config[key], theirs[key]) << key;
}

INSTANTIATE_TEST_SUITE_P(all, EndToEndAdapters,
                         ::testing::Values("llama_qv", "llama_all", "mistral_kgd", "gpt2_cc"),
                         [](const auto& row) { return row.param; });

const std::string small =
    "lora(llama:layers=2,hidden=16,heads=4,ffn=24,vocab=24,seq=8,batch=8):rank=4,alpha=8,targets=q.v.down";

TEST(Adapters, are_all_that_a_step_has_gradients_and_states_of) {
  const Model model = testing::train_model({.model = small, .optimizer = {.name = "adamw"}});
  const Graph& graph = model.graph;
  std::size_t updated = 0, frozen = 0;
  for (const Update& u : graph.updates) {
    const Node& leaf = graph.node(graph.value(u.leaf).producer);
    EXPECT_FALSE(is_frozen(leaf)) << graph.value(u.leaf).name;
    updated += leaf.op->kind == OpKind::parameter;
  }
  for (const Node& node : graph.nodes) {
    frozen += is_frozen(node);
    for (ValueId v : node.results)
      for (ValueId of : graph.value(v).gradient_of)
        EXPECT_FALSE(is_frozen(graph.node(graph.value(of).producer))) << graph.value(v).name;
    const std::string& name = graph.value(node.results[0]).name;
    const bool is_of_adapter = name.find("lora_") != name.npos;
    EXPECT_TRUE(node.op->kind != OpKind::state || is_of_adapter || name == steps_state) << name;
  }
  EXPECT_EQ(updated, 2U * 3 * 2);  // A and B of three products in each of two layers
  EXPECT_EQ(frozen, 2U * 9 + 3);
}

TEST(EndToEndAdaptersDrawn, plans_have_the_losses_of_one_device) {
  const TrainingRun run{
      .model = small, .file = "", .optimizer = {.name = "adamw"}, .precision = DType::f64, .steps = 4};
  const auto want = testing::run_alone(run);
  for (std::uint64_t seed = 1; seed <= testing::draws(5); ++seed) {
    SCOPED_TRACE(seed);
    testing::expect_same(testing::run_random(run, 4, seed), want, {.losses = 1e-9, .weights = 1e-6});
    testing::expect_same(testing::run_random_pipeline(run, 4, 4, seed), want,
                         {.losses = 1e-9, .weights = 1e-6});
  }
}

struct EndToEndAdaptersKept : ::testing::Test {
  ~EndToEndAdaptersKept() override { fs::remove_all(folder); }
  std::string at(const std::string& name) const { return folder + "/" + name; }

  const std::string folder = scratch_folder();
};

TEST_F(EndToEndAdaptersKept, checkpoints_hold_adapters_alone_and_are_gone_on_from_under_another_plan) {
  const auto train = [&](const Words& more) {
    Words words{"train", small, "--precision", "f64", "--optimizer", "adamw", "--lr", "0.01", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const auto ran = outcome_of(words);
    EXPECT_EQ(ran.status, 0) << ran.err;
    std::vector<double> out;
    for (const std::string_view line : split(ran.out, '\n'))
      if (line.find("\"loss\"") != line.npos) out.push_back(AdaptedJson::parse(line)["loss"]);
    return out;
  };
  const std::vector<double> want = train({"--steps", "6"});
  train({"--steps", "3", "--devices", "2", "--save", at("run")});
  const auto told = outcome_of({"checkpoint", "inspect", at("run"), "--json"});
  ASSERT_EQ(told.status, 0) << told.err;
  const AdaptedJson inspected = AdaptedJson::parse(told.out);
  EXPECT_EQ(inspected["tensors"].size(),
            2U * 3 * 2 * 3 + 1);  // A and B with two states each, and the count of steps
  for (const AdaptedJson& tensor : inspected["tensors"]) {
    const std::string name = tensor["name"];
    EXPECT_TRUE(name.find(".lora_") != name.npos || name == steps_state) << name;
  }
  expect_near(train({"--steps", "6", "--devices", "4", "--resume", at("run")}),
              {want.begin() + 3, want.end()});
}

/// The model that is adapted was trained before, so its weights are of no seed.
TEST_F(EndToEndAdaptersKept, runs_go_on_beside_the_weights_that_they_began_with) {
  const std::string base = small.substr(5, small.rfind(')') - 5);
  const Words how{"--optimizer", "adamw", "--lr", "0.01"};
  const auto run = [&](Words words) {
    words.insert(words.end(), how.begin(), how.end());
    return outcome_of(words);
  };
  ASSERT_EQ(run({"train", base, "--steps", "2", "--save", at("base")}).status, 0);
  const auto begun = run({"train", small, "--steps", "2", "--init", at("base"), "--save", at("run")});
  ASSERT_EQ(begun.status, 0) << begun.err;
  const auto other = run({"train", small, "--steps", "4", "--resume", at("run")});
  EXPECT_EQ(other.status, 2);
  EXPECT_NE(other.err.find("was trained beside other parameters than those that are frozen here"),
            std::string::npos)
      << other.err;
  const auto same =
      run({"train", small, "--steps", "4", "--resume", at("run"), "--init", at("base"), "--devices", "2"});
  EXPECT_EQ(same.status, 0) << same.err;
}

TEST_F(EndToEndAdaptersKept, sentences_are_written_beside_weights_that_are_there) {
  ASSERT_EQ(outcome_of({"train", small, "--steps", "1", "--save", at("run")}).status, 0);
  const auto ran =
      outcome_of({"generate", small, "--checkpoint", at("run"), "--prompt", "1,2", "--tokens", "2"});
  EXPECT_EQ(ran.status, 2);
  EXPECT_NE(ran.err.find("holds what was trained beside 'embedding.weight'"), std::string::npos) << ran.err;
}

TEST_F(EndToEndAdaptersKept, memory_is_what_was_planned_and_less_than_all_parameters_take) {
  const auto summary = [&](const std::string& model) {
    const auto ran = outcome_of({"train", model, "--devices", "2", "--fix", "dp=2", "--steps", "2",
                                 "--optimizer", "adamw", "--json"});
    EXPECT_EQ(ran.status, 0) << ran.err;
    return AdaptedJson::parse(ran.out.substr(ran.out.rfind("{\"summary\"")))["summary"];
  };
  const AdaptedJson adapted = summary(small), whole = summary(small.substr(5, small.rfind(')') - 5));
  EXPECT_EQ(adapted["peak_memory_bytes"]["planned"], adapted["peak_memory_bytes"]["measured"]);
  EXPECT_LT(adapted["arena_bytes_per_device"].get<double>(), whole["arena_bytes_per_device"].get<double>());
  EXPECT_LT(adapted["bytes_communicated_per_step"].get<double>(),
            whole["bytes_communicated_per_step"].get<double>() / 4);
}

}  // namespace
}  // namespace shardwright
