#include "shardwright/runtime/flight_record.h"

#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <regex>
#include <thread>

#include "shardwright/runtime/driver.h"
#include "shardwright/runtime/session.h"
#include "tests/support/device.h"
#include "tests/support/message_of.h"
#include "tests/support/program_with_op.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::message_of;
using testing::program_of;

/// On the rank whose part of `i0` starts at 1, fails in a step of ones, and takes long in one of twos.
const OpDef& odd_op() {
  static const OpDef op{
      .name = "odd", .doc = "y = x", .rule = "... -> ...", .kernel = [](const KernelCall& call) {
        if (call.loop("i0").offset != 1) return;
        const auto x = *reinterpret_cast<const float*>(call.operands[0].data);
        if (x == 1) throw error("the sky fell");
        if (x == 2) std::this_thread::sleep_for(600ms);
      }};
  return op;
}

Program program() { return testing::program_with(odd_op()); }

std::map<std::string, Tensor> batch_of(double x) {
  return {{"x", make_tensor({DType::f32, {4, 2}}, std::vector<double>(8, x))}};
}

TEST(FlightRecord, keeps_the_last_and_says_when_they_began_and_ended) {
  FlightRecord record;
  EXPECT_TRUE(record.entries().empty());
  for (int i = 0; i < static_cast<int>(FlightRecord::size) + 36; ++i) {
    if (i % 10 == 0) record.begin_step(i / 10);
    record.begin({.act = Act::compute, .what = i}, i % 3);
  }
  const auto entries = record.entries();
  ASSERT_EQ(entries.size(), FlightRecord::size);
  for (std::size_t e = 0; e < entries.size(); ++e) {
    const int i = 36 + static_cast<int>(e);
    EXPECT_EQ(entries[e].instruction.what, i);
    EXPECT_EQ(entries[e].instruction.micro_batch, i % 3);
    EXPECT_EQ(entries[e].step, i / 10);
    if (e > 0) {
      EXPECT_EQ(entries[e - 1].end, entries[e].begin);
    }
  }
  EXPECT_EQ(entries.back().end, 0);
  record.end();
  EXPECT_GE(record.entries().back().end, entries.back().begin);
}

TEST(FlightRecord, is_written_by_each_rank_when_one_fails) {
  const std::string folder = scratch_folder() + "/run/flight-record";
  fs::create_directories(folder);
  for (const char* name : {"/rank-7.txt", "/notes.txt"}) {
    write_bytes(folder + name, "of an earlier run");
    fs::last_write_time(folder + name, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  Session session(program(), {.failures = folder});
  session.step(batch_of(0));
  EXPECT_FALSE(fs::exists(folder + "/rank-0.txt"));
  const std::string why = "rank 1: %1 = odd: the sky fell";
  EXPECT_EQ(message_of([&] { session.step(batch_of(1)); }),
            fmt::format("{}; what each rank did last is in {}", why, folder));
  EXPECT_FALSE(fs::exists(folder + "/rank-7.txt"));
  EXPECT_TRUE(fs::exists(folder + "/notes.txt"));
  for (int rank = 0; rank < 4; ++rank) {
    const std::string text = read_bytes(fmt::format("{}/rank-{}.txt", folder, rank));
    EXPECT_TRUE(text.starts_with(fmt::format("rank {} of 4 on ", rank))) << text;
    EXPECT_NE(text.find(why), text.npos) << text;
    // The first step is whole, and the second has come to where it failed.
    EXPECT_NE(text.find("step 0, "), text.npos) << text;
    EXPECT_NE(text.find(" s: finish all_gather %y over dp f32[1, 2] of ranks 0,1,2,3\n"), text.npos) << text;
    const std::string last = rank == 1 ? "has not ended: %1 = odd\n" : "has not ended: ";
    EXPECT_NE(text.find(last), text.npos) << text;
  }
}

TEST(FlightRecord, a_folder_that_cannot_be_written_hides_no_error) {
  const std::string file = scratch_folder() + "/file";
  write_bytes(file, "");
  Session session(program(), {.failures = file + "/in"});
  EXPECT_EQ(
      message_of([&] { session.step(batch_of(1)); }),
      fmt::format("rank 1: %1 = odd: the sky fell; what ranks did last is lost ({}/in: Not a directory)",
                  file));
}

TEST(Session, a_rank_that_does_not_come_is_named_with_what_waited_for_it) {
  const std::string folder = scratch_folder();
  Session session(program(), {.timeout = std::chrono::milliseconds(40), .failures = folder});
  session.step(batch_of(0));
  try {
    session.step(batch_of(2));
    FAIL() << "nothing is thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::timeout);
    const std::string why = e.what();
    static const std::regex expected(
        R"(rank [023]: all_gather %y over dp f32\[1, 2\] of ranks 0,1,2,3 waited 0\.4\d* s for rank 1, which is still busy; .*)");
    EXPECT_TRUE(std::regex_match(why, expected)) << why;
  }
}

/// Two ranks as threads.
struct Two {
  explicit Two(std::chrono::nanoseconds timeout) {
    for (auto& own : testing::device_communicators(2, timeout))
      ranks.emplace_back(pipeline, tensors, std::move(own), RankOptions{});
  }
  Pipeline pipeline = program_of("mesh [dp=2]\n%x = input f32[2] as [2] [-]\noutput %x\n");
  StepTensors tensors{pipeline, false};
  std::deque<Rank> ranks;
};

TEST(DriverDeathTest, a_thread_that_never_comes_back_ends_the_process) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto run = [] {
    Two two(50ms);
    Driver driver(two.ranks, Driver::Mode::threads, 50ms);
    driver.run([](Rank& rank) {
      if (rank.number() == 1) std::this_thread::sleep_for(1h);
      rank.communicator().barrier();
    });
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(lost_rank_status),
              "shardwright: rank 0: barrier waited 0.5.* s for rank 1, which is still busy");
}

TEST(Driver, a_thread_that_comes_back_late_has_its_peers_say_that_they_gave_it_up) {
  Two two(50ms);
  Driver driver(two.ranks, Driver::Mode::threads, 10s);
  const auto run = [&] {
    driver.run([](Rank& rank) {
      if (rank.number() == 1) std::this_thread::sleep_for(1s);
      rank.communicator().barrier();
    });
  };
  const std::string why = message_of(run);
  EXPECT_TRUE(why.starts_with("rank 0: barrier waited 0.5")) << why;
  EXPECT_TRUE(message_of(run).starts_with("the session has stopped")) << message_of(run);
}

}  // namespace
}  // namespace shardwright
