#include "shardwright/runtime/memory_marks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/runtime/session.h"
#include "shardwright/simulate/estimate.h"
#include "tests/support/device.h"
#include "tests/support/program.h"

namespace shardwright {
namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

TEST(MemoryMarks, only_what_is_touched_is_resident) {
  const auto backend = testing::device();
  const Memory memory = backend->allocate(64 * mebibyte + 100);
  const std::span<const std::byte> all(memory.data(), static_cast<std::size_t>(memory.bytes()));
  const auto byte = [](std::byte* at, std::int64_t bytes) { return TensorView{DType::u8, {bytes}, at}; };
  EXPECT_EQ(backend->resident_bytes(all), 0);
  backend->fill(byte(memory.data() + 20 * mebibyte, 5 * mebibyte), 1);
  const std::int64_t some = backend->resident_bytes(all);
  EXPECT_GE(some, 5 * mebibyte);
  EXPECT_LE(some, 8 * mebibyte);  // pages may be of 2 MiB
  EXPECT_EQ(to_doubles(testing::read(*backend, byte(memory.data() + 40 * mebibyte, 1))).front(), 0);
  backend->fill(byte(memory.data(), memory.bytes()), 1);
  EXPECT_EQ(backend->resident_bytes(all), memory.bytes());
}

TEST(MemoryMarks, the_process_has_had_what_it_has_given_back) {
  const std::int64_t before = most_bytes_of_process();
  EXPECT_GT(before, mebibyte);
  {
    const auto backend = testing::device();
    const Memory memory = backend->allocate(256 * mebibyte);
    backend->fill({DType::u8, {memory.bytes()}, memory.data()}, 1);
  }
  const std::int64_t after = most_bytes_of_process();
  EXPECT_GE(after, std::max(before, 256 * mebibyte));
#ifndef __SANITIZE_THREAD__  // which remembers who touched what, in four times the memory
  EXPECT_LE(after, before + 260 * mebibyte);
#endif
}

/// A parameter of 16 MiB, activations of 8 MiB and room for 32 MiB that nothing uses.
TEST(MemoryMarks, a_session_tells_its_arenas_and_what_it_has_touched) {
  Program program = testing::program_of(R"(
mesh [dp=2]
%x = input f32[1024, 1024] as [2048, 1024] [dp, -]
%w = param f32[1024, 4096] (init=normal) as [1024, 4096] [-, -]
%y = relu %x : f32[1024, 1024] as [2048, 1024] [dp, -]
output %y
)");
  const std::int64_t used = program.arena_bytes;
  EXPECT_EQ(used, 24 * mebibyte);
  program.arena_bytes += 32 * mebibyte;
  Session session(program);
  session.step({{"x", testing::counting({DType::f32, {2048, 1024}})}});
  const MemoryMarks marks = session.memory_marks();
  EXPECT_EQ(marks.planned, (std::vector<std::int64_t>(2, used + 32 * mebibyte)));
  EXPECT_EQ(marks.planned[0], estimate(program, cluster_called("cpu:2")).arena_bytes);
  EXPECT_EQ(marks.planned[0], session.statistics().arena_bytes);
  for (const std::int64_t measured : marks.measured) {
    EXPECT_GE(measured, used);
    EXPECT_LE(measured, used + 4 * mebibyte);
  }
  ASSERT_EQ(marks.processes.size(), 1U);
  EXPECT_GE(marks.processes[0], 2 * used);
}

}  // namespace
}  // namespace shardwright
