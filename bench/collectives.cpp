// all_reduce of f32 sums between the ranks of a host, in place; on two ranks beside a plain parallel sum: each
// of the same two threads or processes adds one half of two buffers and writes both halves of the sum.

#include <fmt/format.h>

#include <atomic>

#include "bench/harness/measure.h"
#include "bench/harness/ranks.h"
#include "shardwright/base/vectorize.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/runtime/communicator/wait.h"

namespace shardwright {
namespace {

constexpr std::int64_t largest = std::int64_t{64} << 20;
const Table table({"ranks", "runtime", "bytes   ", "all_reduce", "plain sum", "ratio            ", "target"});

/// Lies in shared memory, which holds zeros at first. Its two ranks wait for each other as those of an all_reduce
/// do, but once instead of twice.
struct PlainSum {
  alignas(64) std::atomic<std::uint32_t> arrived;
  alignas(64) Awaited meetings;

  static constexpr std::int64_t head = 4096;
  static constexpr std::int64_t total_bytes = head + 2 * largest;

  void meet() {
    const std::uint32_t now = meetings.load();
    if (arrived.fetch_add(1) == 0) return meetings.wait_while(now);
    arrived = 0;
    meetings.add(1);
  }
  void run(int rank, std::int64_t count) {
    const std::int64_t begin = rank * (count / 2), end = rank == 0 ? count / 2 : count;
    float* first = reinterpret_cast<float*>(reinterpret_cast<std::byte*>(this) + head);
    float* second = first + largest / 4;
    vectorized([=] {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) first[i] = second[i] = first[i] + second[i];
    });
    meet();
  }
};

int prepare_all_reduce(Communicator& communicator, std::byte* data, std::int64_t count) {
  const std::vector<Mesh> all{Mesh{{{"all", communicator.size()}}}};
  Step step{.kind = StepKind::all_reduce, .axes = {0}, .from = replicated(1), .to = replicated(1)};
  step.from.sum = all[0].all_axes();
  const BoundTransfer bound{transfer_of(step, all, {count}, communicator.rank()), DType::f32, data, data};
  return communicator.prepare({&bound, 1});
}

/// Ranks hold 1, 2, ...: all must have their sum.
void check(Communicator& communicator, int transfer, std::byte* data, std::int64_t count) {
  auto* values = reinterpret_cast<float*>(data);
  std::fill_n(values, count, static_cast<float>(communicator.rank() + 1));
  communicator.run(transfer);
  const auto n = static_cast<float>(communicator.size());
  for (std::int64_t i = 0; i < count; ++i)
    require(values[i] == n * (n + 1) / 2, "all_reduce gives {} of 1 to {}", values[i], n);
  std::fill_n(values, count, 0.0F);  // zeros stay zeros, however often they are summed
}

void measure(const TeamRank& team, Communicator& communicator, std::byte* data, std::int64_t bytes,
             const BenchOptions& options) {
  const std::int64_t count = bytes / 4;
  const int transfer = prepare_all_reduce(communicator, data, count);
  check(communicator, transfer, data, count);
  auto& plain = *reinterpret_cast<PlainSum*>(team.shared.data());
  // Rounds of half a millisecond: in most of them nothing else wants the cores.
  const double seconds = 3e-6 + static_cast<double>(bytes) / 20e9;
  const int calls = options.is_smoke ? 2 : std::clamp(static_cast<int>(5e-4 / seconds), 1, 100);
  const bool has_peer = team.size == 2;
  const auto ours = [&] {
    communicator.barrier();
    return seconds_per_call(calls, [&] { communicator.run(transfer); });
  };
  const auto theirs = [&] {
    if (!has_peer) return 1.0;
    communicator.barrier();
    return seconds_per_call(calls, [&] { plain.run(team.rank, count); });
  };
  const Comparison c = interleaved(options.rounds(bytes > 1 << 20 ? 41 : 101), ours, theirs);
  if (team.rank != 0) return;
  const bool is_judged = has_peer && (bytes == 1 << 20 || bytes == largest);
  table.row({fmt::to_string(team.size), team.runtime, fmt::to_string(bytes), time_text(c.ours.median),
             has_peer ? time_text(c.theirs.median) : "-", has_peer ? ratio_text(c.ratio) : "-",
             is_judged                      ? "<= 1.3"
             : team.size == 8 && bytes == 4 ? "< 50 us"
                                            : "-"});
}

void measure_all(const TeamRank& team, const BenchOptions& options) {
  const auto backend = cpu_backend();
  const auto communicator = team.communicator();
  const Memory memory = communicator->allocate(team.size > 2 ? 1 << 20 : largest, *backend);
  std::vector<std::int64_t> sizes{4, 64 << 10, 1 << 20};
  if (team.size == 2) sizes.insert(sizes.end(), {16 << 20, largest});
  if (options.is_smoke) sizes = {4, 64 << 10};
  for (std::int64_t bytes : sizes) measure(team, *communicator, memory.data(), bytes, options);
  communicator->barrier();
}

void bench(const BenchOptions& options) {
  const auto work = [&](const TeamRank& team) { measure_all(team, options); };
  if (is_rank_of_mpi()) return run_rank(PlainSum::total_bytes, work);
  table.begin("all_reduce between the ranks of a host");
  for (int ranks : {2, 4, 8}) {
    run_threads(ranks, PlainSum::total_bytes, work);
    run_mpi(ranks, options);
  }
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) { return shardwright::run_bench(argc, argv, shardwright::bench); }
