// No flag is taken and ignored: every flag of every verb, beside command lines of all kinds, changes what the command
// prints or writes, or is told on standard error.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "shardwright/base/text.h"
#include "shardwright/cli/asked.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/verb.h"
#include "shardwright/runtime/safetensors.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

struct Outcome {
  int status = 0;
  std::string out;  // with the files that were written, without what differs from run to run
  std::string err;
};

const std::string decoder = "llama:layers=1,hidden=16,heads=4,ffn=16,vocab=16,seq=32,batch=4";

class Heeded : public testing::Test {
 protected:
  Heeded() : folder_(scratch_folder()) {
    old_ = fs::current_path();
    fs::current_path(folder_);
    write_bytes("a.json", R"({"matmul1": {"in": [[2, 1], [1, 1]]}})");
    write_bytes("s.json",
                R"({"parallel_strategy_item": {"matmul1": {"parallel_strategy": [[2, 1], [1, 1]]}}})");
    write_bytes("m.csv", "step,1\n");
    fs::copy_file(old_ / "tests/reference/tokenizer/gpt2_style.json", "tokenizer.json");
    write_bytes("a.txt", "the quiet river\n");
    write_bytes("a.jsonl", "{\"text\": \"the\", \"body\": \"a river\"}\n");
    write_bytes("c.yaml", "parallel: {parallel_mode: 0}\n");
    write_bytes(
        "r.sh",
        "ARGS=(--tensor-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 8 --num-layers 1 "
        "--hidden-size 16 --num-attention-heads 4 --ffn-hidden-size 16 --vocab-size 16 --seq-length 32 "
        "--swiglu --normalization RMSNorm --position-embedding-type rope)\n");
    write_bytes(
        "two.graph",
        "%input = input f32[8, 16]\n%label = input f32[8, 16]\n%w1 = param f32[16, 16] (init=normal)\n"
        "%matmul1 = matmul %input, %w1\n%loss = mean_squared_error %matmul1, %label\noutput %loss\n");
    write_bytes("split.graph",
                "mesh [tp=2]\n%x = input f32[4, 8]\n%w = param f32[8, 2]\n%y = matmul %x, %w {m: tp}\n"
                "%z = reduce_sum %y {}\noutput %z\n");
    EXPECT_EQ(run({"plan", model, "--devices", "2", "-o", "p.json"}).status, 0);
    EXPECT_EQ(run({"plan", model, "--devices", "2", "-o", "q.json"}).status, 0);
    EXPECT_EQ(run({"simulate", model, "--devices", "2", "--trace", "t.json"}).status, 0);
    EXPECT_EQ(run({"train", model, "--steps", "2", "--optimizer", "adam", "--save", "saved"}).status, 0);
    EXPECT_EQ(run({"train", decoder, "--steps", "1", "--save", "decoder"}).status, 0);
    std::vector<double> numbers(20 * 16);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<double>(i));
    write_safetensors("eval.safetensors", {{"input", make_tensor({DType::f32, {20, 16}}, numbers)},
                                           {"label", make_tensor({DType::f32, {20, 16}}, numbers)}});
  }
  ~Heeded() override { fs::current_path(old_); }

  static Outcome run(const Words& words) {
    fs::remove_all("written");
    fs::create_directory("written");
    std::istringstream in;
    std::ostringstream out, err;
    Terminal terminal{in, out, err};
    const int status = run_command(words, terminal);
    std::string all = out.str();
    for (const auto& entry : fs::recursive_directory_iterator("written"))
      if (entry.is_regular_file())
        all += entry.path().string() +
               (words[0] == "data" || words[0] == "emit" || words[0] == "export" || words[0] == "tokenize"
                    ? read_bytes(entry.path().string())
                    : "");
    static const std::regex varying(
        R"re("(search_seconds|median_step_seconds|processes|seconds|pause_seconds|tokens_per_second|seconds_per_token|first_token_seconds)": ?(\[[^\]]*\]|[^,}]*)|, [^,]* ms a step|samples in [^ ]* [mun]?s)re");
    return {status, std::regex_replace(all, varying, ""), err.str()};
  }

  /// A value that is not the usual one, for most models.
  static std::string value_of(const std::string& flag) {
    static const std::map<std::string, std::string> values{{"--devices", "4"},
                                                           {"--cluster", "a100-80g:2"},
                                                           {"--auto-pipeline", "0"},
                                                           {"--parallel", "data_parallel"},
                                                           {"--set", "dp=2,tp=2"},
                                                           {"--framework", "megatron"},
                                                           {"--attention", "explicit"},
                                                           {"--search", "propagation"},
                                                           {"--plan", "p.json"},
                                                           {"--config", "c.yaml"},
                                                           {"--annotate", "a.json"},
                                                           {"--strategy", "s.json"},
                                                           {"--save-strategy", "written/s.json"},
                                                           {"--global-batch", "24"},
                                                           {"--dataset-strategy", "full_batch"},
                                                           {"--precision", "f64"},
                                                           {"--reduce-precision", "short"},
                                                           {"--stages", "2"},
                                                           {"--micro-batches", "4"},
                                                           {"--micro-batch-interleave", "2"},
                                                           {"--schedule", "gpipe"},
                                                           {"--optimizer-parallel", "1:threshold=0"},
                                                           {"--comm-fusion", "size:1"},
                                                           {"--recompute", "full"},
                                                           {"--offload", "optimizer"},
                                                           {"--mem-coeff", "7"},
                                                           {"--fix", "pp=2"},
                                                           {"--search-time", "0"},
                                                           {"--objective", "devices"},
                                                           {"--target-step", "1s"},
                                                           {"--over", "1,2"},
                                                           {"--why-not", "micro_batches=2"},
                                                           {"--measured", "m.csv"},
                                                           {"--costs", "symbolic"},
                                                           {"--search-order", "weight"},
                                                           {"--fold-layers", "0"},
                                                           {"--fully-use-devices", "1"},
                                                           {"--elementwise-follow", "1"},
                                                           {"--approximate", "1"},
                                                           {"--approximation", "0.5"},
                                                           {"--align-slices", "1"},
                                                           {"--slice-size", "64"},
                                                           {"--memory-cap", "2KB"},
                                                           {"--device-memory", "2KB"},
                                                           {"--routing-imbalance", "1.5"},
                                                           {"--memory-margin", "99.99999%"},
                                                           {"--optimizer", "adam"},
                                                           {"--lr", "0.5"},
                                                           {"--momentum", "0.25"},
                                                           {"--weight-decay", "0.25"},
                                                           {"--beta1", "0.5"},
                                                           {"--beta2", "0.5"},
                                                           {"--epsilon", "0.25"},
                                                           {"--clip-norm", "0.001"},
                                                           {"--loss-scale", "8"},
                                                           {"--loss", "mean_absolute_error"},
                                                           {"-o", "written/p.json"},
                                                           {"--model", decoder},
                                                           {"--html", "written/p.html"},
                                                           {"--dump-passes", "written"},
                                                           {"--schedule-csv", "written/s.csv"},
                                                           {"--trace", "written/t.json"},
                                                           {"--data", "missing.safetensors"},
                                                           {"--init", "missing.safetensors"},
                                                           {"--save", "written/c"},
                                                           {"--save-every", "2"},
                                                           {"--save-folder", "written/f"},
                                                           {"--save-merged", "written/m"},
                                                           {"--keep", "1"},
                                                           {"--resume", "missing"},
                                                           {"--lr-schedule", "linear"},
                                                           {"--warmup", "2"},
                                                           {"--eval", "eval.safetensors"},
                                                           {"--eval-every", "2"},
                                                           {"--keep-best", "loss"},
                                                           {"--tensorboard", "written/t"},
                                                           {"--time-limit", "0.000001"},
                                                           {"--timeout", "30s"},
                                                           {"--hosts", "missing"},
                                                           {"--rank-table", "missing"},
                                                           {"--master-addr", "h0"},
                                                           {"--master-port", "9000"},
                                                           {"--nodes", "2"},
                                                           {"--node-rank", "0"},
                                                           {"--net", "eth1"},
                                                           {"--log-dir", "written/logs"},
                                                           {"--restarts", "2"},
                                                           {"--survive", "1"},
                                                           {"--survive-every", "2"},
                                                           {"--check-replicas", "1"},
                                                           {"--deterministic-check", ""},
                                                           {"--checkpoint", "weights.safetensors"},
                                                           {"--states", ""},
                                                           {"--prompt", "1,2"},
                                                           {"--text", "ab"},
                                                           {"--tokenizer", "tokenizer.json"},
                                                           {"--key", "body"},
                                                           {"--end", "none"},
                                                           {"--buckets", "4,8"},
                                                           {"--check", "a.txt"},
                                                           {"--tokens", "3"},
                                                           {"--temperature", "2"},
                                                           {"--top-k", "2"},
                                                           {"--top-p", "0.5"},
                                                           {"--stop", "0,1,2,3,4,5"},
                                                           {"--steps", "4"},
                                                           {"--epochs", "2"},
                                                           {"--seed", "7"},
                                                           {"--log-every", "3"},
                                                           {"--runtime", "none"},
                                                           {"--out", "written/other"},
                                                           {"--classes", "100"},
                                                           {"--vocabulary", "16"},
                                                           {"--train", "9"},
                                                           {"--test", "9"},
                                                           {"--device-matrix", "4,2"},
                                                           {"--names", "x,y"},
                                                           {"--map", "b,a"},
                                                           {"--from", "b,None"},
                                                           {"--to", "b,None"},
                                                           {"--to-device-matrix", "4,2"},
                                                           {"--to-names", "c,d"},
                                                           {"--shape", "16,16"}};
    const auto it = values.find(flag);
    EXPECT_NE(it, values.end()) << "a value for " << flag << " is missing in this test";
    return it == values.end() ? "" : it->second;
  }

  static bool has(const Words& words, const std::string& word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  }

  /// A choice among plans may come to the plan that there is without it, and a proof says little of what it proves;
  /// but where there is nothing to choose, on one device each, that is told.
  static bool may_come_to_the_same(const Flag& flag, const Words& words) {
    static const std::set<std::string> always{
        "--cluster",       "--parallel", "--config",  check_of_ourselves, "--plan", "--devices",
        "--recompute",     "--search",   "--timeout", "--check-replicas",  // nobody is late here
        "--overlap-tensor"};                                               // where no product waits
    static const std::set<std::string> choices{
        "--dataset-strategy",   "--comm-fusion",   "--mem-coeff",   "--costs",
        "--search-order",       "--fold-layers",   "--described",   "--fully-use-devices",
        "--elementwise-follow", "--auto-pipeline", "--approximate", "--approximation",
        "--align-slices",       "--slice-size"};
    static const std::set<std::string> of_a_proof{"--lr", "--weight-decay", "--loss", "--schedule",
                                                  "--reduce-precision"};
    // Where a graph says how it is split, that includes fusion; memory is judged in all verbs but show.
    if (has(words, "split.graph")) return flag.name != "--precision";
    const bool is_alone = !has(words, "--devices") || has(words, "--stages");
    if (has(words, "--summary") && flag.name == "--loss") return true;  // as many operators
    // The search may choose one micro-batch, of which there is no order, and may try the best first; that stages stay is said
    // already.
    static const std::set<std::string> of_stages{"--schedule", "--fix", "--auto-pipeline", "--search-time"};
    if (has(words, "--stages") && of_stages.contains(flag.name)) return true;
    // The largest score may be the same in other types.
    if (words[0] == "infer" && flag.name == "--global-batch") return true;  // what a pass takes at once
    if (words[0] == "infer" && flag.name == "--stages")
      return true;  // predictions are the same, their plan is not seen
    if (words[0] == "generate" && flag.name == "--precision") return true;
    return always.contains(flag.name) || (choices.contains(flag.name) && !is_alone) ||
           (words[0] == "show" && flag.name.find("memory") != flag.name.npos && !is_alone) ||
           (words[0] == "verify" && of_a_proof.contains(flag.name));
  }

  /// With the flag the command tells something, or does something else. Returns whether it was so.
  static bool check(const Flag& flag, const Words& words, const Outcome& without) {
    if (has(words, flag.name)) return false;
    // Behind `--` it would be another program's.
    Words with(words.begin(), std::find(words.begin(), words.end(), "--"));
    const auto rest = static_cast<std::ptrdiff_t>(with.size());
    with.push_back(flag.name);
    if (!flag.value.empty()) with.push_back(value_of(flag.name));
    with.insert(with.end(), words.begin() + rest, words.end());
    const Outcome outcome = run(with);
    const bool is_told = outcome.err.find(flag.name) != std::string::npos ||
                         (outcome.status == 2 && std::ranges::count(outcome.err, '\n') == 1);
    const bool is_loud = is_told || outcome.out != without.out || outcome.err != without.err;
    EXPECT_TRUE(is_loud || may_come_to_the_same(flag, words)) << "silence: " << join(with, " ");
    const bool is_refused = outcome.status == 2 && outcome.out.find("infeasible") == std::string::npos;
    if (is_refused) {
      EXPECT_EQ(outcome.out, "") << join(with, " ") << " prints before it refuses";
    }
    EXPECT_TRUE(outcome.status == 0 || outcome.status == 2) << join(with, " ") << ": " << outcome.err;
    return is_loud;
  }

  inline static const std::string check_of_ourselves = "--verify-passes";  // silent where we are right
  inline static const std::string model = "matmul_chain:widths=16-16-16-16,batch=8";
  std::string folder_;
  fs::path old_;
};

