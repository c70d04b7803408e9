// The command line: words to arguments (CLI11), errors to one line and an exit status.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <new>

#include "shardwright/base/one_line.h"
#include "shardwright/base/text.h"
#include "shardwright/cli/asked.h"
#include "shardwright/cli/config.h"
#include "shardwright/cli/device_counts.h"
#include "shardwright/cli/outputs.h"
#include "shardwright/cli/plan_report.h"
#include "shardwright/cli/set_flags.h"
#include "shardwright/cli/strategies.h"
#include "shardwright/cli/verb.h"
#include "shardwright/plan/constraints.h"
#include "shardwright/runtime/launcher.h"
#include "shardwright/search/planning/problem.h"

namespace shardwright {
namespace {

constexpr int user_error = 2;
constexpr int internal_fault = 70;

struct Parsed {
  std::map<std::string, std::vector<std::string>> values;  // of each time that the flag is given
  std::map<std::string, bool> switches;
};

void declare(CLI::App& app, const Verb& verb, Parsed& parsed) {
  std::string usage = "shardwright " + verb.name;
  for (const std::string& p : verb.positionals) usage += " " + p;
  app.name(usage);
  app.description(verb.doc);
  app.footer("Example:\n  " + verb.example);
  app.allow_extras();
  for (const Flag& flag : verb.flags) {
    const std::string names = flag.alias.empty() ? flag.name : flag.name + "," + flag.alias;
    if (flag.value.empty())
      app.add_flag(names, parsed.switches[flag.name], flag.doc)->disable_flag_override();
    else
      app.add_option(names, parsed.values[flag.name], flag.doc)
          ->type_name(flag.value)
          ->expected(1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
}

/// Under which of its two names a flag is given, time by time.
std::vector<std::string> names_given(const Flag& flag, const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    if (name == flag.name || name == flag.alias) out.push_back(name);
  }
  return out;
}

/// The value of a flag, which may be given twice if it says the same.
std::string one_value(const std::vector<std::string>& names, const Flag& flag,
                      const std::vector<std::string>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (trim(values[i]).empty()) throw error("{} '{}': should be {}", names[i], values[i], flag.value);
    if (values[i] != values[0])
      throw error("{} {} and {} {} are the same flag with two values; give one", names[0], values[0],
                  names[i], values[i]);
  }
  return values.front();
}

/// What a word that is no flag of the verb may mean: a key of its --fix or --set, or flags that are written alike.
std::string meant_by(std::string_view word, const Verb& verb) {
  std::vector<std::string> known;
  for (const Flag& flag : verb.flags) known.push_back(flag.name);
  std::string key(word.substr(std::min(word.find_first_not_of('-'), word.size())));
  std::ranges::replace(key, '-', '_');
  if (std::ranges::find(constraint_words(), key, &ConstraintWord::name) == constraint_words().end())
    return near_names(word, known);
  std::vector<std::string> meant;
  for (const std::string& flag : known)
    if (flag == "--fix" || flag == "--set")
      meant.push_back(fmt::format("{} {}=..", flag, key));
    else if (flag.starts_with(word))
      meant.push_back(flag);
  return meant.empty() ? near_names(word, known) : fmt::format(" (did you mean {}?)", join(meant, " or "));
}

Arguments arguments_of(const Verb& verb, const CLI::App& app, const std::vector<std::string>& words,
                       const Parsed& parsed) {
  Arguments out;
  out.words = words;
  for (const Flag& flag : verb.flags) {
    if (app.count(flag.name) == 0) continue;
    if (flag.value.empty()) {
      out.flags[flag.name] = "true";
      continue;
    }
    const std::vector<std::string>& values = parsed.values.at(flag.name);
    std::vector<std::string> names = names_given(flag, words);
    if (names.size() != values.size()) names.assign(values.size(), flag.name);
    out.flags[flag.name] = one_value(names, flag, values);
    out.names[flag.name] = names.front();
  }
  for (const std::string& word : app.remaining()) {
    if (word.size() > 1 && word[0] == '-' && !to_number(word)) {
      const std::string name = word.substr(0, word.find('='));
      throw error("flag '{}' is unknown to {}{}", name, verb.name, meant_by(name, verb));
    }
    out.positionals.push_back(word);
  }
  if (out.positionals.size() > verb.positionals.size())
    throw error("'{}' is one word too many; {} takes {}", out.positionals[verb.positionals.size()], verb.name,
                verb.positionals.empty() ? "none" : join(verb.positionals, " "));
  for (std::size_t i = out.positionals.size(); i < verb.positionals.size(); ++i)
    if (verb.positionals[i][0] != '[') throw error("{} needs {}", verb.name, verb.positionals[i]);
  return out;
}

std::string overview() {
  std::string out = "shardwright: plans, proves and trains networks over many devices\n\n";
  for (const Verb& v : all_verbs()) out += fmt::format("  {:8} {}\n", v.name, v.doc);
  return out + "\nshardwright VERB --help tells the flags and an example.\n";
}

const Verb& find_verb(const std::string& name) {
  std::vector<std::string> known;
  for (const Verb& v : all_verbs()) {
    if (v.name == name) return v;
    known.push_back(v.name);
  }
  throw error("verb '{}' does not exist{}; there are {}", name, near_names(name, known), join(known, ", "));
}

/// Copies of this program that do not join would each do everything, over each other's files.
void check_alone(const Verb& verb) {
  if (const auto other = other_launcher())
    throw error(
        "{} has started several copies of this program ({}={}), which would each do everything; start one "
        "process, or train with Open MPI's mpirun",
        other->name, other->variable, other->rank);
  if (launched_ranks() > 1 && !verb.joins_mpirun)
    throw error("{} runs in one process, but mpirun has started {}; leave mpirun away", verb.name,
                launched_ranks());
}

/// The described system starts its processes by it; here, only mpirun does.
void tell_rank_table(Terminal& terminal) {
  const char* table = std::getenv("RANK_TABLE_FILE");
  if (table && *table && rank_of_process() == 0)
    terminal.err << fmt::format(
        "shardwright: RANK_TABLE_FILE={} is not read; mpirun says which ranks there are\n", table);
}

/// `--devices: 1 required N missing`: the flag's name is all that is of use.
Error mismatch(const Verb& verb, const std::vector<std::string>& words, const std::string& what) {
  const std::string name = what.substr(0, what.find(':'));
  for (const Flag& flag : verb.flags)
    for (const std::string& word : words)
      if (flag.value.empty() && word.starts_with(flag.name + "="))
        return error("{}: {} is a switch and takes no value", word, flag.name);
  return error("{} needs a value; see shardwright {} --help", name, verb.name);
}

int run_verb(const std::vector<std::string>& words, Terminal& terminal) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    (words.empty() ? terminal.err : terminal.out) << overview();
    return words.empty() ? user_error : 0;
  }
  if (words[0] == "--version") {
    terminal.out << "shardwright " << SHARDWRIGHT_VERSION << "\n";
    return 0;
  }
  for (const std::string& word : words)
    if (end_of_utf8(word)) throw error("argument {} is not UTF-8", &word - words.data() + 1);
  const Verb& verb = find_verb(words[0]);
  CLI::App app;
  Parsed parsed;
  declare(app, verb, parsed);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend() - 1));
  } catch (const CLI::CallForHelp&) {
    terminal.out << app.help();
    return 0;
  } catch (const CLI::ArgumentMismatch& e) {
    throw mismatch(verb, words, e.what());
  } catch (const CLI::ParseError& e) {
    throw Error(e.what());
  }
  Arguments arguments = arguments_of(verb, app, words, parsed);
  check_alone(verb);
  if (verb.joins_mpirun) tell_rank_table(terminal);
  if (arguments.has("--plan")) {
    saved_plan(arguments);  // one for all who copy the arguments
    arguments.heed_none();
  }
  if (arguments.has("--set")) arguments = with_set(std::move(arguments));
  arguments = with_counts(std::move(arguments));
  if (arguments.has("--config")) arguments = with_config(std::move(arguments));
  check_outputs(arguments);
  read_strategies(arguments);
  try {
    const int status = verb.run(arguments, terminal);
    if (status == 0) arguments.check_heeded(terminal.err);
    return status;
  } catch (const Infeasible& e) {
    arguments.tell_notices(terminal.err);
    // Whoever reads JSON gets a last document, too.
    if (arguments.has("--json")) terminal.out << document(e) << "\n";
    throw;
  }
}

/// Ends with an error, behind what has been printed before.
int fail(Terminal& terminal, std::string_view kind, const char* what, int status) {
  try {
    terminal.out << std::flush;
  } catch (const std::exception&) {  // the first error is the one to tell
  }
  // In one go, so that lines of several processes do not mix.
  terminal.err << fmt::format("shardwright: {}{}\n", kind, one_line(what));
  return status;
}

}  // namespace

int run_command(const std::vector<std::string>& words, Terminal& terminal) try {
  const int status = run_verb(words, terminal);
  terminal.out << std::flush;  // a last chance to say that it cannot be written
  return status;
} catch (const Error& e) {
  return fail(terminal, "", e.what(), user_error);
} catch (const std::bad_alloc&) {
  const std::string what = fmt::format("out of memory: '{}' needs more than there is here", join(words, " "));
  return fail(terminal, "", what.c_str(), user_error);
} catch (const std::exception& e) {
  return fail(terminal, "internal fault: ", e.what(), internal_fault);
}

}  // namespace shardwright
