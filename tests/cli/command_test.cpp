// What a golden cannot show: the exit status and the form of what every verb prints.
#include "shardwright/cli/verb.h"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "shardwright/base/text.h"
#include "shardwright/graph/text.h"
#include "shardwright/lower/program_text.h"
#include "shardwright/passes/optimize.h"
#include "shardwright/runtime/safetensors.h"
#include "tests/support/scratch.h"
#include "tests/support/verified_command.h"

namespace shardwright {
namespace {

using nlohmann::json;

struct Outcome {
  int status = 0;
  std::string out;
  std::string err;
};

Outcome run(const std::vector<std::string>& words, const std::string& input = "") {
  std::istringstream in(input);
  std::ostringstream out, err;
  Terminal terminal{in, out, err};
  const int status = testing::run_verified(words, terminal);
  return {status, out.str(), err.str()};
}

/// Every line of `text` as JSON; the test fails where one is none.
std::vector<json> documents(const std::string& text) {
  std::vector<json> out;
  for (std::string_view line : split(text, '\n'))
    if (!line.empty()) out.push_back(json::parse(line, nullptr, false));
  for (const json& document : out) EXPECT_FALSE(document.is_discarded()) << text;
  return out;
}

TEST(Command, every_verb_has_a_help_with_its_flags_and_an_example) {
  for (const Verb& verb : all_verbs()) {
    const Outcome o = run({verb.name, "--help"});
    EXPECT_EQ(o.status, 0) << verb.name;
    EXPECT_EQ(o.out, run({"help", verb.name}).out);
    EXPECT_NE(o.out.find(fmt::format("For example:\n  {}\n", verb.example)), o.out.npos) << verb.name;
    for (const Flag& flag : verb.flags) EXPECT_NE(o.out.find("\n  " + flag.name), o.out.npos) << flag.name;
    for (std::string_view line : split(o.out, '\n')) EXPECT_LE(line.size(), 100U) << line;
    EXPECT_TRUE(verb.example.starts_with("shardwright " + verb.name)) << verb.example;
    EXPECT_EQ(o.err, "");
  }
}

TEST(Command, overview_names_every_verb) {
  const Outcome asked = run({"--help"});
  for (const Outcome& o : {asked, run({}), run({"help"}), run({"-h"})}) {
    EXPECT_EQ(o.status, 0);
    EXPECT_EQ(o.out, asked.out);
  }
  for (const Verb& verb : all_verbs()) EXPECT_NE(asked.out.find(verb.name), asked.out.npos) << verb.name;
}

TEST(Command, the_model_stands_anywhere) {
  const Outcome behind = run({"plan", "ffn", "--devices", "2", "--search", "recursive", "--json"});
  EXPECT_EQ(behind.status, 0) << behind.err;
  const auto strategies = [](const Outcome& o) { return json::parse(o.out)["stage_plans"]; };
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"plan", "--devices", "2", "ffn", "--search", "recursive", "--json"},
        {"plan", "--json", "--search=recursive", "--devices", "2", "ffn"}}) {
    const Outcome o = run(words);
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(strategies(o), strategies(behind));
  }
}

TEST(Command, version_is_a_name_and_a_number) {
  const Outcome o = run({"--version"});
  EXPECT_EQ(o.status, 0);
  EXPECT_TRUE(o.out.starts_with("shardwright ") && o.out.find('.') != o.out.npos) << o.out;
}

TEST(Command, a_users_error_is_one_line_and_status_2) {
  const Outcome o = run({"train", "matmul_chain", "--init", "no\nfile"});
  EXPECT_EQ(o.status, 2);
  EXPECT_EQ(o.out, "");
  EXPECT_EQ(std::ranges::count(o.err, '\n'), 1) << o.err;
  EXPECT_TRUE(o.err.starts_with("shardwright: ")) << o.err;
}

