// all_reduce of f32 sums and all_gather between two hosts of two ranks each, beside MPI_Allreduce and MPI_Allgather of the
// same memory, and beside what the link could carry: hosts are network namespaces (root), links are shaped.

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "bench/harness/measure.h"
#include "bench/harness/ranks.h"
#include "shardwright/base/error.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/runtime/communicator/mpi.h"

namespace shardwright {
namespace {

constexpr int hosts = 2, ranks_per_host = 2, ranks = hosts * ranks_per_host;
const Table table({"link   ", "collective", "bytes   ", "ours   ", "Open MPI", "ours / Open MPI ",
                   "of the link"});

struct Rate {
  const char* name;  // as tc writes it; empty: not shaped
  double bytes_per_second;
};
constexpr std::array<Rate, 3> rates{{{"", 0}, {"10gbit", 1.25e9}, {"1gbit", 0.125e9}}};

struct Case {
  StepKind kind;
  const char* name;
  /// Bytes that a host has to send, as parts of all that a rank has behind it: the sum of its half, and the half's result;
  /// or what lies on it, once.
  double sent;
};
constexpr std::array<Case, 2> cases{
    {{StepKind::all_reduce, "all_reduce", 1}, {StepKind::all_gather, "all_gather", 1.0 / hosts}}};

/// Of `count` elements in all, at `data`; what an all_gather takes lies behind it.
int prepare(Communicator& communicator, const Case& c, std::byte* data, std::int64_t count) {
  const std::vector<Mesh> all{Mesh{{{"all", communicator.size()}}}};
  Step step{.kind = c.kind, .axes = {0}, .from = replicated(1), .to = replicated(1)};
  if (c.kind == StepKind::all_reduce)
    step.from.sum = all[0].all_axes();
  else
    step.dim_from = 0, step.from.dims[0] = {0};
  std::byte* const from = c.kind == StepKind::all_reduce ? data : data + 4 * count;
  const BoundTransfer bound{transfer_of(step, all, {count}, communicator.rank()), DType::f32, from, data};
  return communicator.prepare({&bound, 1});
}

void measure(Communicator& communicator, const Rate& rate, const Case& c, std::byte* data, std::int64_t bytes,
             const BenchOptions& options) {
  const std::int64_t count = bytes / 4;
  const int transfer = prepare(communicator, c, data, count);
  std::fill_n(reinterpret_cast<float*>(data), 2 * count, 0.0F);
  const double link_seconds =
      rate.bytes_per_second > 0 ? c.sent * static_cast<double>(bytes) / rate.bytes_per_second : 0;
  const double about = 1e-4 + std::max(link_seconds, static_cast<double>(bytes) / 5e8);
  const int calls = options.is_smoke ? 1 : std::clamp(static_cast<int>(0.02 / about), 1, 50);
  const auto timed = [&](const std::function<void()>& call) {
    MPI_Barrier(MPI_COMM_WORLD);
    return seconds_per_call(calls, call);
  };
  const auto ours = [&] { return timed([&] { communicator.run(transfer); }); };
  const auto theirs = [&] {
    return timed([&] {
      if (c.kind == StepKind::all_reduce)
        MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      else
        MPI_Allgather(data + 4 * count, static_cast<int>(count / ranks), MPI_FLOAT, data,
                      static_cast<int>(count / ranks), MPI_FLOAT, MPI_COMM_WORLD);
    });
  };
  const Comparison r = interleaved(options.rounds(bytes > 1 << 20 ? 5 : 11), ours, theirs);
  if (communicator.rank() != 0) return;
  table.row({rate.bytes_per_second > 0 ? rate.name : "none", c.name, fmt::to_string(bytes),
             time_text(r.ours.median), time_text(r.theirs.median), ratio_text(r.ratio),
             link_seconds > 0 ? fmt::format("{:.0f} %", 100 * link_seconds / r.ours.median) : "-"});
}

/// In a process that this one has started.
void measure_rank(const Rate& rate, const BenchOptions& options) {
  MpiProcess process;
  pin(process.rank());
  const auto backend = cpu_backend();
  const auto communicator = process.communicator(process.size());
  const std::int64_t largest = options.is_smoke ? 64 << 10 : 64 << 20;
  const Memory memory = communicator->allocate(2 * largest, *backend);
  for (const Case& c : cases)
    for (const std::int64_t bytes :
         {std::int64_t{4 << 10}, std::int64_t{64 << 10}, std::int64_t{1 << 20}, largest})
      if (bytes <= largest) measure(*communicator, rate, c, memory.data(), bytes, options);
  communicator->barrier();
}

void bench(const BenchOptions& options) {
  if (const char* number = std::getenv("BENCH_RATE"); number && is_rank_of_mpi())
    return measure_rank(rates.at(static_cast<std::size_t>(std::atoi(number))), options);
  if (geteuid() != 0) {
    fmt::print(stderr, "skipped: hosts are network namespaces, which only root can make\n");
    return;
  }
  table.begin("collectives between 2 hosts of 2 ranks");
  std::array<char, 4096> self{};
  require(readlink("/proc/self/exe", self.data(), self.size() - 1) > 0, "this program has no path");
  for (std::size_t i = 0; i < (options.is_smoke ? 1 : rates.size()); ++i) {
    const std::string command =
        fmt::format("BENCH_RATE={} rate={} tests/support/net/hosts.sh {} {} -x BENCH_RATE '{}'{}", i,
                    rates[i].name, hosts, ranks_per_host, self.data(), options.is_smoke ? " --smoke" : "");
    if (const int status = std::system(command.c_str()); status != 0)
      throw error("{} ended with status {}", command, status);
  }
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) { return shardwright::run_bench(argc, argv, shardwright::bench); }
