#include "shardwright/cli/agreements.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "shardwright/base/checksum.h"
#include "shardwright/base/text.h"
#include "shardwright/cli/programs.h"
#include "shardwright/lower/program_text.h"
#include "shardwright/runtime/launch/build.h"

namespace shardwright {
namespace {

/// What a rank prints; and files, of which it matters what is in them.
const std::set<std::string> may_differ{"--json", "--log-every", "--runtime", "--config", "--data",
                                       "--plan", "--init",      "--resume",  "--eval"};
/// Where the first rank writes what all gather: only that they do has to be the same.
const std::set<std::string> may_lie_elsewhere{"--trace", "--tensorboard", "--save-folder", "--save-merged"};

/// `.1` is told as `0.1` is.
std::string parsed(const std::string& value) {
  const auto number = to_number(value);
  return number ? fmt::format("{}", *number) : value;
}

std::string sum_of(std::string_view text) { return checksum_text(checksum(text)); }

std::string sum_of(const std::map<std::string, Tensor>& tensors) {
  std::string all;
  for (const auto& [name, t] : tensors)
    all += fmt::format("{} {} {}\n", name, to_text(t.type()), checksum_text(checksum(t.bytes())));
  return sum_of(all);
}

std::string sum_of(const std::map<std::string, InitialValue>& values) {
  std::string all;
  for (const auto& [name, value] : values) all += name + " " + sum_of({{name, value()}}) + "\n";
  return sum_of(all);
}

/// Of copies each host has the checksums of its own alone, and its plan, with the time that it was searched for.
std::string sum_of_resumed(const CheckpointPlans& plans) {
  if (plans.resume.empty()) return "";
  Manifest manifest = plans.resume.front().manifest();
  if (plans.resumes_from_copies) {
    manifest.plan.clear();
    for (Shard& shard : manifest.shards) std::ranges::fill(shard.blocks, 0);
  }
  return sum_of(to_json(manifest));
}

std::string sum_of(const std::shared_ptr<const AskedNetwork>& asked) {
  if (!asked) return "";
  return sum_of(fmt::format("{}{} {}", to_text(asked->program.pipeline()), asked->data->samples(),
                            sum_of(asked->data->get(0))));
}

/// The flag as it was said, `--data d`, or `otherwise`.
std::string told(const Arguments& arguments, const std::string& flag, const std::string& otherwise) {
  const auto it = arguments.flags.find(flag);
  if (it == arguments.flags.end()) return otherwise;
  return arguments.called(flag) + (it->second.empty() ? "" : " " + it->second);
}

std::string told(const Arguments& arguments, const std::string& flag) {
  return told(arguments, flag, "no " + flag);
}

std::string told_data(const Arguments& arguments) {
  const char* path = std::getenv("DATA_PATH");
  return told(arguments, "--data", path ? fmt::format("DATA_PATH={}", path) : "no --data");
}

}  // namespace

std::vector<Agreement> agreements_of(const Arguments& arguments) {
  const std::string build = build_id();
  std::vector<Agreement> out{{"build of shardwright", build,
                              fmt::format("shardwright {}, build {:.8}", SHARDWRIGHT_VERSION, build)}};
  if (!arguments.words.empty()) out.push_back({"verb", arguments.words.front(), arguments.words.front()});
  for (std::size_t i = 0; i < arguments.positionals.size(); ++i)
    out.push_back({fmt::format("word {}", i + 1), arguments.positionals[i], arguments.positionals[i]});
  for (const auto& [flag, value] : arguments.flags)
    if (!may_differ.contains(flag))
      out.push_back({flag, may_lie_elsewhere.contains(flag) ? "" : parsed(value), told(arguments, flag)});
  return out;
}

std::vector<Agreement> agreements_of(const Arguments& arguments, const TrainingContents& contents) {
  std::vector<Agreement> out = agreements_of(arguments);
  auto plan = nlohmann::ordered_json::parse(contents.plan);
  const std::string network = plan["fingerprint"].dump();
  for (const char* of_its_search : {"search_seconds", "status"}) plan.erase(of_its_search);
  const std::string told_plan =
      told(arguments, "--plan", "to search for one; plan once, with -o, and give all ranks --plan");
  out.push_back({"checkpoint", sum_of_resumed(contents.checkpoints), told(arguments, "--resume")});
  out.push_back({"network", network, arguments.positionals.front()});
  out.push_back({"plan", sum_of(plan.dump()), told_plan});
  const std::string formats_are_of = device_of(arguments).formats_are_of;
  std::string programs = to_text(contents.program);
  for (const Prepared& program : contents.shorter) programs += to_text(program.pipeline());
  out.push_back({"program", sum_of(programs),
                 "the same plan" + (formats_are_of.empty() ? "" : ", with " + formats_are_of)});
  out.push_back({"first batch", sum_of(contents.data.batch(0)), told_data(arguments)});
  const auto& init = contents.checkpoints.init;
  out.push_back({"set of initial values",
                 sum_of(contents.initial) + (init ? sum_of(to_json(init->manifest())) : ""),
                 told(arguments, "--init")});
  out.push_back({"set of held-out data", sum_of(contents.asked.eval), told(arguments, "--eval")});
  const std::string length =
      fmt::format("{} steps in epochs of {}", contents.length.steps, contents.length.steps_per_epoch);
  out.push_back({"length", length, length});
  return out;
}

}  // namespace shardwright
