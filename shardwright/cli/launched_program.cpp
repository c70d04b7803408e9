#include "shardwright/cli/launched_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "shardwright/base/text.h"
#include "shardwright/cli/command_line.h"
#include "shardwright/cli/completed.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/training_options.h"
#include "shardwright/runtime/launch/child.h"
#include "shardwright/runtime/launch/hosts.h"
#include "shardwright/runtime/launcher.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

bool is_verb(const std::string& word) {
  return std::ranges::any_of(all_verbs(), [&](const Verb& v) { return v.name == word; });
}

bool is_python_file(const std::string& word) { return word.ends_with(".py"); }

/// Throws: Error unless the first word is a program, as a shell finds it.
void check_there(const std::string& program) {
  if (can_be_started(program)) return;
  if (program.find('/') != program.npos) throw error("there is no program '{}' to launch", program);
  std::vector<std::string> verbs;
  for (const Verb& v : all_verbs())
    if (v.joins_mpirun) verbs.push_back(v.name);
  throw error("there is no program '{}' to launch, and no verb of that name that runs on many hosts ({}){}",
              program, join(verbs, ", "), near_names(program, verbs));
}

/// Whether flags of planning say how many devices there are; else it is whoever starts the processes that says so.
bool says_devices(const Arguments& arguments) {
  return arguments.has("--devices") || arguments.has("--plan") || arguments.has("--cluster");
}

LaunchedProgram verb_with(const std::vector<std::string>& words) {
  const Verb& verb = verb_called(words.front());
  if (!verb.joins_mpirun)
    throw error(
        "{} runs in one process; what can be launched are train, infer, generate, calibrate, and other "
        "programs",
        verb.name);
  LaunchedProgram out{.words = words, .arguments = arguments_of(verb, words)};
  if (!out.arguments)
    throw error("--help of {} stands without launch: shardwright help {}", verb.name, verb.name);
  out.arguments = completed(*std::move(out.arguments));
  if (says_devices(*out.arguments)) out.devices = devices_of(*out.arguments);
  if (const std::string runtime = out.arguments->text("--runtime", "mpi"); runtime != "mpi")
    throw error("--runtime {} is one process, and launch starts one for each device; leave it out", runtime);
  return out;
}

/// `words` without these flags and their values.
std::vector<std::string> without(const std::vector<std::string>& words,
                                 const std::vector<std::string>& flags) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    if (std::ranges::find(flags, name) == flags.end())
      out.push_back(words[i]);
    else if (name == words[i])
      ++i;  // its value
  }
  return out;
}

/// What fixes how many devices a plan is for, or how it is split over them.
const std::vector<std::string> of_one_count{"--devices", "--plan",     "--set",
                                            "--cluster", "--annotate", "--strategy"};

}  // namespace

std::string LaunchedProgram::checkpoints() const { return is_training() ? arguments->text("--save") : ""; }

bool LaunchedProgram::prints_json() const { return arguments && arguments->has("--json"); }

std::string LaunchedProgram::net() const { return arguments ? arguments->text("--net") : ""; }

std::optional<int> LaunchedProgram::survives() const {
  if (!is_training() || !arguments->has("--survive")) return std::nullopt;
  return static_cast<int>(arguments->integer("--survive", 0, 0, most_launched_ranks));
}

LaunchedProgram launched_program(const std::vector<std::string>& words) {
  if (words.empty())
    throw error("launch: what is to be launched stands behind --: launch --devices 4 -- train ffn");
  if (is_verb(words.front())) return verb_with(words);
  if (is_python_file(words.front())) {
    if (!fs::is_regular_file(words.front())) throw error("there is no file '{}' to launch", words.front());
    check_there("python3");
  } else {
    check_there(words.front());
  }
  return {.words = words};
}

std::vector<std::string> left_out_flags(const LaunchedProgram& program) {
  std::vector<std::string> out;
  for (const std::string& flag : of_one_count) {
    const auto it = program.arguments->flags.find(flag);
    if (flag != "--devices" && it != program.arguments->flags.end()) out.push_back(flag + " " + it->second);
  }
  return out;
}

std::vector<std::string> command_of(const LaunchedProgram& program, const Beginning& beginning) {
  std::vector<std::string> words = program.words;
  if (!program.arguments) {
    // As `python3 -m shardwright.run` runs it: with our front end for programs that want another.
    if (is_python_file(words.front())) words.insert(words.begin(), {"python3", "-m", "shardwright.run"});
    return words;
  }
  if (beginning.is_planned_anew) words = without(words, of_one_count);
  if (beginning.resumes) {
    // Weights that are not trained are in no checkpoint.
    const bool has_frozen = checkpoint_options(*program.arguments).has_frozen;
    words = without(words, has_frozen ? std::vector<std::string>{"--resume"}
                                      : std::vector<std::string>{"--resume", "--init"});
  }
  if (beginning.survives) words = without(words, {"--survive"});
  std::vector<std::string> more;
  if (beginning.is_planned_anew || !program.devices) more = {"--devices", fmt::to_string(beginning.devices)};
  if (beginning.resumes) more.insert(more.end(), {"--resume", "auto"});
  if (!beginning.timeout.empty() && !program.arguments->has("--timeout"))
    more.insert(more.end(), {"--timeout", beginning.timeout});
  if (beginning.survives) more.insert(more.end(), {"--survive", fmt::to_string(*beginning.survives)});
  if (!beginning.survive_every.empty() && !program.arguments->has("--survive-every"))
    more.insert(more.end(), {"--survive-every", beginning.survive_every});
  words.insert(words.begin() + 1, more.begin(), more.end());
  return own_program(words);
}

}  // namespace shardwright