TEST(Command, words_that_are_no_utf8_are_refused) {
  const Outcome o = run({"plan", "ffn", "--cluster", "\xff.yaml", "--json"});
  EXPECT_EQ(o.status, 2);
  EXPECT_EQ(o.err, "shardwright: argument 5 is not UTF-8\n");
}

TEST(Plan, tells_readers_of_json_that_nothing_satisfies) {
  for (const auto& words :
       {std::vector<std::string>{"plan", "ffn", "--devices", "8", "--search", "exhaustive", "--json"},
        {"plan", "ffn", "--devices", "5", "--parallel", "data_parallel", "--json"}}) {
    const Outcome o = run(words);
    EXPECT_EQ(o.status, 2);
    ASSERT_EQ(documents(o.out).size(), 1U);
    EXPECT_EQ(documents(o.out)[0]["status"], "infeasible");
  }
}

TEST(Train, annotations_of_unknown_operators_are_errors_on_one_device_too) {
  const std::string path = scratch_folder() + "/a.json";
  std::ofstream(path) << R"({"nope": {"in": [[1, 1]]}})";
  EXPECT_EQ(run({"train", "ffn", "--steps", "1", "--annotate", path}).status, 2);
}

TEST(Train, tells_that_the_plan_is_too_large_for_the_cluster_and_runs_it) {
  const std::string path = scratch_folder() + "/small.yaml";
  std::ofstream(path) << "nodes: 1\ndevices_per_node: 2\nmemory: 1MB\nmemory_bandwidth: 10GB/s\n"
                         "flops: {f32: 1T}\nlinks:\n  - {kind: wire, latency: 5us, bandwidth: 1GB/s}\n";
  const Outcome o = run({"train", "ffn", "--cluster", path, "--steps", "1"});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("more than a device of " + path + " has"), o.err.npos) << o.err;
  const Outcome proven = run({"verify", "ffn", "--cluster", path, "--json"});
  EXPECT_EQ(proven.status, 0);
  EXPECT_NE(proven.err.find("more than a device of " + path + " has"), proven.err.npos) << proven.err;
  EXPECT_EQ(documents(proven.out)[0]["fits"], false);
  EXPECT_EQ(run({"verify", "ffn", "--cluster", path, "--memory-cap", "1MB"}).status, 2);
}

TEST(Train, prints_json_lines_and_nothing_else) {
  const Outcome o = run(
      {"train", "matmul_chain", "--devices", "4", "--parallel", "data_parallel", "--steps", "5", "--json"});
  ASSERT_EQ(o.status, 0) << o.err;
  const std::vector<json> lines = documents(o.out);
  ASSERT_EQ(lines.size(), 6u);
  for (int step = 0; step < 5; ++step) {
    EXPECT_EQ(lines[static_cast<std::size_t>(step)].at("step"), step);
    EXPECT_TRUE(std::isfinite(lines[static_cast<std::size_t>(step)].at("loss").get<double>()));
    EXPECT_EQ(lines[static_cast<std::size_t>(step)].size(), 2u);
  }
  const json& summary = lines.back().at("summary");
  EXPECT_EQ(summary.at("steps"), 5);
  EXPECT_EQ(summary.at("devices"), 4);
  EXPECT_GT(summary.at("median_step_seconds"), 0);
  EXPECT_GT(summary.at("arena_bytes_per_device"), 0);
  EXPECT_EQ(summary.at("collectives_per_step"), (json{{"all_reduce", 3}}));
  EXPECT_GT(summary.at("bytes_communicated_per_step"), 0);
}

TEST(Train, tells_scalar_outputs_beside_the_loss) {
  const std::string model = "face:classes=8,features=4,batch=8,image=32,width=2,scale=1,backbone=resnet18";
  const Outcome o = run({"train", model, "--devices", "2", "--steps", "2", "--json"});
  ASSERT_EQ(o.status, 0) << o.err;
  const double hits = 8 * documents(o.out)[1].at("top1").get<double>();
  EXPECT_EQ(hits, std::round(hits));
  EXPECT_NE(run({"train", model, "--steps", "1"}).out.find(", top1 is "), std::string::npos);
}

