// The command line: words to arguments (CLI11), errors to one line and an exit status.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "shardwright/base/text.h"
#include "shardwright/cli/config.h"
#include "shardwright/cli/verb.h"
#include "shardwright/plan/problem.h"
#include "shardwright/runtime/launcher.h"

namespace shardwright {
namespace {

constexpr int user_error = 2;
constexpr int internal_fault = 70;

struct Parsed {
  std::map<std::string, std::string> values;
  std::map<std::string, bool> switches;
  std::vector<std::string> positionals;
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
      app.add_flag(names, parsed.switches[flag.name], flag.doc);
    else
      app.add_option(names, parsed.values[flag.name], flag.doc)
          ->type_name(flag.value)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

Arguments arguments_of(const Verb& verb, const CLI::App& app, Parsed& parsed) {
  Arguments out;
  for (const Flag& flag : verb.flags) {
    if (app.count(flag.name) == 0) continue;
    out.flags[flag.name] = flag.value.empty() ? "true" : parsed.values[flag.name];
  }
  for (const std::string& word : app.remaining()) {
    if (word.size() > 1 && word[0] == '-' && !to_number(word)) {
      std::vector<std::string> known;
      for (const Flag& flag : verb.flags) known.push_back(flag.name);
      const std::string name = word.substr(0, word.find('='));
      throw error("flag '{}' is unknown to {}{}", name, verb.name, near_names(name, known));
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

int run_verb(const std::vector<std::string>& words, Terminal& terminal) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    (words.empty() ? terminal.err : terminal.out) << overview();
    return words.empty() ? user_error : 0;
  }
  if (words[0] == "--version") {
    terminal.out << "shardwright " << SHARDWRIGHT_VERSION << "\n";
    return 0;
  }
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
    // `--devices: 1 required N missing`: the flag's name is all that is of use.
    const std::string name = std::string(e.what()).substr(0, std::string_view(e.what()).find(':'));
    throw error("{} needs a value; see shardwright {} --help", name, verb.name);
  } catch (const CLI::ParseError& e) {
    throw Error(e.what());
  }
  Arguments arguments = arguments_of(verb, app, parsed);
  check_alone(verb);
  arguments.words = words;
  try {
    return verb.run(arguments.has("--config") ? with_config(arguments) : arguments, terminal);
  } catch (const Infeasible& e) {
    // Whoever reads JSON gets a last document, too.
    if (arguments.has("--json"))
      terminal.out << nlohmann::ordered_json{{"status", "infeasible"}, {"reason", e.what()}}.dump() << "\n";
    throw;
  }
}

/// What a file holds stands in messages, however long it is and whatever its characters.
std::string one_line(std::string text) {
  constexpr std::size_t longest = 2000;
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; },
      ' ');
  return text.size() > longest ? text.substr(0, longest) + "..." : text;
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

std::string Arguments::text(const std::string& flag, const std::string& otherwise) const {
  const auto it = flags.find(flag);
  return it == flags.end() ? otherwise : it->second;
}

std::int64_t Arguments::integer(const std::string& flag, std::int64_t otherwise, std::int64_t least,
                                std::int64_t most) const {
  if (!has(flag)) return otherwise;
  const auto n = to_integer(text(flag));
  if (!n || *n < least || *n > most)
    throw error("{} {}: should be an integer from {} on{}", flag, text(flag), least,
                most == 1LL << 40 ? "" : fmt::format(", at most {}", most));
  return *n;
}

double Arguments::number(const std::string& flag, double otherwise) const {
  if (!has(flag)) return otherwise;
  const auto x = to_number(text(flag));
  if (!x) throw error("{} {}: should be a number", flag, text(flag));
  return *x;
}

int run_command(const std::vector<std::string>& words, Terminal& terminal) try {
  const int status = run_verb(words, terminal);
  terminal.out << std::flush;  // a last chance to say that it cannot be written
  return status;
} catch (const Error& e) {
  return fail(terminal, "", e.what(), user_error);
} catch (const std::exception& e) {
  return fail(terminal, "internal fault: ", e.what(), internal_fault);
}

}  // namespace shardwright
