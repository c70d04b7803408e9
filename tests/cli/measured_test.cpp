// A table of measured terms beside a plan: what it says is set beside what `simulate` says, and differences add up.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "shardwright/base/file.h"
#include "shardwright/cli/verb.h"
#include "shardwright/runtime/recorded_file.h"
#include "tests/support/command_outcome.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using Json = nlohmann::json;

class Measured : public ::testing::Test {
 protected:
  std::string planned(const std::string& fixed) const {
    std::string path = folder_ + "/plan.json";
    const std::string model = "llama:layers=4,hidden=256,heads=8,ffn=512,vocab=512,seq=128,batch=32";
    const testing::CommandOutcome o =
        testing::outcome_of({"plan", model, "--cluster", "a100-80g:8", "--fix", fixed, "-o", path});
    EXPECT_EQ(o.status, 0) << o.err;
    return path;
  }

  Json measured(const std::string& plan, const std::string& table) const {
    const std::string path = folder_ + "/table";
    write_file(path, table);
    const testing::CommandOutcome o = testing::outcome_of({"explain", plan, "--measured", path, "--json"});
    EXPECT_EQ(o.status, 0) << o.err;
    return o.document();
  }

  const std::string folder_ = scratch_folder();
};

double seconds(const Json& of, const char* key) { return of.at(key).get<double>(); }

TEST_F(Measured, as_simulated_differs_in_nothing) {
  for (const std::string fixed : {"dp=4,tp=2,pp=1,recompute=full", "dp=2,tp=1,pp=4"}) {
    const std::string plan = planned(fixed);
    const Json s = testing::outcome_of({"simulate", plan, "--json"}).document();
    const double again = seconds(s, "recompute_seconds");
    const Json table{{"step", s.at("step_seconds")},
                     {"compute", seconds(s, "compute_seconds") - again},
                     {"recompute", again},
                     {"communication", s.at("exposed_communication_seconds")},
                     {"bubble", s.at("bubble_seconds")}};
    const Json told = measured(plan, table.dump());
    EXPECT_NEAR(seconds(told, "difference_seconds"), 0, 1e-12);
    EXPECT_EQ(told.at("parts").size(), 4U);
    for (const Json& part : told.at("parts"))
      EXPECT_NEAR(seconds(part, "difference_seconds"), 0, 1e-12) << part;
  }
}

TEST_F(Measured, parts_add_up_to_the_step) {
  const std::string plan = planned("dp=4,tp=2,pp=1");
  const double step = seconds(testing::outcome_of({"simulate", plan, "--json"}).document(), "step_seconds");
  const Json told = measured(plan, fmt::format("step,{}\ncommunication,{}\n", 2 * step, step));
  double planned_sum = 0, measured_sum = 0, difference = 0;
  for (const Json& part : told.at("parts")) {
    planned_sum += seconds(part, "planned_seconds");
    measured_sum += seconds(part, "measured_seconds");
    difference += seconds(part, "difference_seconds");
  }
  EXPECT_NEAR(planned_sum, step, 1e-12);
  EXPECT_NEAR(measured_sum, 2 * step, 1e-12);
  EXPECT_NEAR(difference, seconds(told, "difference_seconds"), 1e-12);
  EXPECT_EQ(told.at("most"), "communication");
  EXPECT_EQ(told.at("parts").back().at("term"), "not in the table");
}

TEST_F(Measured, details_are_set_beside_kernels_and_collectives) {
  const std::string plan = planned("dp=4,tp=2,pp=1");
  const Json told =
      measured(plan, "term,seconds\r\nstep,1\r\nmatmul,100ms\r\nall_to_all,1e-2\r\noptimizer,5ms\r\n");
  ASSERT_EQ(told.at("details").size(), 3U);
  EXPECT_EQ(told.at("details").at(0).at("term"), "update");
  EXPECT_EQ(told.at("details").at(1).at("term"), "matmul");
  EXPECT_GT(seconds(told.at("details").at(1), "planned_seconds"), 0);
  EXPECT_EQ(told.at("details").at(2).at("term"), "all_to_all");
  EXPECT_EQ(seconds(told.at("details").at(2), "planned_seconds"), 0);  // the plan has none
}

