// Another framework's program that runs beside a benchmark on the same core and is asked for steps, round by
// round.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace shardwright {

/// A script of bench/peers. It says `ready` or ends at once; then it reads numbers of steps, and answers each
/// with as many lines of seconds, seconds of CPU time, and loss.
class Peer {
 public:
  struct Step {
    double seconds = 0;
    double cpu_seconds = 0;
    double loss = 0;
  };

  /// Nothing if the script ended: what it needs is not installed.
  static std::optional<Peer> start(const std::vector<std::string>& command);
  ~Peer();
  Peer(Peer&& other) noexcept;
  Peer& operator=(Peer&&) = delete;

  /// The most memory that it has had resident, in bytes.
  std::int64_t peak_bytes() const;

  /// Throws: Error of kind peer if the script has ended.
  std::vector<Step> run(int steps);

 private:
  Peer(int child, std::FILE* to, std::FILE* from) : child_(child), to_(to), from_(from) {}

  int child_;
  std::FILE* to_;
  std::FILE* from_;
};

}  // namespace shardwright