/// Command lines that work, by verb: other modes, a graph as text, one device, a saved plan.
std::vector<Words> command_lines(const std::string& verb, const std::string& model) {
  if (verb == "models") return {{verb}};
  if (verb == "describe") return {{verb, "bash"}};
  if (verb == "clusters") return {{verb}, {verb, "h100:8"}};
  if (verb == "data")
    return {{verb, "digits", "--out", "written", "--train", "8", "--test", "8"},
            {verb, "cifar", "--out", "written", "--train", "8", "--test", "8"},
            {verb, "images", "--out", "written", "--train", "8", "--test", "8"},
            {verb, "sentences", "--out", "written", "--train", "8", "--test", "8"},
            {verb, "tokens", "--out", "written", "--train", "80", "--test", "80"}};
  // What starts processes is tested by launch_test.sh: here they would be this test's.
  if (verb == "launch")
    return {
        {verb, "--slurm", "--devices", "2", "--", "train", model, "--save", "saved"},
        {verb, "--kubernetes", "--devices", "2", "--restarts", "1", "--", "train", model, "--save", "saved"}};
  if (verb == "tokenize")
    return {{verb, "tokenizer.json", "a.txt", "-o", "written/t.bin"},
            {verb, "tokenizer.json", "a.jsonl", "a.txt", "-o", "written/t.npy"}};
  if (verb == "layout")
    return {
        {verb, "--device-matrix", "2,4", "--names", "a,b", "--map", "a,b", "--shape", "8,8"},
        {verb, "--device-matrix", "2,4", "--names", "a,b", "--from", "a,b", "--to", "b,a", "--shape", "8,8"}};
  if (verb == "calibrate")
    return {{verb, "--out", "written/c.yaml", "--quick"},
            {verb, "--from", "t.json", "--out", "written/c.yaml"}};
  if (verb == "checkpoint")
    return {{verb, "inspect", "saved"},
            {verb, "verify", "saved"},
            {verb, "convert", "saved", "written/c"},
            {verb, "merge", "saved", "written/m.safetensors"},
            {verb, "diff", "saved", "saved"}};
  if (verb == "infer")
    return {{verb, model, "--checkpoint", "saved", "--data", "eval.safetensors", "--json"},
            {verb, model, "--checkpoint", "saved", "--data", "eval.safetensors", "--devices", "2"}};
  if (verb == "generate")
    return {{verb, decoder, "--checkpoint", "decoder", "--prompt", "1,2;3", "--json"},
            {verb, decoder, "--checkpoint", "decoder", "--prompt", "1,2", "--devices", "4", "--temperature",
             "1"}};
  if (verb == "explain")
    return {{verb, "p.json"},
            {verb, "p.json", "matmul1"},
            {verb, "p.json", "zero"},
            {verb, "p.json", "--why-not", "micro_batches=2"},
            {verb, "p.json", "--why-not", "micro_batches=1"}};
  if (verb == "import") return {{verb, "r.sh", "--cluster", "cpu:2", "-o", "written/i.json"}};
  if (verb == "advise") return {{verb, "r.sh", "--cluster", "cpu:2"}};
  if (verb == "diff") return {{verb, "p.json", "p.json"}, {verb, "p.json", "q.json"}};
  std::vector<Words> out;
  // Where all plans are looked at, or many, of a network that has few of them.
  const std::string small = "matmul_chain:widths=16-16-16,batch=8";
  std::vector<Words> kinds{{model},
                           {model, "--devices", "2"},
                           {model, "--devices", "2", "--parallel", "data_parallel"},
                           {small, "--devices", "4", "--search", "exhaustive"},
                           {small, "--devices", "4", "--search", "auto"},
                           {small, "--devices", "4", "--search", "recursive"},
                           {model, "--devices", "2", "--stages", "2"},
                           {model, "--micro-batches", "2"},
                           {model, "--devices", "2", "--parallel", "data_parallel", "--precision", "bf16"},
                           {model, "--plan", "q.json"},
                           {"two.graph", "--devices", "2"}};
  if (verb == "estimate" || verb == "simulate" || verb == "verify") kinds.push_back({"p.json"});
  for (Words& kind : kinds) {
    if (verb == "show" && std::find(kind.begin(), kind.end(), "--stages") != kind.end()) continue;
    Words words{verb};
    words.insert(words.end(), kind.begin(), kind.end());
    if (verb == "emit") words.insert(words.end(), {"--to", "torch", "-o", "written/package"});
    if (verb == "export") words.insert(words.end(), {"--to", "yaml"});
    if (verb == "train") words.insert(words.end(), {"--steps", "3", "--json"});
    if (verb == "plan" || verb == "estimate" || verb == "simulate") words.emplace_back("--json");
    // What only says how a plan runs is told of by text that has the plan.
    if (verb == "show") words.emplace_back("--layouts");
    out.push_back(std::move(words));
  }
  if (verb == "lower") {
    out.push_back({verb, "split.graph"});
    out.push_back({verb, model, "--devices", "2", "--forward"});
  }
  if (verb == "show") {
    out.push_back({verb, model});
    out.push_back({verb, model, "--train"});
    out.push_back({verb, model, "--summary"});
    out.push_back({verb, "split.graph"});
    out.push_back({verb, "two.graph"});
    out.push_back({verb, model, "--devices", "2", "--layouts", "--json"});
  }
  return out;
}

