#include "shardwright/runtime/communicator/host_messages.h"

#include <mpi.h>
#include <sched.h>

#include <algorithm>

#include "shardwright/runtime/communicator/heartbeat.h"
#include "shardwright/runtime/communicator/mpi.h"

namespace shardwright {
namespace {

constexpr int tag_of_host_messages = 17;
/// MPI counts in int.
constexpr std::size_t most_of_message = std::size_t{1} << 30;

}  // namespace

struct HostMessages::Requests {
  std::vector<MPI_Request> all;
};

HostMessages::HostMessages(std::span<const HostMessage> messages) : requests_(std::make_unique<Requests>()) {
  for (const HostMessage& m : messages)
    for (std::size_t begin = 0; begin < m.bytes.size(); begin += most_of_message) {
      const std::span<std::byte> part =
          m.bytes.subspan(begin, std::min(most_of_message, m.bytes.size() - begin));
      MPI_Request& request = requests_->all.emplace_back();
      const int count = static_cast<int>(part.size());
      if (m.is_sent)
        MPI_Isend(part.data(), count, MPI_BYTE, m.rank, tag_of_host_messages, MPI_COMM_WORLD, &request);
      else
        MPI_Irecv(part.data(), count, MPI_BYTE, m.rank, tag_of_host_messages, MPI_COMM_WORLD, &request);
    }
}

HostMessages::~HostMessages() = default;

bool HostMessages::have_ended() {
  int all = 0;
  MPI_Testall(static_cast<int>(requests_->all.size()), requests_->all.data(), &all, MPI_STATUSES_IGNORE);
  return all != 0;
}

void HostMessages::wait(MpiProcess& process) {
  const Heartbeat::Call call(process.heartbeat(), "taking copies of the state");
  while (!have_ended()) sched_yield();
}

}  // namespace shardwright
