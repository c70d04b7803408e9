// A verb of the command line is one file in cli/verbs: its flags as data, and a function of parsed arguments.
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/base/given.h"

namespace shardwright {

class Progress;
struct Plan;
struct StrategyFile;

struct Flag {
  std::string name;   // `--devices`
  std::string value;  // what stands behind it in the help: `N`; empty: a switch
  std::string doc;
  std::string alias;       // another name, or empty
  std::string group = {};  // under which help tells it; empty: with what is the verb's own
};

/// What the user wrote, by flag name.
///
/// No flag is taken and ignored: who reads a value or a switch *heeds* the flag, `has` only asks whether it is there.
/// What nobody has heeded when a verb is about to print or write has no effect, and that is the user's mistake; where
/// only the circumstances leave a flag nothing to do (one device), whoever knows says so with `idle`, and it is told.
class Arguments {
 public:
  std::map<std::string, std::string> flags;
  std::vector<std::string> positionals;
  std::vector<std::string> words;            // the whole command line, from the verb on
  mutable std::vector<std::string> notices;  // to be told beside what was planned, a line each
  std::set<std::string> of_config;           // flags that the file of --config stands for
  /// Of flags that are said under another name, that name: `--batch-size`, `config c.yaml: parallel.device_num`.
  std::map<std::string, std::string> names;
  mutable std::shared_ptr<const Plan> plan;                // of --plan, once it is read: see saved_plan
  mutable std::shared_ptr<const StrategyFile> strategies;  // of --strategy, likewise: see strategies_asked
  mutable std::shared_ptr<const Plan>
      found;  // by a search that chooses micro-batches, too: see model_to_plan
  /// When the command began: what limits its time counts from here.
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  Progress* progress = nullptr;  // that long work tells how far it is; null: nobody watches

  bool has(const std::string& flag) const { return flags.contains(flag); }
  /// Of a switch.
  bool is_on(const std::string& flag) const;
  std::string text(const std::string& flag, const std::string& otherwise = "") const;
  /// Throws: Error if it is not an integer in [least, most].
  std::int64_t integer(const std::string& flag, std::int64_t otherwise, std::int64_t least = 1,
                       std::int64_t most = 1LL << 40) const;
  /// The text of a flag that is there, and what it is called.
  Given given(const std::string& flag) const;

  /// The flag has its effect.
  void heed(const std::string& flag) const { heeded_.insert(flag); }
  void heed_all() const;
  void heed_none() const { heeded_.clear(); }
  /// The flag, if it is there, has nothing to do, and that is no mistake: `why` becomes a notice.
  void idle(const std::string& flag, std::string_view why) const;
  /// To be called when everything that is asked for is known, and before anything is printed or written: tells the
  /// notices. Throws: Error that names a flag that nobody has heeded; one of --config is only told.
  void check_heeded(std::ostream& err) const;
  void tell_notices(std::ostream& err) const;

  /// As messages name a flag: by its other name, where it was said under that.
  std::string called(const std::string& flag) const;

 private:
  mutable std::set<std::string> heeded_;  // a record of reading, which changes nothing
};

struct Terminal {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  Progress* progress = nullptr;  // shown on the terminal; null: nobody watches
};

struct Verb {
  std::string name;
  std::string doc;
  std::vector<std::string> positionals;  // `MODEL`, or `[FILE]` for one that may be missing
  std::vector<Flag> flags;
  std::string example;                                         // a command line, or several
  int (*run)(const Arguments& arguments, Terminal& terminal);  // returns the exit status
  bool joins_mpirun = false;  // as a rank; others would do everything once in each process
  bool starts_apart = false;  // what starts several of it may be any launcher: they find each other
};

/// Every verb there is; written by CMake from the files in cli/verbs/.
std::span<const Verb> all_verbs();

/// Runs one command line (without the program's name) and returns its exit status: 0; 2 after a user's error,
/// told in one line on `err`; 70 after an internal fault; 130 when interrupted.
int run_command(const std::vector<std::string>& words, Terminal& terminal);

}  // namespace shardwright