/// Of one verb each; it trains a little, and takes long.
class EndToEndHeeded : public Heeded, public testing::WithParamInterface<const Verb*> {};

TEST_P(EndToEndHeeded, every_flag_has_an_effect_or_is_told) {
  const Verb& verb = *GetParam();
  std::set<std::string> loud;
  for (const Words& words : command_lines(verb.name, model)) {
    const Outcome without = run(words);
    EXPECT_EQ(without.status, 0) << join(words, " ") << ": " << without.err;
    for (const Flag& flag : verb.flags)
      if (check(flag, words, without) || has(words, flag.name)) loud.insert(flag.name);
  }
  // Who asks a network sees no plan; the samples' time, which it prints, is another each time.
  const std::set<std::string> of_an_unseen_plan{"--cluster", "--parallel", "--stages"};
  for (const Flag& flag : verb.flags)
    EXPECT_TRUE(loud.contains(flag.name) || flag.name == check_of_ourselves ||
                (verb.name == "infer" && of_an_unseen_plan.contains(flag.name)) ||
                (verb.name == "generate" && flag.name == "--precision"))  // the same tokens may be likeliest
        << verb.name << " " << flag.name << " never has an effect";
}

std::vector<const Verb*> each_verb() {
  std::vector<const Verb*> out;
  for (const Verb& verb : all_verbs()) out.push_back(&verb);
  return out;
}

