// Tests over MPI, the contract of communicators and training runs: every process runs all tests, each as its
// own rank.

#include <gtest/gtest.h>

#include "shardwright/runtime/communicator/mpi.h"
#include "tests/mpi/on_each_process.h"
#include "tests/support/device.h"
#include "tests/support/on_each_rank.h"

namespace shardwright {
namespace {

MpiProcess& this_process() {
  static MpiProcess process;
  return process;
}

}  // namespace

int most_ranks() { return this_process().size(); }
bool ranks_are_processes() { return true; }

void on_each_rank(int ranks, const std::function<void(Communicator&)>& work) {
  on_each_process(ranks, 10000, work);
}

void on_each_rank(int ranks, std::chrono::nanoseconds timeout,
                  const std::function<void(Communicator&)>& work) {
  Heartbeat& heartbeat = this_process().heartbeat();
  heartbeat.set_timeout(timeout);
  on_each_process(ranks, 10000, work);
  heartbeat.set_timeout(usual_timeout);
}

void on_each_process(int ranks, std::size_t transfers, const std::function<void(Communicator&)>& work) {
  MpiProcess& process = this_process();
  if (process.size() < ranks) GTEST_SKIP() << "needs " << ranks << " ranks, there are " << process.size();
  if (auto communicator = process.communicator(ranks, transfers))
    work(*staged(std::move(communicator), *testing::device()));
}

std::unique_ptr<Session> session_of(Pipeline program, SessionOptions options) {
  const int ranks = program.rank_count();
  if (ranks > most_ranks()) {
    [&] { GTEST_SKIP() << "needs " << ranks << " ranks, there are " << most_ranks(); }();
    return nullptr;
  }
  auto communicator = this_process().communicator(program.rank_count(), most_transfers(program));
  if (!communicator) return nullptr;
  return std::make_unique<Session>(std::move(program), std::move(communicator), options);
}

}  // namespace shardwright

int main(int argc, char** argv) {
  shardwright::this_process();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