TEST(Train, traces_two_steps) {
  const std::string path = scratch_folder() + "/trace.json";
  for (const auto& [steps, traced] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"1", {"step 0"}}, {"3", {"step 1", "step 2"}}, {"8", {"step 3", "step 4"}}}) {
    const Outcome o = run({"train", "matmul_chain", "--devices", "2", "--parallel", "data_parallel",
                           "--steps", steps, "--trace", path, "--json"});
    ASSERT_EQ(o.status, 0) << o.err;
    std::vector<std::string> names;
    const json trace = json::parse(read_bytes(path));
    for (const json& event : trace.at("traceEvents"))
      if (event.at("name").get<std::string>().starts_with("step ")) names.push_back(event.at("name"));
    std::vector<std::string> want = traced;  // by both ranks
    want.insert(want.end(), traced.begin(), traced.end());
    EXPECT_EQ(names, want);
    const json summary = documents(o.out).back().at("summary");
    EXPECT_GT(summary.at("exposed_communication_seconds"), 0);
    EXPECT_EQ(summary.at("bubble_fraction"), 0);
  }
}

TEST(Train, tells_planned_and_measured_memory_but_no_times_that_it_has_not_measured) {
  const json summary =
      documents(run({"train", "matmul_chain", "--devices", "2", "--steps", "2", "--json"}).out)
          .back()["summary"];
  const json& memory = summary.at("peak_memory_bytes");
  const json arenas(2, summary.at("arena_bytes_per_device"));
  EXPECT_EQ(memory.at("planned"), arenas);
  EXPECT_EQ(memory.at("measured"), arenas);
  EXPECT_EQ(memory.at("processes").size(), 1u);
  EXPECT_GT(memory.at("processes")[0], 2 * arenas[0].get<std::int64_t>());
  EXPECT_FALSE(summary.contains("bubble_fraction"));
  EXPECT_FALSE(summary.contains("exposed_communication_seconds"));
}

TEST(Train, median_of_fewer_steps_than_are_left_out_is_that_of_the_last) {
  for (const char* steps : {"1", "3", "4"}) {
    const Outcome o = run({"train", "matmul_chain", "--steps", steps, "--json"});
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_GT(documents(o.out).back().at("summary").at("median_step_seconds"), 0) << steps;
  }
}

TEST(Train, takes_a_configuration_file) {
  const std::string path = scratch_folder() + "/c.yaml";
  std::ofstream(path)
      << "parallel: {parallel_mode: 0, auto_pipeline: True}\nrunner_config: {batch_size: 3}\n";
  const Outcome o = run({"train", "matmul_chain", "--devices", "4", "--steps", "1", "--config", path});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.out.find("data_parallel"), o.out.npos) << o.out;
  EXPECT_TRUE(o.err.starts_with("config " + path +
                                ": parallel.auto_pipeline has no effect: data_parallel does not search\n"))
      << o.err;
}

/// What training a small network on these numbers says: of input f32[steps, 2, 3] and labels i32[steps, 2].
class Numbers : public ::testing::Test {
 protected:
  std::string path_ = scratch_folder() + "/d.safetensors";

  Outcome train(const Tensor& input, const Tensor& label, const std::vector<std::string>& more = {}) {
    write_safetensors(path_, {{"input", input}, {"label", label}});
    std::vector<std::string> words{
        "train", "ffn:widths=3-2,batch=2", "--loss", "cross_entropy", "--data", path_, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  static Tensor input(std::size_t at = 0, double odd = 0, DType dtype = DType::f32) {
    std::vector<double> numbers(12, 0.5);
    numbers[at] = odd;
    return make_tensor({dtype, {2, 2, 3}}, numbers);
  }
  static Tensor label(std::vector<double> numbers = {0, 1, 1, 0}, DType dtype = DType::i32) {
    return make_tensor({dtype, {2, 2}}, numbers);
  }
};

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST_F(Numbers, nan_in_the_data_is_an_error_before_its_step) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    const Outcome o = train(input(10, nan, dtype), label());
    EXPECT_EQ(o.status, 2);
    EXPECT_EQ(o.err, "shardwright: " + path_ +
                         ": 'input' of step 1 holds nan at [1, 1]; nothing can be learnt from that\n");
    EXPECT_EQ(documents(o.out).size(), 1U);  // step 0
  }
  EXPECT_EQ(train(input(), label()).status, 0);
}

