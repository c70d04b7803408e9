#include "shardwright/runtime/communicator/death_watch.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace shardwright {

DeathWatch::~DeathWatch() { clear(); }

void DeathWatch::add(int rank, int process) {
#ifdef SYS_pidfd_open
  const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (descriptor >= 0) descriptors_[rank] = descriptor;
#endif
}

std::vector<int> DeathWatch::gone() {
  std::vector<pollfd> polled;
  for (const auto& [rank, descriptor] : descriptors_) polled.push_back({descriptor, POLLIN, 0});
  std::vector<int> out;
  if (polled.empty() || poll(polled.data(), polled.size(), 0) <= 0) return out;
  for (const pollfd& p : polled) {
    if (p.revents == 0) continue;
    const auto it = std::ranges::find(descriptors_, p.fd, &std::pair<const int, int>::second);
    out.push_back(it->first);
    ::close(p.fd);
    descriptors_.erase(it);
  }
  return out;
}

void DeathWatch::clear() {
  for (const auto& [rank, descriptor] : descriptors_) ::close(descriptor);
  descriptors_.clear();
}

}  // namespace shardwright
