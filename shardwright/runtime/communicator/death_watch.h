// Whether processes of this host still run: the kernel says so at once, to whoever holds a descriptor of them.
#pragma once

#include <map>
#include <vector>

namespace shardwright {

class DeathWatch {
 public:
  DeathWatch() = default;
  ~DeathWatch();
  DeathWatch(const DeathWatch&) = delete;
  DeathWatch& operator=(const DeathWatch&) = delete;

  /// One that cannot be watched, by an old kernel, is never found gone.
  void add(int rank, int process);
  /// Those that have ended since the last time.
  std::vector<int> gone();
  void clear();

 private:
  std::map<int, int> descriptors_;  // by rank
};

}  // namespace shardwright
