// Replay: plans and programs of networks by name and of all examples are committed text, tests/replay/NAME.txt, and are
// derived again here. A refactoring changes none of them (README.md).

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "shardwright/base/text.h"
#include "shardwright/cli/verb.h"
#include "tests/replay/replay_text.h"
#include "tests/support/golden.h"
#include "tests/support/scratch.h"
#include "tests/support/verified_command.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

/// What they do beside the steps needs a session.
const std::set<std::string> not_replayed{"07_checkpoints", "08_training_loop"};

struct Case {
  std::string name;
  std::string flags;  // of `shardwright plan` and `shardwright lower`; empty: the example of that name
};

const std::vector<Case> cases{
    {"ffn_dp2", "ffn --devices 2 --parallel data_parallel"},
    {"ffn_dp4_adam_state",
     "ffn --devices 4 --parallel data_parallel --optimizer adam --optimizer-parallel 1:threshold=0"},
    {"ffn_dp8_adam_weights",
     "ffn --devices 8 --parallel data_parallel --optimizer adam --optimizer-parallel 3:threshold=0"},
    {"ffn_auto4", "ffn --devices 4 --search recursive"},
    {"ffn_propagation4", "ffn --devices 4 --search propagation"},
    {"ffn_auto8_wide", "ffn:batch=8,widths=784-4096-4096-10 --devices 8 --search recursive"},
    {"ffn_auto6", "ffn:batch=32,widths=768-384-96-12 --devices 6 --search recursive"},
    {"ffn_annotated8", "ffn --devices 8 --annotate examples/annotations/ffn_seed000.json"},
    {"ffn_annotated8_semi",
     "ffn --devices 8 --parallel semi_auto_parallel --annotate examples/annotations/ffn_seed000.json"},
    {"three_layer_dp8", "three_layer --devices 8 --parallel data_parallel --optimizer momentum"},
    {"three_layer_full_batch4", "three_layer --devices 4 --dataset-strategy full_batch"},
    {"three_layer_layouts8", "three_layer --devices 8 --annotate examples/annotations/layouts.json"},
    {"three_layer_layouts8_adam_state",
     "three_layer --devices 8 --annotate examples/annotations/layouts.json --optimizer adam "
     "--optimizer-parallel 1:threshold=0"},
    {"three_layer_layouts8_adam_weights",
     "three_layer --devices 8 --annotate examples/annotations/layouts.json --optimizer adam "
     "--optimizer-parallel 3:threshold=0"},
    {"three_layer_seed001",
     "three_layer --devices 8 --parallel semi_auto_parallel --annotate "
     "examples/annotations/three_layer_seed001.json"},
    {"three_layer_mae_auto4", "three_layer_mae --devices 4 --search recursive"},
    {"three_layer_mae_dp2_adamw", "three_layer_mae --devices 2 --parallel data_parallel --optimizer adamw"},
    {"matmul_chain_1", "matmul_chain"},
    {"matmul_chain_auto2", "matmul_chain --devices 2 --search recursive"},
    {"matmul_chain_auto4_tall", "matmul_chain:batch=2048,widths=64-64-64 --devices 4 --search recursive"},
    {"matmul_chain_exhaustive2", "matmul_chain --devices 2 --search exhaustive"},
    {"dense_matmul_reid4", "dense_matmul:form=reid --devices 4"},
    {"dense_matmul_dlrm4", "dense_matmul:form=dlrm --devices 4"},
    {"dense_matmul_transformer4", "dense_matmul:form=transformer --devices 4"},
    {"dense_matmul_transformer4_weights",
     "dense_matmul:form=transformer --devices 4 --optimizer-parallel 3:threshold=0"},
    {"gpt_tp4_selected",
     "gpt:layers=2,hidden=32,heads=4,vocab=64,seq=16,batch=8 --devices 4 --optimizer adamw --recompute "
     "selected --search recursive"},
    {"llama_dp8_weights",
     "llama:layers=2,hidden=32,heads=4,ffn=64,vocab=64,seq=16,batch=8 --devices 8 --parallel data_parallel "
     "--optimizer adamw --optimizer-parallel 3:threshold=0 --recompute full"},
    {"llama_accumulated4",
     "llama:layers=2,hidden=32,heads=4,ffn=64,vocab=64,seq=16,batch=8 --devices 4 --accumulate 2 "
     "--optimizer-parallel 2:threshold=0 --clip-norm 1 --search recursive"},
    {"gpt_stages8",
     "gpt:layers=4,hidden=32,heads=4,vocab=64,seq=16,batch=8 --devices 8 --stages 2 --micro-batches 4 "
     "--search recursive"},
    {"llama_interleaved4",
     "llama:layers=4,hidden=32,heads=4,ffn=64,vocab=64,seq=16,batch=8 --devices 4 --stages 2 --micro-batches "
     "4 "
     "--schedule interleaved:2 --precision bf16 --optimizer adamw --search recursive"},
    {"resnet18_dp4", "resnet18:width=8,image=16,batch=8 --devices 4 --optimizer momentum --search recursive"},
    {"00_first_steps", ""},
    {"01_ffn_propagation", ""},
    {"02_three_layer_mae", ""},
    {"03_layouts", ""},
    {"04_dense_matmul", ""},
    {"05_functional_sharding", ""},
    {"06_high_resolution", ""},
};