TEST_F(Numbers, what_a_type_cannot_hold_is_named_with_its_place) {
  EXPECT_EQ(train(input(), label({0, 2.5, 1, 0}, DType::f32)).err,
            "shardwright: " + path_ + ": 'label' of step 0 holds 2.5 at [1], which i32 cannot hold\n");
  EXPECT_EQ(train(input(), label({0, infinity, 1, 0}, DType::f32)).err,
            "shardwright: " + path_ + ": 'label' of step 0 holds inf at [1], which i32 cannot hold\n");
  EXPECT_EQ(train(input(3, 1e300, DType::f64), label()).err,
            "shardwright: " + path_ + ": 'input' of step 0 holds 1e+300 at [1, 0], which f32 cannot hold\n");
}

TEST_F(Numbers, a_loss_that_is_not_finite_is_laid_to_what_made_it_so) {
  EXPECT_EQ(train(input(1, infinity), label()).err,
            "the loss of step 0 is nan (null in JSON): first made by 'input' on rank 0; " + path_ +
                ": 'input' holds inf at [0, 1] in this step\n");
  const Outcome steep = train(input(0, 1e38), label(), {"--lr", "1e38", "--steps", "9"});
  EXPECT_NE(steep.err.find("try a lower --lr"), std::string::npos) << steep.err << steep.out;
  const std::string init = scratch_folder() + "/init.safetensors";
  const Tensor bias({DType::f32, {2}});
  const auto with = [&](double odd) {
    const std::vector<double> weights{0, 0, 0, odd, 0, 0};
    write_safetensors(init,
                      {{"dense1.weight", make_tensor({DType::f32, {3, 2}}, weights)}, {"dense1.bias", bias}});
    return train(input(), label(), {"--init", init});
  };
  EXPECT_EQ(with(0).err, "");
  EXPECT_EQ(with(nan).err, "shardwright: " + init +
                               ": 'dense1.weight' holds nan at [1, 1]; nothing can be learnt from that\n");
  EXPECT_EQ(with(nan).status, 2);
  EXPECT_EQ(with(infinity).err,
            "the loss of step 0 is nan (null in JSON): first made by parameter 'dense1.weight' on rank 0; " +
                init + ": 'dense1.weight' holds inf at [1, 1]\n");
}

TEST_F(Numbers, an_infinite_number_that_does_no_harm_trains) {
  write_safetensors(path_, {{"x", make_tensor({DType::f32, {1, 2}}, std::vector<double>{1, -infinity})}});
  const Outcome o = run({"train", "-", "--data", path_, "--json"},
                        "%x = input f32[2]\n%w = param f32[2] (init=ones)\n%1 = relu %x\n%2 = mul %1, %w\n"
                        "%loss = reduce_sum %2\noutput %loss\n");
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(o.err, "");
}

TEST(Train, prints_the_lines_of_the_seeds) {
  const Outcome o = run({"train", "matmul_chain", "--steps", "2"});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.out.find("epoch: 0, step: 0, loss is "), o.out.npos) << o.out;
  EXPECT_NE(o.out.find("epoch: 0, step: 1, loss is "), o.out.npos) << o.out;
}

