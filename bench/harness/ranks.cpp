#include "bench/harness/ranks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <iostream>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "shardwright/base/error.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/runtime/communicator/mpi.h"
#include "shardwright/runtime/communicator/threads.h"
#include "shardwright/runtime/launcher.h"

namespace shardwright {
namespace {

/// Communicators of threads: the first who asks for the n-th makes it for all.
class ThreadCommunicators {
 public:
  explicit ThreadCommunicators(int size) : asked_(static_cast<std::size_t>(size)), size_(size) {}

  std::unique_ptr<Communicator> take(int rank) {
    const std::lock_guard lock(mutex_);
    const std::size_t n = asked_[static_cast<std::size_t>(rank)]++;
    if (n == made_.size()) made_.push_back(thread_communicators(size_));
    return std::move(made_[n][static_cast<std::size_t>(rank)]);
  }

 private:
  std::mutex mutex_;
  std::vector<std::vector<std::unique_ptr<Communicator>>> made_;
  std::vector<std::size_t> asked_;
  int size_;
};

/// Memory that the processes of this host see, as the windows of MPI are: a file in /dev/shm, named after their
/// parent, that nobody can open any more once all have.
std::span<std::byte> shared_memory(std::size_t bytes, Communicator& all) {
  const std::string name = fmt::format("/shardwright-bench-{}", getppid());
  if (all.rank() == 0) {
    const int made = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
    require(made >= 0 && ftruncate(made, static_cast<off_t>(bytes)) == 0, "no shared memory {}", name);
    close(made);
  }
  all.barrier();
  const int file = shm_open(name.c_str(), O_RDWR, 0600);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
  require(file >= 0 && data != MAP_FAILED, "shared memory {} cannot be mapped", name);
  close(file);
  all.barrier();
  if (all.rank() == 0) shm_unlink(name.c_str());
  return {static_cast<std::byte*>(data), bytes};
}

}  // namespace

void run_threads(int ranks, std::size_t shared_bytes, const TeamWork& work) {
  ThreadCommunicators communicators(ranks);
  const auto backend = cpu_backend();
  const Memory shared = backend->allocate(static_cast<std::int64_t>(shared_bytes));
  std::vector<std::jthread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      pin(r);
      work({.runtime = "threads",
            .rank = r,
            .size = ranks,
            .communicator = [&, r] { return communicators.take(r); },
            .shared = {shared.data(), shared_bytes}});
    });
}

bool is_rank_of_mpi() { return launched_rank().has_value(); }

void run_rank(std::size_t shared_bytes, const TeamWork& work) {
  MpiProcess process;
  pin(process.rank());
  const auto all = process.communicator(process.size());
  work({.runtime = "mpi",
        .rank = process.rank(),
        .size = process.size(),
        .communicator = [&] { return process.communicator(process.size()); },
        .shared = shared_memory(shared_bytes, *all)});
}

void run_mpi(int ranks, const BenchOptions& options) {
  unpin();
  std::vector<std::string> words = options.words;
  if (options.is_smoke) words.emplace_back("--smoke");
  const auto print = [](std::optional<int> /*rank*/, std::string_view text) {
    std::cout << text << std::flush;
  };
  const auto tell = [](std::optional<int> /*rank*/, std::string_view text) { std::cerr << text; };
  const int status = launch({.ranks = ranks,
                             .words = own_program(words),
                             .interrupts = [] { return 0; },
                             .output = print,
                             .errors = tell})
                         .status;
  if (status != 0) throw error("mpirun with {} ranks ended with status {}", ranks, status);
}

}  // namespace shardwright
