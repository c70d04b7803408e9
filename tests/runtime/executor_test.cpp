#include "shardwright/runtime/executor.h"

#include <gtest/gtest.h>

#include <thread>

#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/runtime/communicator/threads.h"
#include "tests/support/allocations.h"
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
void with_executors(const Program& program, F work) {
  auto communicators = thread_communicators(program.rank_count());
  std::vector<std::jthread> threads;
  for (auto& communicator : communicators)
    threads.emplace_back([&] {
      const auto backend = cpu_backend();
      backend->enter_thread();
      Executor executor(program, *backend, *communicator);
      work(executor, communicator->rank());
      communicator->barrier();
    });
}

TEST(Executor, a_step_allocates_nothing) {
  with_executors(program_of(contracted), [](Executor& executor, int) {
    executor.run();  // wakes whatever initialises itself lazily
    executor.update();
    const std::int64_t before = testing::allocations_of_this_thread();
    for (int step = 0; step < 3; ++step) {
      executor.run();
      executor.update();
    }
    EXPECT_EQ(testing::allocations_of_this_thread() - before, 0);
  });
}

TEST(Executor, counts_what_moves_between_ranks) {
  with_executors(program_of(contracted), [](Executor& executor, int) {
    const Traffic& t = executor.traffic();
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
  with_executors(p, [&](Executor& executor, int) {
    auto a = executor.view(p.graph.find("a")).as<float>(), b = executor.view(p.graph.find("b")).as<float>();
    a[0] = 1, b[0] = 2;
    executor.run();
    executor.update();
    EXPECT_EQ(a[0], 2);
    EXPECT_EQ(b[0], 1);
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
  with_executors(p, [&](Executor& executor, int) {
    executor.run();
    EXPECT_EQ(executor.view(p.graph.find("w")).as<float>()[1], 3);
    executor.update();
    EXPECT_EQ(executor.view(p.graph.find("w")).as<float>()[1], 3);
  });
}

TEST(Executor, refuses_a_program_without_buffers) {
  Program p = program_of("mesh [dp=1]\n%w = param f32[2] as [2] [-]\noutput %w\n");
  p.offsets.clear();
  const auto communicators = thread_communicators(1);
  const auto backend = cpu_backend();
  EXPECT_THROW(Executor(p, *backend, *communicators[0]), InternalError);
}

}  // namespace
}  // namespace shardwright
