#include "shardwright/runtime/record_comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "shardwright/cli/verb.h"
#include "tests/support/changed_text.h"
#include "tests/support/draws.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using Fault = RecordFindings::Fault;
using testing::message_of;

std::string head(int rank, int ranks, const std::string& why, double time = 20) {
  return fmt::format(
      "rank {} of {} on h0 failed at {:.6f} s of its machine's clock: {}\nits last 3 instructions, ...\n",
      rank, ranks, time, why);
}

/// At `step`, done or (without an end) not.
std::string done(int step, double begin, const std::string& what) {
  return fmt::format("step {}, {:.6f} s, 0.000100 s: {}\n", step, begin, what);
}
std::string open(int step, double begin, const std::string& what) {
  return fmt::format("step {}, {:.6f} s, has not ended: {}\n", step, begin, what);
}

RecordFindings findings_of(const std::vector<std::string>& texts, std::map<int, RankRecord>& records) {
  records.clear();
  for (const std::string& text : texts) {
    RankRecord record = parse_record(text);
    records.emplace(record.rank, std::move(record));
  }
  return compared(records);
}

const std::string
    sum = "all_reduce.sum %y over dp f32[4, 8] of ranks 0,1,2,3",
    told = "rank 1: rank 0 failed: ",
    late = "all_reduce.sum %y over dp f32[4, 8] of ranks 0,1,2,3 waited 8 s for rank 2, which is still busy";

std::string waiting(int rank, const std::string& why, const std::string& what = sum) {
  return head(rank, 4, why) + done(7, 11, "%x = matmul, micro-batch 1") +
         done(7, 11.5, "start " + what + ", micro-batch 1") +
         open(7, 12, "finish " + what + ", micro-batch 1");
}

TEST(RecordComparison, a_rank_at_work_that_others_wait_for_is_to_blame) {
  std::map<int, RankRecord> records;
  const RecordFindings f =
      findings_of({waiting(0, "rank 0: " + late), waiting(1, told + late),
                   head(2, 4, "rank 2: rank 0 failed: " + late) + open(7, 11, "%x = matmul, micro-batch 1"),
                   waiting(3, "rank 0 failed: " + late)},
                  records);
  EXPECT_EQ(f.fault, Fault::works);
  EXPECT_EQ(f.to_blame, std::vector{2});
  EXPECT_EQ(to_text(f),
            "4 ranks, 4 of which left a record\n"
            "rank 0: step 7, micro-batch 1: waited for rank 2 in " +
                sum +
                " for 8 s\n"
                "rank 1: step 7, micro-batch 1: waited for rank 2 in " +
                sum +
                " for 8 s\n"
                "rank 2: step 7, micro-batch 1: at %x = matmul for 9 s\n"
                "rank 3: step 7, micro-batch 1: waited for rank 2 in " +
                sum +
                " for 8 s\n"
                "to blame: rank 2 was still at %x = matmul, step 7, micro-batch 1, for 9 s; ranks 0, 1, 3 "
                "waited for it, "
                "at last 8 s\n");
}

TEST(RecordComparison, a_chain_of_waiting_ends_at_the_rank_without_a_record) {
  std::map<int, RankRecord> records;
  const std::string crossing = " f32[4] of ranks 0,1 from stage 0 to 1";
  const RecordFindings f =
      findings_of({head(0, 3, "rank 0 failed: x waited 8 s for rank 2, which waits, too") +
                       open(3, 15, "finish all_gather %w over tp f32[2] of ranks 0,2"),
                   // What is received has another shape than what is sent, and the same name.
                   head(1, 3, "rank 1: y waited 12 s for rank 0, which waits, too") +
                       done(3, 10, "start receive %a f32[8] of ranks 0,1 from stage 0 to 1") +
                       open(3, 11, "finish receive %a" + crossing)},
                  records);
  EXPECT_EQ(f.missing, std::vector{2});
  EXPECT_EQ(f.fault, Fault::missing);
  EXPECT_EQ(f.to_blame, std::vector{2});
  EXPECT_EQ(f.states[1].waits_for, std::vector{0});
  EXPECT_EQ(f.states[0].waits_for, std::vector{2});
}

TEST(RecordComparison, ranks_that_do_different_things_are_told_apart) {
  std::map<int, RankRecord> records;
  const std::string other = "all_reduce.sum %z over dp f32[4, 8] of ranks 0,1,2,3";
  const RecordFindings f = findings_of(
      {waiting(0, "rank 0: x"), waiting(1, told), waiting(2, told, other), waiting(3, told)}, records);
  // A rank that says itself what went wrong comes first.
  EXPECT_EQ(f.fault, Fault::failed);
  const std::string why = "rank 0 failed: a waited 12 s for rank 2, which waits, too";
  const RecordFindings g =
      findings_of({waiting(0, why), waiting(1, why), waiting(2, why, other), waiting(3, why)}, records);
  EXPECT_EQ(g.fault, Fault::different);
  EXPECT_EQ(g.to_blame, std::vector{2});
  EXPECT_EQ(g.why, "rank 2 did something else: rank 2 was at finish " + other +
                       ", step 7, micro-batch 1, and ranks 0, 1, 3 at finish " + sum +
                       ", step 7, micro-batch 1");
}

TEST(RecordComparison, a_rank_that_went_on_without_the_others_is_told) {
  std::map<int, RankRecord> records;
  const std::string why = "rank 0 failed: a waited 12 s for rank 2, which waits, too";
  const RecordFindings f =
      findings_of({waiting(0, why), waiting(1, why), waiting(3, why),
                   head(2, 4, why) + done(6, 9, "%x = matmul") + done(8, 13, "%x = matmul")},
                  records);
  EXPECT_EQ(f.fault, Fault::skipped);
  EXPECT_EQ(f.to_blame, std::vector{2});
}

