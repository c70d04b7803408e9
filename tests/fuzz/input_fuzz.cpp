// Changes the files that users write and gives them to commands: every one must do, or end in one line and status 2,
// quickly and in bounded memory.
//
//   input_fuzz [--seconds N] [--kind KIND] [--seed S] [--keep FOLDER]
//   input_fuzz --kind KIND FILE      gives one file to the commands, as the fuzzer does
//
// Files are those of the goldens, the examples and plans that are made at the start. They are changed as texts and as
// JSON (tests/support/changed_text.h); what commands still take is changed further. Each file is planned, lowered and
// proven; where what comes out is small, it is trained for a step. A fault is another status, more than one line of
// error, more than 20 seconds of the processor (100 under a sanitizer), a signal, or more memory than is allowed; the file that made it is kept.

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "shardwright/base/checksum.h"
#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/base/text.h"
#include "shardwright/exchange/plan_format.h"
#include "tests/fuzz/commands.h"
#include "tests/fuzz/folder_kinds.h"
#include "tests/support/changed_text.h"
#include "tests/support/golden.h"

// Read by the address sanitizer when it starts: memory is bounded, and a file that asks for more is a fault.
extern "C" const char* __asan_default_options() {  // NOLINT(bugprone-reserved-identifier): its name
  return "hard_rss_limit_mb=3000:max_allocation_size_mb=2000:allocator_may_return_null=1:detect_leaks=0";
}

