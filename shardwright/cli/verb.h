// A verb of the command line is one file in cli/verbs: its flags as data, and a function of parsed arguments.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardwright {

struct Flag {
  std::string name;   // `--devices`
  std::string value;  // what stands behind it in the help: `N`; empty: a switch
  std::string doc;
  std::string alias;  // another name, or empty
};

/// What the user wrote, by flag name.
class Arguments {
 public:
  std::map<std::string, std::string> flags;
  std::vector<std::string> positionals;
  std::vector<std::string> words;    // the whole command line, from the verb on
  std::vector<std::string> notices;  // to be told beside what was planned, a line each

  bool has(const std::string& flag) const { return flags.contains(flag); }
  std::string text(const std::string& flag, const std::string& otherwise = "") const;
  /// Throws: Error if it is not an integer in [least, most].
  std::int64_t integer(const std::string& flag, std::int64_t otherwise, std::int64_t least = 1,
                       std::int64_t most = 1LL << 40) const;
  /// Throws: Error if it is not a finite number.
  double number(const std::string& flag, double otherwise) const;
};

struct Terminal {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
};

struct Verb {
  std::string name;
  std::string doc;
  std::vector<std::string> positionals;  // `MODEL`, or `[FILE]` for one that may be missing
  std::vector<Flag> flags;
  std::string example;
  int (*run)(const Arguments& arguments, Terminal& terminal);  // returns the exit status
  bool joins_mpirun = false;  // as a rank; others would do everything once in each process
};

/// Every verb there is; written by CMake from the files in cli/verbs/.
std::span<const Verb> all_verbs();

/// Runs one command line (without the program's name) and returns its exit status: 0; 2 after a user's error,
/// told in one line on `err`; 70 after an internal fault; 130 when interrupted.
int run_command(const std::vector<std::string>& words, Terminal& terminal);

}  // namespace shardwright
