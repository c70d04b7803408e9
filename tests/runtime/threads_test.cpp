#include "shardwright/runtime/communicator/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>

#include "tests/support/message_of.h"

namespace shardwright {
namespace {

using testing::message_of;

TEST(OnThreads, runs_each_rank_once) {
  std::atomic<int> ranks{0};
  on_threads(3, [&](Communicator& own) {
    EXPECT_EQ(own.size(), 3);
    ranks += 1 << own.rank();
    own.barrier();
    EXPECT_EQ(ranks, 7);
  });
}

/// Those that wait for the rank that fails are told, and end; what it threw is what the caller gets.
TEST(OnThreads, a_failing_rank_ends_those_that_wait_for_it) {
  std::atomic<int> told{0};
  const auto work = [&](Communicator& own) {
    if (own.rank() == 2) throw io_error("the disk is full");
    try {
      for (;;) own.barrier();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::peer);
      EXPECT_STREQ(e.what(), "rank 2 failed: the disk is full");
      ++told;
      throw;
    }
  };
  try {
    on_threads(4, work);
    FAIL() << "nothing is thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::io);
    EXPECT_STREQ(e.what(), "the disk is full");
  }
  EXPECT_EQ(told, 3);
}

TEST(OnThreads, of_several_failures_the_lowest_ranks_is_thrown) {
  EXPECT_EQ(message_of([] {
              on_threads(4, [](const Communicator& own) {
                if (own.rank() > 0) throw error("rank {} is odd", own.rank());
              });
            }),
            "rank 1 is odd");
}

TEST(OnThreads, what_is_no_error_of_ours_keeps_its_type) {
  const auto wait_for_third = [](Communicator& own, const auto& fail) {
    if (own.rank() == 2) fail();
    own.barrier();
  };
  EXPECT_THROW(on_threads(3, [&](Communicator& own) { wait_for_third(own, [] { throw std::bad_alloc(); }); }),
               std::bad_alloc);
  EXPECT_THROW(
      on_threads(3, [&](Communicator& own) { wait_for_third(own, [] { require(false, "a bug"); }); }),
      InternalError);
}

}  // namespace
}  // namespace shardwright