TEST(Train, repeats_itself_from_a_seed) {
  const std::vector<std::string> words{"train", "matmul_chain", "--devices", "4", "--steps",
                                       "3",     "--json",       "--seed"};
  const auto losses = [&](const std::string& seed) {
    std::vector<std::string> all = words;
    all.push_back(seed);
    std::vector<json> lines = documents(run(all).out);
    lines.pop_back();
    return lines;
  };
  EXPECT_EQ(losses("5"), losses("5"));
  EXPECT_NE(losses("5"), losses("6"));
}

TEST(Train, log_every_prints_every_kth_loss_and_the_last) {
  const Outcome o = run({"train", "matmul_chain", "--steps", "8", "--log-every", "3", "--json"});
  std::vector<int> steps;
  for (const json& line : documents(o.out))
    if (line.contains("step")) steps.push_back(line.at("step"));
  EXPECT_EQ(steps, (std::vector<int>{0, 3, 6, 7}));
}

TEST(Plan, saved_plan_trains_as_the_flags_that_made_it) {
  const std::string path = scratch_folder() + "/plan.json";
  const std::vector<std::string> made{"matmul_chain", "--devices", "8", "--parallel", "data_parallel"};
  std::vector<std::string> save{"plan"}, direct{"train"};
  save.insert(save.end(), made.begin(), made.end());
  direct.insert(direct.end(), made.begin(), made.end());
  save.insert(save.end(), {"-o", path});
  ASSERT_EQ(run(save).status, 0);
  direct.insert(direct.end(), {"--steps", "3", "--json"});
  const auto from_flags = documents(run(direct).out);
  const auto from_plan =
      documents(run({"train", "matmul_chain", "--plan", path, "--steps", "3", "--json"}).out);
  ASSERT_EQ(from_flags.size(), from_plan.size());
  for (std::size_t i = 0; i + 1 < from_plan.size(); ++i) EXPECT_EQ(from_flags[i], from_plan[i]);
  for (const char* key : {"collectives_per_step", "bytes_communicated_per_step", "arena_bytes_per_device"})
    EXPECT_EQ(from_flags.back()["summary"][key], from_plan.back()["summary"][key]) << key;
}

TEST(Plan, document_has_the_documented_keys) {
  const auto o = documents(run({"plan", "ffn", "--devices", "8", "--json"}).out);
  ASSERT_EQ(o.size(), 1u);
  for (const char* key : {"search", "status", "search_seconds", "step_seconds", "memory_bytes", "fits",
                          "mesh", "zero", "operators"})
    EXPECT_TRUE(o[0].contains(key)) << key;
  for (const json& op : o[0]["operators"])
    for (const char* key : {"name", "kind", "strategy", "in"}) EXPECT_TRUE(op.contains(key)) << op;
}

TEST(Plan, document_tells_what_each_stage_takes) {
  const json o = documents(run({"plan", "ffn", "--devices", "4", "--stages", "2", "--json"}).out)[0];
  const json& memory = o["memory_bytes"];
  ASSERT_EQ(memory["stages"].size(), 2U);
  std::int64_t largest = 0;
  for (const json& stage : memory["stages"]) {
    std::int64_t sum = 0;
    for (const auto& [kind, bytes] : stage.items())
      if (kind != "arena") sum += bytes.get<std::int64_t>();
    EXPECT_EQ(stage["arena"], sum);
    largest = std::max(largest, sum);
  }
  EXPECT_EQ(memory["arena"], largest);
  for (const char* key :
       {"stages", "micro_batches", "schedule", "stage_plans", "recompute", "bubble_fraction"})
    EXPECT_TRUE(o.contains(key)) << key;
}

