#include <thread>

#include "shardwright/runtime/communicator/threads.h"
#include "tests/support/on_each_rank.h"

namespace shardwright {

void on_each_rank(int ranks, const std::function<void(Communicator&)>& work) {
  auto communicators = thread_communicators(ranks);
  std::vector<std::jthread> threads;
  for (auto& rank : communicators) threads.emplace_back([&] { work(*rank); });
}

}  // namespace shardwright