TEST(RecordComparison, the_rank_that_failed_first_is_to_blame) {
  std::map<int, RankRecord> records;
  const RecordFindings f =
      findings_of({waiting(0, "rank 2 failed: %x = matmul: the sky fell"),
                   waiting(1, "rank 1: rank 2 failed: %x = matmul: the sky fell"),
                   head(2, 4, "rank 2: %x = matmul: the sky fell", 18) + open(7, 17, "%x = matmul"),
                   head(3, 4, "rank 3: it, too", 19) + open(7, 17, "%x = matmul")},
                  records);
  EXPECT_EQ(f.fault, Fault::failed);
  EXPECT_EQ(f.to_blame, std::vector{2});
  EXPECT_EQ(f.why, "rank 2 failed: %x = matmul: the sky fell");
}

TEST(RecordComparison, a_rank_that_was_woken_to_end_gave_no_sign_all_the_same) {
  std::map<int, RankRecord> records;
  const std::string why = "agreeing between steps waited 2 s for ranks 1, 2, which give no sign of life";
  const RecordFindings f = findings_of({head(0, 3, "rank 0: " + why) + done(7, 11, "replace leaves"),
                                        head(1, 3, "rank 0 failed: " + why) + done(6, 5, "%x = sgd")},
                                       records);
  EXPECT_EQ(f.fault, Fault::silent);
  EXPECT_EQ(f.to_blame, (std::vector{1, 2}));
  EXPECT_EQ(f.why,
            "ranks 1, 2 gave no sign of life to rank 0, which waited in agreeing between steps; its last "
            "instruction "
            "was %x = sgd, step 6, 15 s before");
}

TEST(RecordComparison, ranks_of_a_long_list_are_those_that_have_it_too) {
  std::map<int, RankRecord> records;
  std::vector<std::string> texts;
  const std::string what = "all_gather %w over dp f32[4] of ranks 0,1,2,..,11 (12 ranks)";
  for (int r = 0; r < 12; ++r)
    if (r != 5)
      texts.push_back(head(r, 12, "rank 0 failed: x waited 8 s for rank 5, which is still busy") +
                      done(1, 3, "start " + what) + open(1, 4, "finish " + what));
  const RecordFindings f = findings_of(texts, records);
  EXPECT_EQ(f.states.front().waits_for, std::vector{5});
  EXPECT_EQ(f.to_blame, std::vector{5});
}

TEST(RecordFile, says_which_line_is_wrong) {
  EXPECT_EQ(message_of([] { parse_record("nothing"); }),
            "line 1: is no flight record, which begins with 'rank '");
  EXPECT_EQ(message_of([] { parse_record(head(4, 4, "x")); }), "line 1: rank 4 of 4");
  EXPECT_EQ(message_of([] { parse_record(head(1, 4, "x") + "step 1, soon s, 0 s: %y = relu\n"); }),
            "line 3: 'soon' should be seconds");
  EXPECT_EQ(message_of([] {
              parse_record(head(1, 4, "x") + "step 1, 2 s, 0 s: start all_reduce %y of ranks 1,0\n");
            }),
            "line 3: ranks '1,0' do not ascend");
  const std::string folder = scratch_folder();
  EXPECT_NE(message_of([&] { read_records(folder); }).find("holds no flight record"), std::string::npos);
  write_bytes(folder + "/rank-1.txt", head(2, 4, "x"));
  EXPECT_EQ(message_of([&] { read_records(folder); }), folder + "/rank-1.txt: is of rank 2");
  write_bytes(folder + "/rank-1.txt", head(1, 4, "x"));
  write_bytes(folder + "/rank-2.txt", head(2, 5, "x"));
  EXPECT_EQ(message_of([&] { read_records(folder); }),
            folder + ": rank 1 is one of 4, others are of 5: these are records of several runs");
}

TEST(RecordFile, of_an_earlier_version_is_read) {
  const RankRecord r =
      parse_record("rank 3 failed at 5.5 s of its machine's clock: why\nits last 0 instructions\n");
  EXPECT_EQ(r.rank, 3);
  EXPECT_EQ(r.ranks, 0);
  EXPECT_EQ(r.host, "");
}

/// The command does, or ends in one line.
TEST(ExplainRecord, takes_any_file) {
  const std::string folder = scratch_folder();
  auto random = testing::random_of(39);
  const std::vector<std::string> seeds{waiting(0, "rank 0: " + late), waiting(1, told + late),
                                       head(2, 4, late) + open(7, 11, "%x = matmul, micro-batch 1")};
  for (int i = 0; i < (testing::is_full() ? 1500 : 300); ++i) {
    for (std::size_t r = 0; r < seeds.size(); ++r)
      write_bytes(fmt::format("{}/rank-{}.txt", folder, r),
                  testing::below(random, 2) == 0 ? seeds[r] : testing::changed_text(random, seeds[r]));
    std::istringstream in;
    std::ostringstream out, err;
    Terminal terminal{in, out, err};
    const int status = run_command({"explain", "record", folder, "--json"}, terminal);
    ASSERT_TRUE(status == 0 || status == 2) << err.str();
    ASSERT_EQ(std::ranges::count(err.str(), '\n'), status == 0 ? 0 : 1) << err.str();
    ASSERT_EQ(out.str().empty(), status != 0);
  }
}

}  // namespace
}  // namespace shardwright