TEST(Lower, writes_the_program_after_each_pass) {
  const std::string folder = scratch_folder() + "/passes";
  const Outcome lowered = run({"lower", "matmul_chain", "--devices", "4", "--parallel", "data_parallel",
                               "--comm-fusion", "none", "--dump-passes", folder});
  ASSERT_EQ(lowered.status, 0);
  std::set<std::string> files;
  std::string last;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.insert(entry.path().filename().string());
    const std::string text = read_bytes(entry.path().string());
    EXPECT_TRUE(std::regex_search(text, std::regex("^# [a-z_]+: [0-9.]+ ms\nprogram 1 micro-batch\nmesh ")))
        << text;
    // A dump can be read again, and prints as it was but for the comments.
    const std::string program = std::regex_replace(text, std::regex("#[^\n]*\n"), "");
    EXPECT_EQ(to_text(parse_pipeline(text)), program) << entry.path();
    EXPECT_NE(lowered.err.find(" ms  " + entry.path().string() + "\n"), std::string::npos) << lowered.err;
    if (text.starts_with("# start_transfers")) last = text;
  }
  ASSERT_EQ(files.size(), all_passes().size());
  for (std::size_t i = 0; i < files.size(); ++i)
    EXPECT_TRUE(files.contains(fmt::format("{:02}_{}.txt", i + 1, all_passes()[i].name)));
  EXPECT_NE(last.find("\nearly %"), std::string::npos) << last;
}

TEST(Show, text_of_a_network_can_be_read_again) {
  const Outcome network = run({"show", "ffn"});
  ASSERT_EQ(network.status, 0);
  const Outcome again = run({"show", "-"}, network.out);
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(again.out, network.out);
}

TEST(Show, text_of_a_planned_network_lowers_to_the_same_program) {
  const Outcome planned = run({"show", "matmul_chain", "--devices", "4", "--layouts", "--train"});
  ASSERT_EQ(planned.status, 0) << planned.err;
  const Outcome from_text = run({"lower"}, planned.out);
  EXPECT_EQ(from_text.status, 0) << from_text.err;
  EXPECT_EQ(from_text.out, run({"lower", "matmul_chain", "--devices", "4"}).out);
}

TEST(Data, digits_are_drawn_and_trained_on) {
  const std::string folder = scratch_folder() + "/digits";
  ASSERT_EQ(run({"data", "digits", "--out", folder, "--train", "64", "--test", "8"}).status, 0);
  const Outcome o = run({"train", "three_layer", "--data", folder, "--epochs", "2", "--json"});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(o.err, "");                    // nothing to notice: there are data
  EXPECT_EQ(documents(o.out).size(), 5u);  // 2 epochs of 2 batches of 32, and the summary
}

TEST(Explain, tells_as_data_what_its_tables_tell) {
  const std::string path = scratch_folder() + "/p.json";
  ASSERT_EQ(run({"plan", "three_layer", "--devices", "4", "--parallel", "data_parallel", "-o", path}).status,
            0);
  const Outcome one = run({"explain", path, "dense2.matmul", "--json"});
  const std::vector<json> of_one = documents(one.out);
  ASSERT_EQ(of_one.size(), 1U) << one.err;
  const json& candidates = of_one[0]["candidates"];
  EXPECT_EQ(candidates.size(), 4U);  // not split, m, k or n over the only axis
  EXPECT_EQ(candidates[of_one[0]["choice"].get<std::size_t>()]["strategy"], json::parse(R"({"m": ["dp"]})"));
  for (const json& c : candidates)
    EXPECT_DOUBLE_EQ(c["seconds"].get<double>(), c["compute_seconds"].get<double>() +
                                                     c["communication_seconds"].get<double>() +
                                                     c["redistribution_seconds"].get<double>());

  const std::vector<json> of_all = documents(run({"explain", path, "--json"}).out);
  ASSERT_EQ(of_all.size(), 2U);
  EXPECT_EQ(of_all[0], documents(run({"estimate", path, "--json"}).out)[0]);
  std::size_t operators = 0;
  for (const json& row : of_all[1]["rows"]) operators += row["count"].get<std::size_t>();
  EXPECT_EQ(operators, of_all[0]["operators"].size());
  EXPECT_FALSE(of_all[1]["heaviest"].empty());
}

/// What people read at the end of `text`, above the ways out.
std::string last_line(const std::string& text) {
  const std::string all(trim(text.substr(0, text.find("\nremedy: "))));
  return all.substr(all.rfind('\n') + 1);
}