INSTANTIATE_TEST_SUITE_P(all, EndToEndHeeded, testing::ValuesIn(each_verb()),
                         [](const auto& verb) { return std::string(verb.param->name); });

/// What else a flag may be given with: nothing is lost without a word.
TEST_F(Heeded, what_a_graph_as_text_says_itself_may_be_repeated_but_not_changed) {
  for (const char* verb : {"plan", "train", "lower", "show", "estimate", "verify"}) {
    EXPECT_EQ(run({verb, "two.graph", "--precision", "f32", "--batch-size", "8"}).status, 0) << verb;
    EXPECT_EQ(run({verb, "two.graph", "--precision", "f64"}).err,
              "shardwright: --precision f64 but two.graph, a graph as text, has f32\n");
    EXPECT_EQ(run({verb, "two.graph", "--batch-size", "64"}).err,
              "shardwright: --batch-size 64 but two.graph, a graph as text, has 8\n");
    EXPECT_EQ(run({verb, "two.graph", "--loss", "cross_entropy"}).err,
              "shardwright: --loss cross_entropy but two.graph, a graph as text, has a loss of its own\n");
  }
}

TEST_F(Heeded, a_plan_says_of_which_precision_batch_loss_and_optimizer_its_network_is) {
  ASSERT_EQ(run({"plan", model, "--devices", "2", "--optimizer", "adam", "--lr", "0.05", "--clip-norm", "2",
                 "--precision", "f64", "-o", "r.json"})
                .status,
            0);
  for (const char* verb : {"train", "plan", "lower", "estimate", "verify"}) {
    const auto with = [&](const Words& more) {
      Words words{verb, model, "--plan", "r.json"};
      words.insert(words.end(), more.begin(), more.end());
      return run(words);
    };
    EXPECT_EQ(with({}).status, 0) << with({}).err;
    EXPECT_EQ(with({"--optimizer", "adam", "--lr", "0.05", "--clip-norm", "2", "--precision", "f64",
                    "--batch-size", "8", "--loss", "mean_squared_error", "--beta1", "0.9"})
                  .status,
              0)
        << verb;
    for (const auto& [flag, value, decided] : std::vector<std::tuple<std::string, std::string, std::string>>{
             {"--optimizer", "sgd", "adam"},
             {"--lr", "0.1", "0.05"},
             {"--clip-norm", "1", "2"},
             {"--beta2", "0.5", "0.999"},
             {"--precision", "f32", "f64"},
             {"--batch-size", "16", "8"},
             {"--loss", "mean_absolute_error", "a loss of its own"}})
      EXPECT_EQ(with({flag, value}).err,
                fmt::format("shardwright: {} {} but the plan r.json is for {}\n", flag, value, decided))
          << verb;
  }
  const auto losses = [](const Words& more) {
    Words words{"train", model, "--steps", "3", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const std::string out = run(words).out;
    return out.substr(0, out.find("{\"summary\""));
  };
  EXPECT_EQ(losses({"--plan", "r.json"}), losses({"--devices", "2", "--optimizer", "adam", "--lr", "0.05",
                                                  "--clip-norm", "2", "--precision", "f64"}));
  EXPECT_NE(losses({"--plan", "r.json"}), losses({"--plan", "p.json"}));
  write_bytes("batch.yaml", "runner_config: {batch_size: 8}\n");
  EXPECT_EQ(run({"train", model, "--plan", "r.json", "--config", "batch.yaml"}).err,
            "shardwright: config batch.yaml: runner_config.batch_size (--global-batch) 16 but the plan "
            "r.json is for 8\n");
  write_bytes("mode.yaml", "parallel: {parallel_mode: 0, device_num: 4}\n");
  const std::string err = run({"estimate", model, "--plan", "r.json", "--config", "mode.yaml"}).err;
  EXPECT_NE(err.find("parallel_mode is data_parallel but the plan r.json has auto_parallel"), err.npos)
      << err;
  EXPECT_NE(err.find("device_num is 4 but the plan r.json has 2"), err.npos) << err;
}

TEST_F(Heeded, a_graph_as_text_with_masters_is_its_model) {
  write_bytes("m.graph", run({"show", model, "--precision", "bf16"}).out);
  EXPECT_NE(read_bytes("m.graph").find("master=f32"), std::string::npos);
  const auto losses = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out.substr(0, outcome.out.find("{\"summary\""));
  };
  for (const Words& more :
       std::vector<Words>{{"--steps", "3", "--json"},
                          {"--steps", "3", "--json", "--devices", "2", "--optimizer", "adamw"},
                          {"--steps", "3", "--json", "--devices", "2", "--reduce-precision", "short"}}) {
    const std::string of_model = losses({"train", model, "--precision", "bf16"}, more);
    EXPECT_EQ(losses({"train", "m.graph"}, more), of_model);
    EXPECT_EQ(losses({"train", "m.graph", "--precision", "bf16"}, more), of_model);
    EXPECT_NE(of_model,
              losses({"train", model, "--precision", "pure-bf16"}, Words(more.begin(), more.begin() + 3)));
  }
  for (const char* precision : {"f32", "fp16", "pure-bf16"})
    EXPECT_EQ(run({"train", "m.graph", "--precision", precision}).err,
              fmt::format("shardwright: --precision {} but m.graph, a graph as text, has bf16\n", precision));
}

