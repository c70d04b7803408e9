#include "shardwright/runtime/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "shardwright/lower/traffic.h"
#include "shardwright/passes/optimize.h"
#include "tests/support/allocations.h"
#include "tests/support/device.h"
#include "tests/support/forwarding_backend.h"
#include "tests/support/program.h"

namespace shardwright {
namespace {

using testing::program_of;

const char* const contracted = R"(
mesh [tp=2]
%x = input f64[4, 4] as [4, 8] [-, tp]
%w = param f64[4, 6] as [8, 6] [tp, -]
%1 = matmul %x, %w {k: tp} : f64[4, 6] as [4, 6] [-, -] sum(tp)
%y = all_reduce.sum %1 over tp : f64[4, 6] as [4, 6] [-, -]
%2 = reduce_scatter %1 dim 0 over tp : f64[2, 6] as [4, 6] [tp, -]
%z = all_gather %2 dim 0 over tp : f64[4, 6] as [4, 6] [-, -]
update:
%w2 = fill (shape=[8, 6], value=1, dtype=f64) {i0: tp} : f64[4, 6] as [8, 6] [tp, -]
output %y
output %z
update %w <- %w2
)";

/// Runs `work` with an executor per rank, each on its own thread.
template <class F>
void with_executors(const Pipeline& pipeline, F work) {
  auto communicators = testing::device_communicators(pipeline.rank_count());
  std::vector<std::jthread> threads;
  for (auto& communicator : communicators)
    threads.emplace_back([&] {
      const auto backend = testing::device(communicator->rank());
      backend->enter_thread();
      Executor executor(pipeline, *backend, *communicator);
      work(executor, *backend);
      communicator->barrier();
    });
}

TEST(Executor, a_step_allocates_nothing) {
  with_executors(program_of(contracted), [](Executor& executor, Backend&) {
    executor.run();  // wakes whatever initialises itself lazily
    const std::int64_t before = testing::allocations_of_this_thread();
    for (int step = 0; step < 3; ++step) executor.run();
    EXPECT_EQ(testing::allocations_of_this_thread() - before, 0);
  });
}

TEST(Executor, counts_what_moves_between_ranks) {
  with_executors(program_of(contracted), [](Executor& executor, Backend&) {
    const Traffic t = traffic_of(executor.step());
    EXPECT_EQ(t.collectives,
              (std::map<std::string_view, int>{{"all_gather", 1}, {"all_reduce", 1}, {"reduce_scatter", 1}}));
    // all_reduce 192 B, reduce_scatter 96 B, all_gather 96 B
    EXPECT_EQ(t.bytes, 384);
  });
}

TEST(Executor, all_leaves_change_at_once) {
  Program p = program_of(R"(
mesh [dp=1]
%a = param f32[2] as [2] [-]
%b = param f32[2] as [2] [-]
output %a
update %a <- %b
update %b <- %a
)");
  with_executors(p, [&](Executor& executor, Backend& backend) {
    const TensorView a = executor.view(0, p.graph.find("a")), b = executor.view(0, p.graph.find("b"));
    backend.fill(a, 1);
    backend.fill(b, 2);
    executor.run();
    EXPECT_EQ(to_doubles(testing::read(backend, a)), (std::vector<double>{2, 2}));
    EXPECT_EQ(to_doubles(testing::read(backend, b)), (std::vector<double>{1, 1}));
  });
}

TEST(Executor, a_new_value_in_its_leafs_place_needs_no_copy) {
  Program p = program_of(R"(
mesh [dp=1]
%w = param f32[2] as [2] [-]
update:
%w2 = fill (shape=[2], value=3) : f32[2] as [2] [-]
output %w2
update %w <- %w2
)");
  testing::share_place(p, "w2", "w");
  with_executors(p, [&](Executor& executor, Backend& backend) {
    executor.run();
    EXPECT_EQ(to_doubles(testing::read(backend, executor.view(0, p.graph.find("w")))),
              (std::vector<double>{3, 3}));
  });
}

/// A device with something done before each of its kernels.
class Observed final : public testing::ForwardingBackend {
 public:
  explicit Observed(std::function<void(const OpDef&)> before)
      : ForwardingBackend(testing::device()), before_(std::move(before)) {}

  PreparedKernel prepare(std::span<const FusedCall> calls) override {
    return PreparedKernel([this, &op = calls.front().op, kernel = ForwardingBackend::prepare(calls)] {
      before_(op);
      kernel();
    });
  }

 private:
  std::function<void(const OpDef&)> before_;
};

// A slow rank, so slow that it does not go on before the others have computed what stands between the start of
// the sum and its use: they do not wait for it there.
TEST(Executor, computes_while_a_rank_is_late) {
  Program p = program_of(R"(
mesh [dp=3]
%x = input f32[4, 8] as [12, 8] [dp, -]
%a = matmul %x, %x (transpose_a=true) {k: dp} : f32[8, 8] as [8, 8] [-, -] sum(dp)
%b = exp %x {i0: dp} : f32[4, 8] as [12, 8] [dp, -]
%1 = all_reduce.sum %a over dp : f32[8, 8] as [8, 8] [-, -]
%c = tanh %1 {} : f32[8, 8] as [8, 8] [-, -]
output %b
output %c
)");
  testing::share_place(p, "1", "a");
  Redistributor redistributor(p.graph.meshes[0]);
  p = start_transfers(std::move(p), {redistributor});
  const Pipeline pipeline = p;
  std::atomic<int> computed{0};  // ranks that have computed %b
  std::atomic<bool> is_late_over{false};
  auto communicators = testing::device_communicators(3);
  std::vector<std::jthread> threads;
  for (auto& communicator : communicators)
    threads.emplace_back([&] {
      const bool is_late = communicator->rank() == 1;
      const auto before = [&](const OpDef& op) {
        if (op.name == "exp") ++computed;
        EXPECT_TRUE(op.name != "tanh" || is_late_over);
        if (!is_late || op.name != "matmul") return;
        const auto start = std::chrono::steady_clock::now();
        while (computed < 2 && std::chrono::steady_clock::now() - start < std::chrono::seconds(20))
          std::this_thread::yield();
        EXPECT_EQ(computed, 2) << "the others wait for this rank";
        is_late_over = true;
      };
      Observed backend(before);
      Executor executor(pipeline, backend, *communicator);
      backend.fill(executor.view(0, p.graph.find("x")), 1);
      executor.run();
      EXPECT_EQ(to_doubles(testing::read(backend, executor.view(0, p.graph.find("1")))).front(), 12);
      communicator->barrier();
    });
}

TEST(Executor, refuses_a_program_without_buffers) {
  Program p = program_of("mesh [dp=1]\n%w = param f32[2] as [2] [-]\noutput %w\n");
  p.buffer_of.clear();
  const Pipeline pipeline = p;
  const auto communicators = testing::device_communicators(1);
  const auto backend = testing::device();
  EXPECT_THROW(Executor(pipeline, *backend, *communicators[0]), InternalError);
}

}  // namespace
}  // namespace shardwright