TEST(Plan, last_line_says_when_it_does_not_fit_the_devices_whatever_the_verb) {
  const std::string path = scratch_folder() + "/small.yaml";
  std::ofstream(path) << "nodes: 1\ndevices_per_node: 2\nmemory: 1MB\nmemory_bandwidth: 10GB/s\n"
                         "flops: {f32: 1T}\nlinks:\n  - {kind: wire, latency: 5us, bandwidth: 1GB/s}\n";
  const std::string sentence = "more than a device of " + path + " has: ";
  for (const std::string verb : {"plan", "estimate", "lower", "train"}) {
    std::vector<std::string> words{verb, "ffn", "--cluster", path};
    if (verb == "train") words.insert(words.end(), {"--steps", "1"});
    const Outcome o = run(words);
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_NE(last_line(verb == "lower" ? o.err : o.out).find(sentence), std::string::npos) << verb << o.out;
    if (verb == "lower") {
      EXPECT_EQ(o.out.find(sentence), std::string::npos);
      continue;
    }
    words.emplace_back("--json");
    const Outcome in_json = run(words);
    documents(in_json.out);
    EXPECT_NE(last_line(in_json.err).find(sentence), std::string::npos) << verb << in_json.err;
    words.back() = "--device-memory";  // they have more
    words.emplace_back("1GB");
    EXPECT_EQ(run(words).out.find("more than"), std::string::npos) << verb;
  }
  // A cap that is more than there is does not make room.
  EXPECT_NE(last_line(run({"plan", "ffn", "--cluster", path, "--memory-cap", "1GB"}).out).find(sentence),
            std::string::npos);
}

TEST(Plan, table_and_document_tell_one_throughput) {
  for (const auto& [model, unit] : std::vector<std::pair<std::string, std::string>>{
           {"ffn", "samples"}, {"llama:layers=1,hidden=64,heads=4,ffn=64,vocab=64,seq=16", "tokens"}}) {
    const std::vector<std::string> words{"plan", model, "--devices", "2", "--micro-batches", "2"};
    std::vector<std::string> with_json = words;
    with_json.emplace_back("--json");
    const json document = documents(run(with_json).out)[0];
    EXPECT_NE(run(words).out.find(fmt::format("throughput: {:.0f} {} a second, {:.1f}% of the devices' peak",
                                              document["tokens_per_second"].get<double>(), unit,
                                              100 * document["mfu"].get<double>())),
              std::string::npos)
        << run(words).out;
  }
}

TEST(Estimate, counts_what_train_measures_that_a_device_receives) {
  const std::string chain = "matmul_chain:widths=16-32-24-16,batch=16";
  const std::string tied = "gpt:layers=2,hidden=32,heads=4,vocab=64,seq=16,batch=8";
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {chain, "--devices", "2", "--stages", "2"},
           {chain, "--devices", "2", "--stages", "2", "--micro-batches", "4", "--schedule", "gpipe"},
           {chain, "--devices", "4", "--stages", "2", "--parallel", "data_parallel"},
           {chain, "--devices", "3", "--stages", "3", "--micro-batches", "4", "--precision", "f64"},
           {chain, "--devices", "4", "--parallel", "data_parallel", "--micro-batches", "2"},
           {tied, "--devices", "4", "--stages", "2", "--micro-batches", "2", "--optimizer", "adam"},
           {tied, "--devices", "2", "--stages", "2", "--clip-norm", "1"}}) {
    std::vector<std::string> estimate{"estimate"}, train{"train"};
    estimate.insert(estimate.end(), flags.begin(), flags.end());
    train.insert(train.end(), flags.begin(), flags.end());
    estimate.emplace_back("--json");
    train.insert(train.end(), {"--steps", "1", "--json"});
    const Outcome expected = run(estimate), got = run(train);
    ASSERT_EQ(expected.status + got.status, 0) << expected.err << got.err;
    const json e = documents(expected.out)[0], measured = documents(got.out).back()["summary"];
    for (const char* key : {"bytes_communicated_per_step", "collectives_per_step"})
      EXPECT_EQ(e[key], measured[key]) << join(flags, " ");
  }
}

