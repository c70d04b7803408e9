#include <limits>
#include <thread>

#include "tests/support/device.h"
#include "tests/support/on_each_rank.h"

namespace shardwright {

int most_ranks() { return std::numeric_limits<int>::max(); }
bool ranks_are_processes() { return false; }

void on_each_rank(int ranks, const std::function<void(Communicator&)>& work) {
  on_each_rank(ranks, usual_timeout, work);
}

void on_each_rank(int ranks, std::chrono::nanoseconds timeout,
                  const std::function<void(Communicator&)>& work) {
  auto communicators = testing::device_communicators(ranks, timeout);
  std::vector<std::jthread> threads;
  for (auto& rank : communicators) threads.emplace_back([&] { work(*rank); });
}

std::unique_ptr<Session> session_of(Pipeline program, SessionOptions options) {
  return std::make_unique<Session>(std::move(program), options);
}

}  // namespace shardwright
