// The command line: what its words ask for is done; errors become one line and an exit status.

#include <algorithm>
#include <cstdlib>
#include <new>

#include "shardwright/base/one_line.h"
#include "shardwright/base/progress.h"
#include "shardwright/base/text.h"
#include "shardwright/cli/command_line.h"
#include "shardwright/cli/completed.h"
#include "shardwright/cli/help.h"
#include "shardwright/cli/plan_report.h"
#include "shardwright/cli/sample_flags.h"
#include "shardwright/cli/started_apart.h"
#include "shardwright/cli/verb.h"
#include "shardwright/runtime/communicator/vigil.h"
#include "shardwright/runtime/launcher.h"
#include "shardwright/search/planning/problem.h"

namespace shardwright {
namespace {

constexpr int user_error = 2;
constexpr int internal_fault = 70;

/// Copies of this program that do not join would each do everything, over each other's files.
void check_alone(const Verb& verb) {
  if (verb.starts_apart && launched_ranks() == 1) return;
  if (const auto other = other_launcher())
    throw error(
        "{} has started several copies of this program ({}={}), which would each do everything; start one "
        "process, or train with Open MPI's mpirun",
        other->name, other->variable, other->rank);
  if (launched_ranks() > 1 && !verb.joins_mpirun)
    throw error("{} runs in one process, but mpirun has started {}; leave mpirun out", verb.name,
                launched_ranks());
}

/// One that nobody has started a rank of.
void tell_rank_table(Terminal& terminal) {
  const char* table = std::getenv("RANK_TABLE_FILE");
  if (table && *table && rank_of_process() == 0 && !is_started_as_mindspore())
    terminal.err << fmt::format(
        "shardwright: RANK_TABLE_FILE={} is not read; {}\n", table,
        launched_rank() ? "mpirun says which ranks there are"
                        : "RANK_ID says which rank of it a process is, and launch --rank-table starts all");
}

/// `help`, `help VERB` and no word at all tell what there is.
std::optional<std::string> help_for(const std::vector<std::string>& words) {
  const auto is_help = [](const std::string& w) { return w == "help" || w == "--help" || w == "-h"; };
  if (words.empty() || (words.size() == 1 && is_help(words[0]))) return overview();
  if (words[0] == "--version") return fmt::format("shardwright {}\n", SHARDWRIGHT_VERSION);
  if (words[0] == "help") return help_of(verb_called(words[1]));
  return std::nullopt;
}

/// `plan gpt, --search-time 60`
std::string work_text(const Verb& verb, const Arguments& arguments) {
  std::string out = verb.name;
  if (!arguments.positionals.empty()) out += " " + arguments.positionals.front();
  for (const char* limit : {"--search-time", "--time-limit"})
    if (arguments.has(limit)) out += fmt::format(", {} {}", limit, Arguments(arguments).text(limit));
  return out;
}

int run_verb(const std::vector<std::string>& words, Terminal& terminal) {
  if (const auto help = help_for(words)) {
    terminal.out << *help;
    return 0;
  }
  for (const std::string& word : words)
    if (end_of_utf8(word)) throw error("argument {} is not UTF-8", &word - words.data() + 1);
  const Verb& verb = verb_called(words[0]);
  std::optional<Arguments> said = arguments_of(verb, words);
  if (!said) {
    terminal.out << help_of(verb);
    return 0;
  }
  Arguments arguments = *std::move(said);
  const bool is_typed = !arguments.positionals.empty() && arguments.positionals.front() == "-";
  arguments.progress = is_typed ? nullptr : terminal.progress;  // a line would stand in what is being typed
  const auto apart = verb.joins_mpirun ? started_apart() : std::nullopt;
  if (apart) return run_apart(*apart, arguments, terminal);
  check_alone(verb);
  if (verb.joins_mpirun) tell_rank_table(terminal);
  arguments = completed(std::move(arguments));
  const Doing doing(arguments.progress, work_text(verb, arguments));
  try {
    complete_model(verb, arguments);
    const int status = verb.run(arguments, terminal);
    if (status == 0) arguments.check_heeded(terminal.err);
    return status;
  } catch (const Infeasible& e) {
    arguments.tell_notices(terminal.err);
    // Whoever reads JSON gets a last document, too.
    terminal.out << (arguments.has("--json") ? document(e) + "\n" : nearest_text(e));
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
  return fail(terminal, "", e.what(), e.kind() == ErrorKind::timeout ? lost_rank_status : user_error);
} catch (const std::bad_alloc&) {
  const std::string what = fmt::format("out of memory: '{}' needs more than there is here", join(words, " "));
  return fail(terminal, "", what.c_str(), user_error);
} catch (const std::exception& e) {
  return fail(terminal, "internal fault: ", e.what(), internal_fault);
}

}  // namespace shardwright
