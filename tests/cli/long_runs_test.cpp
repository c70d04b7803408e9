// Runs that are saved, asked and gone on with: what files cannot show that train once.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shardwright/base/text.h"
#include "shardwright/cli/verb.h"
#include "shardwright/runtime/safetensors.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* net = "ffn:batch=4,widths=6-5-3";

class LongRuns : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = scratch_folder();
    samples("data", 12, 2);
  }

  /// A file of samples whose labels are all `label`.
  void samples(const std::string& name, std::int64_t count, double label) {
    std::vector<double> x(static_cast<std::size_t>(count * 6)), y(static_cast<std::size_t>(count), label);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i % 7) / 7;
    write_safetensors(path(name + ".safetensors"), {{"input", make_tensor({DType::f32, {count, 6}}, x)},
                                                    {"label", make_tensor({DType::i32, {count}}, y)}});
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  int run(const std::string& line) {
    std::vector<std::string> words;
    for (std::string_view word : split(line, ' '))
      words.emplace_back(word.starts_with('@') ? path(std::string(word.substr(1))) : std::string(word));
    std::istringstream in;
    std::ostringstream out, err;
    Terminal terminal{in, out, err};
    const int status = run_command(words, terminal);
    out_ = out.str();
    err_ = err.str();
    return status;
  }
  int train(const std::string& line) {
    return run(fmt::format("train {} --data @data.safetensors --json {}", net, line));
  }
  bool said(std::string_view text) const { return err_.find(text) != std::string::npos; }
  std::vector<json> told(const std::string& key) const {
    std::vector<json> out;
    for (std::string_view line : split(out_, '\n'))
      if (const json all = json::parse(line, nullptr, false); all.is_object() && all.contains(key))
        out.push_back(all[key]);
    return out;
  }

  std::string folder_, out_, err_;
};

// The link comes last: a run that is killed before it has a checkpoint that is whole, and goes on from that.
TEST_F(LongRuns, go_on_from_the_last_checkpoint_that_has_a_name) {
  ASSERT_EQ(train("--steps 4 --save @run --save-every 2"), 0) << err_;
  fs::remove(path("run/latest"));
  fs::create_symlink("step-00000002", path("run/latest"));
  ASSERT_EQ(train("--steps 5 --save @run --resume auto"), 0) << err_;
  EXPECT_EQ(told("loss").size(), 1U) << out_;
  EXPECT_EQ(fs::read_symlink(path("run/latest")), "step-00000005");
  EXPECT_TRUE(fs::exists(path("run/step-00000004")));
}

TEST_F(LongRuns, that_have_ended_are_asked_and_saved_elsewhere) {
  ASSERT_EQ(train("--steps 3 --save @run"), 0) << err_;
  ASSERT_EQ(train("--steps 3 --resume @run --save @other --eval @data.safetensors"), 0) << err_;
  EXPECT_EQ(told("eval").size(), 1U) << out_;
  EXPECT_TRUE(fs::exists(path("other/step-00000003"))) << err_;
}

TEST_F(LongRuns, are_asked_at_the_end_of_their_time) {
  ASSERT_EQ(train("--steps 100000000 --time-limit 0.05 --eval @data.safetensors"), 0) << err_;
  EXPECT_EQ(told("eval").size(), 1U);
}

TEST_F(LongRuns, remember_what_was_best_of_one_measure) {
  ASSERT_EQ(train("--steps 2 --save @run --eval @data.safetensors --keep-best loss"), 0) << err_;
  ASSERT_EQ(train("--steps 3 --resume auto --save @run --eval @data.safetensors --keep-best accuracy"), 0);
  EXPECT_EQ(fs::read_symlink(path("run/best")), "step-00000003");
}

TEST_F(LongRuns, tell_what_goes_on_otherwise) {
  ASSERT_EQ(train("--steps 2 --save @run --optimizer adam --lr-schedule cosine"), 0) << err_;
  ASSERT_EQ(train("--steps 3 --resume @run --optimizer adamw"), 0) << err_;
  EXPECT_TRUE(said("the learning rate's schedule was cosine and is constant from here on")) << err_;
  EXPECT_TRUE(said("the optimizer was adam and is adamw from here on")) << err_;
}

TEST_F(LongRuns, refuse_a_folder_that_is_a_checkpoint) {
  ASSERT_EQ(train("--steps 1 --save @run"), 0) << err_;
  EXPECT_EQ(train("--steps 1 --save @run/step-00000001"), 2);
  EXPECT_TRUE(said("is a checkpoint; give the folder of a run")) << err_;
}

TEST_F(LongRuns, refuse_held_out_labels_before_the_first_step) {
  samples("wrong", 8, 7);
  EXPECT_EQ(train("--steps 2 --eval @wrong.safetensors"), 2);
  EXPECT_TRUE(said("'label' holds 7, but the network knows 3 classes")) << err_;
  EXPECT_TRUE(out_.empty());
}