std::string printed(const std::string& command) {
  std::vector<std::string> words;
  for (std::string_view word : split(command, ' ')) words.emplace_back(word);
  std::istringstream in;
  std::ostringstream out, err;
  Terminal terminal{in, out, err};
  if (testing::run_verified(words, terminal) != 0) throw error("{}: {}", command, err.str());
  return out.str();
}

std::string text_of_command(const std::string& flags) {
  const std::string document = printed("plan " + flags + " --json");
  return "$ shardwright plan|lower " + flags + "\n" +
         replay_text(parse_plan(document, flags), printed("lower " + flags),
                     nlohmann::json::parse(document).at("step_seconds"));
}

/// What stands beside this test's program.
std::string program_called(const std::string& name) {
  return (fs::read_symlink("/proc/self/exe").parent_path() / name).string();
}

/// What the example prints with recording_train_step.cpp in place of training, but its losses.
std::string text_of_example(const std::string& program) {
  std::FILE* const pipe = ::popen((program + " 2>&1").c_str(), "r");
  if (!pipe) throw io_error("{}: cannot be started", program);
  std::string all;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) all += static_cast<char>(c);
  if (::pclose(pipe) != 0) throw error("{}: {}", program, all);
  std::string out;
  for (std::string_view line : split(all, '\n'))
    if (line.find("loss is ") == line.npos) out += std::string(line) + "\n";
  out.pop_back();
  return out;
}

/// The predictions in `text`, in their order.
std::vector<double> predictions(std::string_view text) {
  std::vector<double> out;
  for (std::string_view line : split(text, '\n'))
    if (line.starts_with(prediction)) out.push_back(std::stod(std::string(line.substr(prediction.size()))));
  return out;
}

/// The lines of a diff that have changed, and one before and behind them.
std::string changed_lines(const std::string& diff) {
  const auto lines = split(diff, '\n');
  const auto is_changed = [&](std::size_t i) {
    return i < lines.size() && (lines[i].starts_with("- ") || lines[i].starts_with("+ "));
  };
  std::string out;
  bool is_gap = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (is_changed(i) || is_changed(i + 1) || (i > 0 && is_changed(i - 1))) {
      out += fmt::format("{}{}\n", is_gap ? "  ...\n" : "", lines[i]);
      is_gap = false;
    } else {
      is_gap = true;
    }
  }
  return out;
}

/// How `got` differs from `want`: changed lines with their neighbours, and what it does to the predicted cost.
std::string replay_difference(const std::string& want, const std::string& got) {
  std::string out = changed_lines(diff(want, got));
  const std::vector<double> before = predictions(want), after = predictions(got);
  for (std::size_t i = 0; i < before.size() && i < after.size(); ++i)
    out += before[i] == after[i] ? fmt::format("predicted cost: {} s a step, as before\n", before[i])
                                 : fmt::format("predicted cost: {} -> {} s a step ({:+.2f} %)\n", before[i],
                                               after[i], 100 * (after[i] / before[i] - 1));
  return out;
}

class ReplayTest : public ::testing::Test {
 public:
  explicit ReplayTest(const Case& c) : case_(c) {}

  void TestBody() override {
    ::unsetenv("DATA_PATH");  // NOLINT(concurrency-mt-unsafe): no thread runs yet
    const std::string example = program_called("replay_" + case_.name);
    if (case_.flags.empty() && !fs::exists(example)) GTEST_SKIP() << "built without examples";
    const std::string got = case_.flags.empty() ? text_of_example(example) : text_of_command(case_.flags);
    const std::string path = "tests/replay/" + case_.name + ".txt", want = read_bytes(path);
    if (got == want) return;
    if (std::getenv("SHARDWRIGHT_UPDATE_GOLDENS")) return write_bytes(path, got);
    FAIL() << path
           << "  (- committed, + derived; ONEDNN_MAX_CPU_ISA=AVX2 SHARDWRIGHT_UPDATE_GOLDENS=1 accepts it)\n"
           << replay_difference(want, got);
  }

 private:
  Case case_;
};

TEST(Replay, every_file_has_a_case_and_every_example_is_one) {
  std::set<std::string> names;
  for (const Case& c : cases) names.insert(c.name);
  for (const auto& entry : fs::directory_iterator("tests/replay"))
    EXPECT_TRUE(entry.path().extension() != ".txt" || names.contains(entry.path().stem())) << entry.path();
  for (const auto& entry : fs::directory_iterator("examples"))
    EXPECT_TRUE(entry.path().extension() != ".cpp" || not_replayed.contains(entry.path().stem().string()) ||
                names.contains(entry.path().stem()))
        << entry.path();
}

TEST(Replay, a_difference_shows_its_lines_and_its_cost) {
  const std::string want = "predicted seconds of a step: 2e-05\na\nb\nc\nd\ne\nf\n";
  EXPECT_EQ(replay_difference(want, want), "predicted cost: 2e-05 s a step, as before\n");
  EXPECT_EQ(replay_difference(want, "predicted seconds of a step: 3e-05\na\nb\nc\nd\nx\nf\n"),
            "- predicted seconds of a step: 2e-05\n+ predicted seconds of a step: 3e-05\n  a\n  ...\n  d\n- "
            "e\n+ x\n"
            "  f\npredicted cost: 2e-05 -> 3e-05 s a step (+50.00 %)\n");
}

[[maybe_unused]] const bool is_registered = [] {
  for (const Case& c : cases)
    ::testing::RegisterTest("replay", c.name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [&c]() -> ::testing::Test* { return new ReplayTest(c); });
  return true;
}();

}  // namespace
}  // namespace shardwright