TEST(Train, micro_batches_without_stages_accumulate) {
  const auto losses = [](const std::vector<std::string>& more) {
    std::vector<std::string> words{"train", "ffn", "--devices", "2", "--steps", "3", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = run(words);
    EXPECT_EQ(o.status, 0) << o.err;
    return o.out.substr(0, o.out.find("{\"summary\""));
  };
  EXPECT_EQ(losses({"--micro-batches", "4"}), losses({"--accumulate", "4"}));
  EXPECT_EQ(losses({"--stages", "1", "--micro-batches", "1"}), losses({}));
  EXPECT_EQ(losses({"--stages", "2", "--accumulate", "4"}),
            losses({"--stages", "2", "--micro-batches", "4"}));
}

TEST(Plan, sizes_that_would_take_hours_are_refused_before_anything_is_built) {
  for (const std::string verb : {"plan", "show", "train"}) {
    const Outcome o = run({verb, "llama2-70b:layers=200000"});
    EXPECT_EQ(o.status, 2);
    EXPECT_EQ(
        o.err,
        "shardwright: llama2-70b:layers=200000: layers=200000: at most 4096 are read, which take minutes to "
        "plan; the time grows with the square of their number\n");
  }
  EXPECT_EQ(run({"show", "llama:layers=4096,hidden=64,ffn=64", "--summary"}).status, 0);
}

/// Runs a command in this process, with so much memory beside what it has already, and ends it.
[[noreturn]] void run_with_little_memory(const std::vector<std::string>& words, std::size_t more_bytes) {
  std::size_t pages = 0;  // that this process has already
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t bytes = pages * static_cast<std::size_t>(getpagesize()) + more_bytes;
  const rlimit little{bytes, bytes};
  setrlimit(RLIMIT_AS, &little);
  const Outcome o = run(words);
  std::cerr << o.err;
  std::_Exit(o.status);
}

TEST(CommandDeathTest, memory_that_runs_out_is_no_internal_fault) {
  EXPECT_EXIT(run_with_little_memory({"show", "llama:layers=4096,hidden=64,ffn=64", "--summary"}, 30 << 20),
              ::testing::ExitedWithCode(2), "shardwright: out of memory: 'show llama:layers=4096");
}

/// The devices of calibrate are threads: one that fails ends the command, not the process, and nobody waits for it.
TEST(CommandDeathTest, a_device_without_memory_ends_calibrate_in_one_line) {
  const std::string out = scratch_folder() + "/host.yaml";
  EXPECT_EXIT(run_with_little_memory({"calibrate", "--devices", "2", "--out", out}, 60 << 20),
              ::testing::ExitedWithCode(2),
              "shardwright: (no memory for [0-9]+ bytes|out of memory: [^\n]*)\n$");
  EXPECT_FALSE(std::filesystem::exists(out));
}

/// However much is missing, in a command or on a device: it is told, and nothing aborts.
TEST(CommandDeathTest, any_memory_that_is_missing_is_told) {
  const auto ends_well = [](int status) {
    return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2);
  };
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"train", "ffn", "--devices", "4", "--steps", "2"},
        {"train", "ffn", "--devices", "4", "--stages", "2", "--micro-batches", "2", "--steps", "2"},
        {"verify", "gpt:layers=8", "--devices", "4", "--parallel", "data_parallel"}})
    for (const std::size_t mebibytes : {1, 4, 12, 20, 30, 40, 60, 80, 100})
      EXPECT_EXIT(run_with_little_memory(words, mebibytes << 20), ends_well, "")
          << join(words, " ") << " with " << mebibytes;
}

}  // namespace
}  // namespace shardwright