TEST_F(LongRuns, keep_the_norm_of_gradients_in_every_precision) {
  for (const char* precision : {"f64", "bf16", "pure-fp16"})
    EXPECT_EQ(train(fmt::format("--steps 1 --tensorboard @events --precision {}", precision)), 0) << err_;
}

// A warm-up is a share of all steps, whatever is run now.
TEST_F(LongRuns, warm_up_for_a_share_of_their_steps) {
  ASSERT_EQ(train("--steps 10 --lr 0.1 --warmup 40%"), 0) << err_;
  const std::vector<json> rates = told("lr");
  ASSERT_EQ(rates.size(), 10U);
  EXPECT_EQ(rates[0], 0.025);
  EXPECT_EQ(rates[2].get<double>(), 0.1 * 3 / 4);
  EXPECT_EQ(rates[4], 0.1);
}

// Beside a new checkpoint stands nothing of ours but it, and nothing of the user's is touched.
TEST_F(LongRuns, tools_leave_other_folders_alone) {
  ASSERT_EQ(train("--steps 1 --optimizer adam --save @run"), 0) << err_;
  fs::create_directory(path("whole.unfinished"));
  ASSERT_EQ(run("checkpoint merge @run @whole/"), 0) << err_;
  EXPECT_TRUE(fs::exists(path("whole.unfinished")));
  ASSERT_EQ(run("checkpoint merge @run @all.safetensors --states"), 0) << err_;
  EXPECT_EQ(run(fmt::format("infer {} --checkpoint @all.safetensors --data @data.safetensors", net)), 0)
      << err_;
  ASSERT_EQ(run("checkpoint convert @all.safetensors @again"), 0) << err_;
  EXPECT_EQ(train("--steps 1 --init @again"), 0) << err_;
  EXPECT_EQ(train("--steps 2 --optimizer adam --resume @again"), 2);
  EXPECT_TRUE(said("holds the weights of a file and no run")) << err_;
}

TEST_F(LongRuns, batches_are_not_filled_with_copies_without_end) {
  ASSERT_EQ(train("--steps 1 --save @run"), 0) << err_;
  EXPECT_EQ(
      run(fmt::format("infer {} --checkpoint @run --data @data.safetensors --batch-size 100000000", net)), 2);
  EXPECT_TRUE(said("has 12 samples, but a batch takes 100000000; give --batch-size 12")) << err_;
}

// All of it by the keys of a file.
TEST_F(LongRuns, take_their_settings_from_a_configuration) {
  std::ofstream(path("c.yaml")) << fmt::format(R"(
seed: 3
output_dir: {0}/out
train_dataset: {{data_loader: {{dataset_dir: {0}/data.safetensors}}}}
eval_dataset: {{data_loader: {{dataset_dir: {0}/data.safetensors}}}}
do_eval: True
eval_step_interval: 2
optimizer: {{type: AdamW, betas: [0.9, 0.95], weight_decay: 0.1}}
lr_schedule: {{type: CosineWithWarmUpLR, learning_rate: 0.1, warmup_ratio: 0.5}}
callbacks:
  - {{type: CheckpointMonitor, save_checkpoint_steps: 2, keep_checkpoint_max: 1}}
  - {{type: SummaryMonitor}}
)",
                                               folder_);
  ASSERT_EQ(run(fmt::format("train {} --steps 4 --json --config @c.yaml", net)), 0) << err_;
  EXPECT_EQ(told("eval").size(), 2U);
  EXPECT_EQ(told("lr")[0], 0.05);
  EXPECT_TRUE(fs::exists(path("out/checkpoint/step-00000004")));
  EXPECT_FALSE(fs::exists(path("out/checkpoint/step-00000002")));
  EXPECT_FALSE(fs::is_empty(path("out/summary")));
  const std::string with_resume = "load_checkpoint: " + path("out/checkpoint") + "\nresume_training: True\n";
  std::ofstream(path("d.yaml")) << with_resume << "optimizer: {type: AdamW}\n";
  ASSERT_EQ(train("--steps 5 --config @d.yaml"), 0) << err_;
  EXPECT_EQ(told("loss").size(), 1U) << out_;
  ASSERT_EQ(train("--steps 2 --config @d.yaml --init @out/checkpoint"), 0) << err_;
  EXPECT_TRUE(said("load_checkpoint (--resume) has no effect: --init says what to start from")) << err_;
  EXPECT_EQ(run(fmt::format("plan {} --devices 2 --config @c.yaml", net)), 0) << err_;
  ASSERT_EQ(train("--steps 1 --config @c.yaml --optimizer sgd --save @more"), 0) << err_;
  EXPECT_TRUE(said("optimizer.betas (--beta1) has no effect: the optimizer is sgd")) << err_;
}

}  // namespace
}  // namespace shardwright