/// Another process may replace the file while a command runs.
TEST_F(Heeded, a_plan_is_read_once_for_a_command) {
  ASSERT_EQ(run({"plan", model, "--devices", "4", "--lr", "0.5", "-o", "four.json"}).status, 0);
  Arguments arguments;
  arguments.positionals = {model};
  arguments.flags["--plan"] = "p.json";
  EXPECT_EQ(devices_of(arguments), 2);
  fs::copy_file("four.json", "p.json", fs::copy_options::overwrite_existing);
  EXPECT_EQ(devices_of(arguments), 2);
  EXPECT_EQ(origin_of(arguments).optimizer.attributes.number("rate", 0.01), 0.01);
}

/// One that is written by hand need not name its network, but may say how it is trained.
TEST_F(Heeded, a_plan_without_a_model_keeps_its_settings) {
  ASSERT_EQ(run({"plan", model, "--devices", "2", "--lr", "0.5", "-o", "p.json"}).status, 0);
  std::string text = read_bytes("p.json");
  const std::size_t at = text.find("\"model\""), end = text.find('\n', at);
  text.erase(at, end - at);
  write_bytes("p.json", text);
  Arguments arguments;
  arguments.positionals = {model};
  arguments.flags["--plan"] = "p.json";
  EXPECT_EQ(origin_of(arguments).optimizer.attributes.number("rate", 0.01), 0.5);
}

