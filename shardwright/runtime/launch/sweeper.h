// Removes folders when this process is gone, in whatever way: what is killed can do nothing itself.
#pragma once

#include <string>
#include <vector>

namespace shardwright {

class Sweeper {
 public:
  explicit Sweeper(const std::vector<std::string>& folders);
  /// There is nothing to sweep any more.
  ~Sweeper();
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;

 private:
  // A pipe: at its end a process that reads from it removes them. Here it is open, too, lest a write finds no reader.
  int alive_ = -1, listens_ = -1;
};

/// A lock that holds as long as the descriptor is open; -1: somebody else has it, or there is no such file and `flags` do not
/// make one.
int locked_file(const std::string& path, int flags);

/// Removes those of this user in `base` whose names begin so, and whose `lock_name` nobody holds any more; `also`: what goes
/// with one.
void remove_left_behind(const std::string& base, std::string_view prefix, std::string_view lock_name,
                        std::string (*also)(const std::string& folder) = nullptr);

}  // namespace shardwright
