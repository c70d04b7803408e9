#include <mpi.h>
#include <sys/prctl.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <numeric>

#include "shardwright/base/index.h"
#include "shardwright/runtime/communicator/mpi.h"
#include "shardwright/runtime/communicator/mpi_communicator.h"
#include "shardwright/runtime/communicator/shared.h"
#include "shardwright/runtime/launcher.h"

namespace shardwright {
MpiProcess::MpiProcess(std::chrono::nanoseconds timeout, Joining joining)
    : heartbeat_(launched_rank().value_or(0), launched_ranks(), timeout) {
  // A rank whose mpirun was killed would go on and hold the folder's lock. If that happens before this line,
  // MPI_Init fails. A process that was not launched may outlive its shell.
  if (launched_rank()) prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Heartbeat::Call call(
      heartbeat_, "joining the run",
      joining == Joining::together ? Heartbeat::Busy::for_a_while : Heartbeat::Busy::for_ever);
  int provided = 0;
  // Not at the same time, but a function that is called back may run on another thread than who started the step.
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  heartbeat_.join();
}

MpiProcess::~MpiProcess() {
  {
    const Heartbeat::Call call(heartbeat_, "leaving the run", Heartbeat::Busy::for_ever);
    heartbeat_.leave();
  }
  const Heartbeat::Call call(heartbeat_, "leaving the run");
  MPI_Finalize();
}

int MpiProcess::rank() const {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int MpiProcess::size() const {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

std::unique_ptr<Communicator> MpiProcess::communicator(int size, std::size_t transfers) {
  std::vector<int> ranks(at(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return communicator(ranks, transfers);
}

std::unique_ptr<Communicator> MpiProcess::communicator(std::span<const int> ranks, std::size_t transfers) {
  if (!std::ranges::binary_search(ranks, rank())) return nullptr;
  const Heartbeat::Call call(heartbeat_, "making a communicator");
  MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some);
  MPI_Comm members = MPI_COMM_NULL;
  MPI_Comm_create_group(MPI_COMM_WORLD, some, 0, &members);
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  std::weak_ptr<SharedMemory>& known = memories_[{ranks.begin(), ranks.end()}];
  std::shared_ptr<SharedMemory> memory = known.lock();
  if (!memory) known = memory = std::make_shared<SharedMemory>();
  return mpi_communicator(members, transfers, heartbeat_, ranks, std::move(memory));
}

std::optional<std::string> MpiProcess::first_error(const std::optional<std::string>& own) {
  const Heartbeat::Call call(heartbeat_, "agreeing to begin", Heartbeat::Busy::for_ever);
  const int none = size(), mine = own ? rank() : none;
  int first = none;
  MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (first == none) return std::nullopt;
  return said_by(first, own.value_or(""));
}

std::string MpiProcess::said_by(int rank, const std::string& own) {
  const Heartbeat::Call call(heartbeat_, "agreeing to begin", Heartbeat::Busy::for_ever);
  std::string text = own;
  int length = static_cast<int>(text.size());
  MPI_Bcast(&length, 1, MPI_INT, rank, MPI_COMM_WORLD);
  text.resize(at(length));
  MPI_Bcast(text.data(), length, MPI_CHAR, rank, MPI_COMM_WORLD);
  return text;
}

std::vector<std::string> MpiProcess::said_by_all(const std::string& own) {
  const Heartbeat::Call call(heartbeat_, "agreeing to begin", Heartbeat::Busy::for_ever);
  const int length = static_cast<int>(own.size());
  std::vector<int> lengths(at(size())), begins(at(size()));
  MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD);
  std::exclusive_scan(lengths.begin(), lengths.end(), begins.begin(), 0);
  std::string all(at(begins.back() + lengths.back()), '\0');
  MPI_Allgatherv(own.data(), length, MPI_CHAR, all.data(), lengths.data(), begins.data(), MPI_CHAR,
                 MPI_COMM_WORLD);
  std::vector<std::string> out;
  for (std::size_t r = 0; r < lengths.size(); ++r) out.push_back(all.substr(at(begins[r]), at(lengths[r])));
  return out;
}

std::vector<int> MpiProcess::hosts() {
  const Heartbeat::Call call(heartbeat_, "agreeing to begin", Heartbeat::Busy::for_ever);
  MPI_Comm here = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank(), MPI_INFO_NULL, &here);
  int first = rank();
  MPI_Bcast(&first, 1, MPI_INT, 0, here);
  MPI_Comm_free(&here);
  std::vector<int> firsts(at(size())), out;
  MPI_Allgather(&first, 1, MPI_INT, firsts.data(), 1, MPI_INT, MPI_COMM_WORLD);
  std::vector<int> sorted = firsts;
  std::ranges::sort(sorted);
  sorted.erase(std::ranges::unique(sorted).begin(), sorted.end());
  for (const int each : firsts)
    out.push_back(static_cast<int>(std::ranges::lower_bound(sorted, each) - sorted.begin()));
  return out;
}

std::optional<std::string> MpiProcess::disagreement(std::span<const Agreement> own) {
  const Heartbeat::Call call(heartbeat_, "agreeing to begin", Heartbeat::Busy::for_ever);
  return first_error(difference(unpacked(said_by(0, packed(own))), rank(), own));
}

void MpiProcess::end_all(int status) {
  heartbeat_.begin_end(status);
  MPI_Abort(MPI_COMM_WORLD, status);
  std::abort();
}

}  // namespace shardwright