namespace shardwright {
namespace {

using namespace fuzzing;  // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;
using testing::below;
using testing::Random;

const std::string network = "ffn:widths=16-16-8,batch=16", saved_network = "ffn:widths=6-5-4,batch=4";

bool try_graph(const std::string& path) {
  if (run({"show", path}).status != 0) return false;
  run({"lower", path, "--layouts"});
  bool is_proven = false;
  for (const char* devices : {"1", "4"})
    is_proven = prove_and_train({path, "--devices", devices}) || is_proven;
  return is_proven;
}

bool try_plan(const std::string& path) {
  if (run({"estimate", path}).status != 0) return false;
  run({"verify", path});
  const std::string model = nlohmann::json::parse(read_text(path)).at("model");
  run({"lower", model, "--plan", path, "--layouts"});
  if (model.starts_with("ffn")) run({"train", model, "--plan", path, "--steps", "1", "--json"});
  return true;
}

bool try_annotations(const std::string& path) {
  bool is_taken = false;
  for (const char* mode : {"semi_auto_parallel", "auto_parallel"})
    is_taken =
        prove_and_train({network, "--devices", "8", "--parallel", mode, "--annotate", path}) || is_taken;
  return is_taken;
}

/// JSON, or protobuf, as its first byte says.
bool try_strategy(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const std::string other = path + ".ckpt";
  const bool is_json = bytes.starts_with('{');
  if (!is_json) std::ofstream(other, std::ios::binary) << bytes;
  return prove_and_train({network, "--devices", "8", "--strategy", is_json ? path : other});
}

bool try_config(const std::string& path) {
  return prove_and_train({network, "--config", path, "--devices", "8"});
}

bool try_cluster(const std::string& path) {
  const bool is_taken = run({"clusters", path}).status == 0;
  run({"plan", network, "--cluster", path, "--json"});
  return is_taken;
}

/// The shards of the checkpoint whose manifest is changed.
std::string saved_folder(const std::string& path) { return fs::path(path).parent_path() / "saved"; }

/// A manifest as it is signed, so that not its checksum alone refuses what was changed.
bool try_checkpoint(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string rest{std::istreambuf_iterator<char>(in), {}},
      folder = saved_folder(path) + "/step-00000001";
  write_file(folder + "/manifest.json",
             fmt::format("{{\"checksum\": \"{}\",\n{}", checksum_text(checksum(rest)), rest));
  const bool is_taken = run({"checkpoint", "inspect", folder}).status == 0;
  run({"checkpoint", "verify", folder});
  run({"checkpoint", "merge", folder, saved_folder(path) + "/merged.safetensors", "--states"});
  run({"train", saved_network, "--resume", folder, "--steps", "2", "--devices", "2"});
  return is_taken;
}

const std::string decoder = "llama:layers=2,hidden=16,heads=2,kv_heads=1,ffn=16,vocab=16,seq=4,batch=8";

/// Of whatever format it looks like.
bool try_recipe(const std::string& path) {
  const bool is_taken =
      run({"import", path, "--model", decoder, "--cluster", "cpu:8", "-o", path + ".plan"}).status == 0;
  return is_taken;
}

const std::string recommender = "dlrm:dense=2,tables=2,rows=9,hot=2,width=2,batch=2,bottom=2,top=2";

/// By a model that takes rows alone, and by one that takes any ids.
bool try_columns(const std::string& path) {
  bool is_taken = false;
  for (const char* hash : {",hash=0", ",hash=1"})
    is_taken =
        run({"train", recommender + hash, "--data", path, "--steps", "3", "--json"}).status == 0 || is_taken;
  return is_taken;
}

/// Beside the record of another rank.
bool try_record(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path() / "records";
  fs::create_directories(folder);
  fs::copy_file(path, folder / "rank-0.txt", fs::copy_options::overwrite_existing);
  return run({"explain", "record", folder.string(), "--json"}).status == 0;
}

// ---- seeds ----

struct Kind {
  std::string name;
  std::string extension;
  bool (*try_file)(const std::string& path);
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{{"graph", ".graph", try_graph},
                                     {"plan", ".json", try_plan},
                                     {"annotations", ".json", try_annotations},
                                     {"strategy", ".json", try_strategy},
                                     {"config", ".yaml", try_config},
                                     {"cluster", ".yaml", try_cluster},
                                     {"checkpoint", ".json", try_checkpoint},
                                     {"recipe", ".txt", try_recipe},
                                     {"folder", ".json", try_folder},
                                     {"adapters", ".json", try_adapters},
                                     {"talks", ".jsonl", try_talks},
                                     {"columns", ".csv", try_columns},
                                     {"record", ".txt", try_record}};
  return all;
}

/// What a golden's file is; empty if it is none that is changed here.
std::string kind_of(const Golden& golden, const std::string& name, const std::string& text) {
  const auto is_used_as = [&](const std::string& flag) {
    return std::any_of(golden.commands.begin(), golden.commands.end(), [&](const std::string& command) {
      return command.find(flag + " " + name) != std::string::npos;
    });
  };
  if (name.ends_with(".graph")) return "graph";
  if (is_used_as("--annotate")) return "annotations";
  if (is_used_as("--config")) return "config";
  if (is_used_as("--cluster")) return "cluster";
  return name.ends_with(".json") && text.find("\"fingerprint\"") != std::string::npos ? "plan" : "";
}

void add_goldens(Seeds& seeds) {
  for (const auto& entry : fs::recursive_directory_iterator("tests/golden")) {
    if (entry.path().extension() != ".test") continue;
    const Golden golden = parse_golden(read_text(entry.path()));
    for (const GoldenFile& file : golden.files)
      if (const std::string kind = kind_of(golden, file.name, file.text);
          !kind.empty() && file.kind == "file")
        seeds[kind].push_back(file.text);
    if (golden.input.find(" = ") != std::string::npos) seeds["graph"].push_back(golden.input);
  }
}

void add_examples(Seeds& seeds) {
  const std::pair<const char*, const char*> folders[] = {
      {"examples/graphs", "graph"}, {"examples/annotations", "annotations"}, {"examples/config", "config"}};
  for (const auto& [folder, kind] : folders)
    for (const auto& entry : fs::directory_iterator(folder)) seeds[kind].push_back(read_text(entry.path()));
}

/// Networks of every family.
const std::string models[] = {network, "matmul_chain:widths=16-32-16,batch=16", decoder,
                              "resnet18:image=32,width=4,batch=4"};

void add_graphs(Seeds& seeds) {
  for (const std::string& model : models) seeds["graph"].push_back(run({"show", model}).out);
}

void add_plans(Seeds& seeds, const std::string& path) {
  for (const std::string& model : models)
    for (const Words& how :
         {Words{"--search", "propagation"}, Words{"--stages", "2"},
          Words{"--accumulate", "2", "--optimizer", "adamw", "--optimizer-parallel", "2:threshold=0"}}) {
      run(Words{"plan", model, "--devices", "4", "-o", path} + how);
      seeds["plan"].push_back(read_text(path));
    }
}

/// Of both forms.
void add_strategies(Seeds& seeds, const std::string& folder) {
  for (const Words& how : {Words{}, Words{"--search", "propagation"}, Words{"--stages", "2"},
                           Words{"--optimizer", "adam", "--optimizer-parallel", "3:threshold=0"}})
    for (const char* name : {"/made_s.json", "/made_s.ckpt"}) {
      run(Words{"plan", network, "--devices", "8", "--save-strategy", folder + name} + how);
      std::ifstream in(folder + name, std::ios::binary);
      seeds["strategy"].emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
}

/// In every format that is read.
void add_recipes(Seeds& seeds, const std::string& path) {
  for (const char* set : {"dp=2,tp=2,pp=2,micro_batch=1,global_batch=8,zero=1,recompute=selected",
                          "dp=8,micro_batch=1,global_batch=16,zero=3,zero_group=2,offload={optimizer:0.5}"}) {
    run({"plan", decoder, "--cluster", "cpu:8", "--set", set, "--optimizer", "adamw", "-o", path});
    for (const std::string& format : read_formats())
      seeds["recipe"].push_back(run({"export", path, "--to", format}).out);
  }
}

/// What dlrm and a drawing program write.
void add_columns(Seeds& seeds) {
  seeds["columns"] = {
      "label,dense.1,dense.2,ids.1,ids.2\n1,0.5,-2,1|3,\n0,1e3,0,8,7|7\n",
      "\xef\xbb\xbfids_2,note,dense,ids_1,label\r\n\"shoes\",\"a \"\"b\"\"\n,c\",1|2,17|-1,0.25\r\n"
      "books|x y,,3|4,,1\r\n"};
}

/// Behind the checksum of the manifest of a small run.
void add_checkpoint(Seeds& seeds, const std::string& path) {
  fs::remove_all(saved_folder(path));
  run(Words{"train", saved_network, "--devices", "4", "--search", "recursive", "--optimizer", "adam",
            "--steps", "1", "--save", saved_folder(path)});
  const std::string text = read_text(saved_folder(path) + "/latest/manifest.json");
  seeds["checkpoint"].push_back(text.substr(text.find('\n') + 1));
}

/// As runs that fail write them.
void add_records(Seeds& seeds, const std::string& folder) {
  const std::string head = "rank 0 of 4 on h0 failed at 20.5 s of its machine's clock: rank 0: ",
                    sum = "all_reduce.sum %y over dp f32[4, 8] of ranks 0,1,2,3",
                    waited = " waited 8 s for rank 2, which gives no sign of life";
  seeds["record"] = {head + sum + waited +
                         "\nits last 2 instructions, when they began and what they took:\n" +
                         "step 24, 11.5 s, 0.01 s: start " + sum + ", micro-batch 1\n" +
                         "step 24, 12.5 s, has not ended: finish " + sum + ", micro-batch 1\n",
                     head + "%x = matmul: the sky fell\nits last 1 instructions:\n" +
                         "step 3, 12.5 s, has not ended: %x = matmul\n"};
  fs::create_directories(folder + "/records");
  write_file(folder + "/records/rank-1.txt",
             "rank 1 of 4 on h0 failed at 21 s of its machine's clock: x\nits last 1:\n" +
                 std::string("step 24, 12 s, 0.01 s: start ") + sum + "\n");
}

/// Of the kinds that are used: to make all takes a sanitizer a minute.
Seeds seeds_of(const std::vector<Kind>& used, const std::string& path) {
  const auto is_used = [&](const char* kind) {
    return std::any_of(used.begin(), used.end(), [&](const Kind& k) { return k.name == kind; });
  };
  const std::string folder = fs::path(path).parent_path();
  Seeds seeds;
  add_goldens(seeds);
  add_examples(seeds);
  if (is_used("graph")) add_graphs(seeds);
  if (is_used("plan")) add_plans(seeds, path);
  if (is_used("strategy")) add_strategies(seeds, folder);
  if (is_used("checkpoint")) add_checkpoint(seeds, path);
  if (is_used("recipe")) add_recipes(seeds, path);
  if (is_used("folder") || is_used("adapters") || is_used("talks")) add_folder_seeds(seeds, folder);
  if (is_used("columns")) add_columns(seeds);
  if (is_used("record")) add_records(seeds, folder);
  for (auto& [kind, texts] : seeds) std::sort(texts.begin(), texts.end());
  for (const Kind& kind : used)
    if (seeds[kind.name].empty())
      throw error("no files of kind {}: run from the root of the repository", kind.name);
  return seeds;
}

// ---- the fuzzer ----

struct Options {
  double seconds = 60;
  std::string kind;  // empty: all
  std::uint64_t seed = std::random_device{}();
  fs::path keep = fs::temp_directory_path() / fmt::format("input_fuzz.{}", ::getpid());
  std::string file;
};

/// The fault that the file ends in; empty if there is none.
std::string fault_of(const Kind& kind, const std::string& path, bool& is_taken) {
  alarm(6 * slowest_seconds);  // ends the process; the file is there
  try {
    is_taken = kind.try_file(path);
  } catch (const std::exception& e) {
    return e.what();
  }
  alarm(0);
  return "";
}

std::string changed(Random& random, const Kind& kind, const std::string& text) {
  const bool is_json = kind.extension == ".json" && random() % 4 != 0;
  return is_json ? testing::changed_json(random, text) : testing::changed_text(random, text);
}

int fuzz(const Options& options) {
  constexpr std::size_t most_texts = 500, longest = 200000;
  fs::create_directories(options.keep);
  std::vector<Kind> used = kinds();
  std::erase_if(used, [&](const Kind& k) { return !options.kind.empty() && k.name != options.kind; });
  if (used.empty())
    throw error(
        "--kind {}: there are graph, plan, annotations, strategy, config, cluster, checkpoint, recipe, "
        "folder, adapters, talks, columns, record",
        options.kind);
  Seeds texts = seeds_of(used, options.keep / "made.json");
  fmt::print("input_fuzz: seed {}; the file at work is in {}\n", options.seed, options.keep.string());
  std::fflush(stdout);

  Random random(options.seed);
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Seeds taken_texts;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> counts;  // files, and those that were taken
  for (std::size_t i = 0; seconds() < options.seconds; ++i) {
    const Kind& kind = used[i % used.size()];
    Words &seeds = texts.at(kind.name), &of_kind = taken_texts[kind.name];
    const bool is_seed =
        i / used.size() < seeds.size();  // first each as it is, then mostly those that are taken
    const Words& from = of_kind.empty() || random() % 5 == 0 ? seeds : of_kind;
    const std::string text =
        is_seed ? seeds[i / used.size()] : changed(random, kind, from[below(random, from.size())]);
    const std::string path = options.keep / (kind.name + kind.extension);
    std::ofstream(path, std::ios::binary) << text;
    bool is_taken = false;
    const std::string fault = fault_of(kind, path, is_taken);
    if (!fault.empty()) {
      fmt::print(stderr, "input_fuzz: fault: {}\n  kept as {}\n", fault, path);
      return 1;
    }
    auto& [count, taken] = counts[kind.name];
    ++count;
    if (!is_taken) continue;
    ++taken;
    if (text.size() < longest && of_kind.size() < most_texts)
      of_kind.push_back(text);
    else if (text.size() < longest)
      of_kind[below(random, most_texts)] = text;
  }
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  for (const auto& [kind, count] : counts)
    fmt::print("{}: {} files, {} of them taken\n", kind, count.first, count.second);
  fmt::print("{} MB at most\n", usage.ru_maxrss / 1024);
  fs::remove_all(options.keep);
  return 0;
}

/// The whole process may take so much; the address sanitizer needs its room and has a limit of its own.
void limit_memory() {
#ifndef __SANITIZE_ADDRESS__
  const struct rlimit most { .rlim_cur = rlim_t{4} << 30, .rlim_max = rlim_t{4} << 30 };
  setrlimit(RLIMIT_AS, &most);
#endif
}

Options options_of(const Words& words) {
  Options out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto value = [&] {
      if (i + 1 == words.size()) throw error("{} needs a value", words[i]);
      return words[++i];
    };
    if (words[i] == "--seconds")
      out.seconds = to_number(value()).value_or(60);
    else if (words[i] == "--seed")
      out.seed = static_cast<std::uint64_t>(to_integer(value()).value_or(1));
    else if (words[i] == "--kind")
      out.kind = value();
    else if (words[i] == "--keep")
      out.keep = value();
    else
      out.file = words[i];
  }
  return out;
}

int run_fuzzer(const Words& words) {
  const Options options = options_of(words);
  limit_memory();
  if (options.file.empty()) return fuzz(options);
  for (const Kind& kind : kinds()) {
    if (kind.name != options.kind) continue;
    bool is_taken = false;
    const std::string fault = fault_of(kind, options.file, is_taken);
    fmt::print("{}\n", fault.empty() ? is_taken ? "taken" : "refused" : fault);
    return fault.empty() ? 0 : 1;
  }
  throw error("{}: say what it is with --kind", options.file);
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) {
  try {
    return shardwright::run_fuzzer({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    fmt::print(stderr, "input_fuzz: {}\n", e.what());
    return 2;
  }
}
