// What the fuzzer of inputs asks of commands: that they do, or end in one line and status 2, quickly.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace shardwright::fuzzing {

using Words = std::vector<std::string>;
using Seeds = std::map<std::string, Words>;  // texts of files, by kind

// A cluster may have a million devices: half of this. The sanitizer makes what waits for memory five to eight times slower.
#ifdef __SANITIZE_ADDRESS__
constexpr int slowest_seconds = 100;
#else
constexpr int slowest_seconds = 20;
#endif

struct Run {
  int status = 0;
  std::string out;
};

class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws: Fault unless the command does what it should, or ends in one line.
Run run(const Words& words);

Words operator+(Words words, const Words& more);

/// Proves the step of `words` and, where it is small, runs it. Whether it could be proven.
bool prove_and_train(const Words& words);

}  // namespace shardwright::fuzzing
