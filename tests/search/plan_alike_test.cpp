// Plans for batches of another size: weights and states lie as in the plan that there is, and the rest is searched again.
#include "shardwright/search/planning/plan_alike.h"

#include <gtest/gtest.h>

#include "shardwright/frontend/planned_model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/passes/share_memory.h"

namespace shardwright {
namespace {

const std::string decoder = "llama:layers=4,hidden=64,heads=4,ffn=128,vocab=64,batch=16,labels=asked";

std::string of_length(int length) { return decoder + ",seq=" + std::to_string(length); }

struct Case {
  std::string name;
  int devices = 4;
  std::string search = {};
  std::string fix = {};
  std::optional<std::int64_t> cap = {};
  bool is_set = false;
};

PlanRequest request_of(const Case& c, int length) {
  PlanRequest out{.model = of_length(length), .devices = c.devices, .search = c.search};
  out.origin.optimizer = {.name = "adamw"};
  if (!c.fix.empty()) out.constraints = parse_constraints({"fix", c.fix});
  out.constraints.offload = Offload{};
  out.options.memory_cap = c.cap;
  out.is_set = c.is_set;
  return out;
}

StepOf step_for(const PlanRequest& request) { return step_of(request.model, request.origin, true); }

struct Made {
  PlanThere there;
  PlannedAlike shorter;
};

Made made(const Case& c, int shorter = 64) {
  const PlanRequest request = request_of(c, 256);
  Plan plan = make_plan(step_for(request), request);
  Graph graph = step_for(request)(plan.settings.pipelining.batch_parts());
  PlanThere there = plan_there(std::move(graph), std::move(plan), {});
  const PlanRequest other = request_of(c, shorter);
  PlannedAlike alike = plan_alike(there, step_for(other), other);
  return {std::move(there), std::move(alike)};
}

class PlanAlike : public ::testing::TestWithParam<Case> {};

TEST_P(PlanAlike, keeps_weights_where_they_are_and_takes_no_longer) {
  const Made m = made(GetParam());
  const Pipeline program = compile_pipeline(m.shorter.graph, m.shorter.plan);
  EXPECT_NO_THROW(check_shares(m.there.program, program));
  EXPECT_TRUE(m.shorter.evaluation.fits());
  ASSERT_TRUE(m.shorter.carried);
  EXPECT_LE(m.shorter.evaluation.estimate.step_seconds(), m.shorter.carried->estimate.step_seconds());
  EXPECT_EQ(m.shorter.is_own,
            m.shorter.plan.settings != m.there.plan.settings ||
                m.shorter.evaluation.estimate.step_seconds() < m.shorter.carried->estimate.step_seconds());
}

INSTANTIATE_TEST_SUITE_P(All, PlanAlike,
                         ::testing::Values(Case{.name = "searched"}, Case{.name = "on_two", .devices = 2},
                                           Case{.name = "on_one", .devices = 1},
                                           Case{.name = "tensor_parallel", .fix = "tp=2"},
                                           Case{.name = "sharded_states", .fix = "dp=4,zero=3"},
                                           Case{.name = "stages", .fix = "pp=2"},
                                           Case{.name = "recursive", .search = "recursive"},
                                           Case{.name = "dynamic", .search = "dynamic"},
                                           Case{.name = "set", .fix = "dp=2,tp=2", .is_set = true}),
                         [](const auto& each) { return each.param.name; });

TEST(PlanAlike, computes_nothing_again_where_memory_is_enough) {
  const Made m = made({.devices = 4, .fix = "dp=4", .cap = 6'000'000});
  ASSERT_NE(m.there.plan.settings.recompute, Recompute{});
  EXPECT_TRUE(m.shorter.is_own);
  EXPECT_EQ(m.shorter.plan.settings.recompute, Recompute{});
  EXPECT_LT(m.shorter.evaluation.estimate.step_seconds(), m.shorter.carried->estimate.step_seconds());
  EXPECT_NE(difference_text(m.there.plan, m.shorter.plan).find("recompute=none instead of"),
            std::string::npos)
      << difference_text(m.there.plan, m.shorter.plan);
}

TEST(PlanAlike, keeps_what_was_asked_for) {
  const Made m = made({.search = "recursive", .fix = "recompute=full"});
  EXPECT_EQ(m.shorter.plan.settings.recompute.mode, RecomputeMode::full);
  const Made cut = made({.fix = "dp=4,micro_batches=4"});
  EXPECT_EQ(cut.shorter.plan.settings.pipelining.micro_batches, 4);
}

TEST(PlanAlike, cuts_unevenly_what_degrees_do_not_divide) {
  const Made m = made({.fix = "dp=1,tp=4,sequence_parallel=1", .is_set = true}, 6);
  EXPECT_FALSE(m.shorter.is_own);
  EXPECT_TRUE(m.shorter.carried);
}

TEST(PlanAlike, is_that_of_a_file) {
  const Case c{.fix = "dp=4", .cap = 6'000'000};
  Made m = made(c);
  m.there.is_given = true;
  const PlanRequest other = request_of(c, 64);
  const PlannedAlike given = plan_alike(m.there, step_for(other), other);
  EXPECT_FALSE(given.is_own);
  EXPECT_EQ(given.plan.settings, m.there.plan.settings);
}

}  // namespace
}  // namespace shardwright