TEST_F(Heeded, numbers_that_are_none_and_flags_with_two_values_are_errors_of_one_line) {
  for (const Words& flags : std::vector<Words>{{"--lr", "nan"},
                                               {"--lr", "1e400"},
                                               {"--lr", ""},
                                               {"--lr", "inf"},
                                               {"--steps", "9999999999999999999"},
                                               {"--steps", "1e3"},
                                               {"--memory-cap", "1e30B"},
                                               {"--memory-cap", "-1GB"},
                                               {"--memory-margin", "100%"},
                                               {"--memory-margin", "-1%"},
                                               {"--memory-margin", "6"},
                                               {"--devices", "08"},
                                               {"--devices", "+8"},
                                               {"--batch-size", "0"},
                                               {"--plan", ""},
                                               {"--plan", " "},
                                               {"--seed", "1", "--seed", "2"},
                                               {"--micro-batches", "2", "--accumulate", "4"},
                                               {"--json=false"}}) {
    Words words{"train", model};
    words.insert(words.end(), flags.begin(), flags.end());
    const Outcome o = run(words);
    EXPECT_EQ(o.status, 2) << join(words, " ");
    EXPECT_EQ(o.out, "");
    EXPECT_EQ(std::ranges::count(o.err, '\n'), 1) << o.err;
    EXPECT_NE(o.err.find(flags[0].substr(0, flags[0].find('='))), o.err.npos) << o.err;
  }
  EXPECT_EQ(
      run({"plan", model, "--batch-size", "8", "--global-batch", "16"}).err,
      "shardwright: --batch-size 8 and --global-batch 16 are the same flag with two values; give one\n");
  EXPECT_EQ(run({"plan", model, "--batch-size", "8", "--global-batch", "8"}).status, 0);
}

}  // namespace
}  // namespace shardwright