/// What was recorded here, taken apart, is in the same words.
TEST(ComparePlan, terms_add_up_to_the_step) {
  const testing::CommandOutcome o = testing::outcome_of(
      {"train", "ffn:batch=32", "--devices", "2", "--steps", "8", "--compare-plan", "--json"});
  ASSERT_EQ(o.status, 0) << o.err;
  const Json c = Json::parse(o.out.substr(o.out.rfind("{\"summary\""))).at("summary").at("compare_plan");
  for (const char* key : {"measured_seconds", "predicted_seconds"}) {
    double sum = 0;
    for (const Json& term : c.at("terms")) sum += seconds(term, key);
    EXPECT_NEAR(sum, seconds(c.at("step"), key), 1e-6 * sum) << key;
    EXPECT_LE(seconds(c.at("update"), key), seconds(c.at("terms").at(0), key));
    EXPECT_GT(seconds(c.at("update"), key), 0);
  }
}

/// The trace of a training, of which the plan is in a file, too.
class MeasuredTrace : public ::testing::Test {
 protected:
  MeasuredTrace() {
    const std::vector<std::string> what{"ffn:batch=32",    "--devices", "2", "--stages", "2",
                                        "--micro-batches", "2"};
    run(what, {"plan"}, {"-o", plan_});
    run(what, {"train"}, {"--steps", "6", "--trace", trace_});
  }
  static void run(const std::vector<std::string>& what, std::vector<std::string> words,
                  const std::vector<std::string>& more) {
    words.insert(words.end(), what.begin(), what.end());
    words.insert(words.end(), more.begin(), more.end());
    const testing::CommandOutcome o = testing::outcome_of(words);
    ASSERT_EQ(o.status, 0) << o.err;
  }
  testing::CommandOutcome measured(const std::string& plan, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"explain", plan, "--measured", trace_};
    words.insert(words.end(), more.begin(), more.end());
    return testing::outcome_of(words);
  }

  const std::string folder_ = scratch_folder(), plan_ = folder_ + "/p.json", trace_ = folder_ + "/t.json";
};

TEST_F(MeasuredTrace, is_taken_apart_as_while_it_was_recorded) {
  const testing::CommandOutcome o = measured(plan_, {"--json"});
  ASSERT_EQ(o.status, 0) << o.err;
  const Json c = Json::parse(o.out);
  double sum = 0;
  for (const Json& term : c.at("terms")) sum += seconds(term, "measured_seconds");
  EXPECT_NEAR(sum, seconds(c.at("step"), "measured_seconds"), 1e-6 * sum);
  for (const Json& part : c.at("operators")) {
    EXPECT_GT(seconds(part, "measured_seconds"), 0) << part;
    EXPECT_GT(seconds(part, "predicted_seconds"), 0) << part;
  }
  EXPECT_EQ(c.at("stages").size(), 2U);
  EXPECT_NE(measured(plan_).out.find("the measured step takes"), std::string::npos);
}

TEST_F(MeasuredTrace, of_another_plan_is_refused_by_name) {
  const std::string other = folder_ + "/other.json";
  run({"llama:layers=2,hidden=32,heads=2,ffn=64,vocab=64,seq=16"}, {"plan"}, {"--devices", "2", "-o", other});
  const testing::CommandOutcome o = measured(other);
  EXPECT_EQ(o.status, 2);
  EXPECT_NE(o.err.find("t.json: has a kernel dense1.matmul, which the plan has not"), std::string::npos)
      << o.err;
  run({"ffn:batch=32"}, {"plan"}, {"--devices", "4", "-o", other});
  EXPECT_NE(measured(other).err.find("t.json: is of 2 ranks, but the plan of 4"), std::string::npos);
}

/// Whatever a file holds, it is read or refused in a line that begins with its path.
TEST_F(MeasuredTrace, that_is_damaged_is_refused) {
  const std::string whole = read_bytes(trace_);
  std::mt19937 draw(7);
  for (int round = 0; round < 200; ++round) {
    std::string text = whole.substr(0, 20000);
    text += round % 2 ? "" : "]}";
    if (round % 4 == 0) text = whole;
    for (int n = 0; n < 1 + round % 3; ++n) text[draw() % text.size()] = static_cast<char>('!' + draw() % 90);
    try {
      recorded_step(text, "t.json");
    } catch (const Error& e) {
      EXPECT_TRUE(std::string(e.what()).starts_with("t.json: ")) << e.what();
    }
  }
}

}  // namespace
}  // namespace shardwright
