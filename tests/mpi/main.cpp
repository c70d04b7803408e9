// The contract of communicators over MPI: every process runs all tests, each as its own rank.

#include <gtest/gtest.h>

#include "shardwright/runtime/communicator/mpi.h"
#include "tests/support/on_each_rank.h"

namespace shardwright {
namespace {

MpiProcess& this_process() {
  static MpiProcess process;
  return process;
}

}  // namespace

void on_each_rank(int ranks, const std::function<void(Communicator&)>& work) {
  MpiProcess& process = this_process();
  if (process.size() < ranks) GTEST_SKIP() << "needs " << ranks << " ranks, there are " << process.size();
  if (const auto communicator = process.communicator(ranks)) work(*communicator);
}

}  // namespace shardwright

int main(int argc, char** argv) {
  shardwright::this_process();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
