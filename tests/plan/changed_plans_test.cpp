// Plan files with any field set to any value: each ends in one line, or in the losses of one device.
// SHARDWRIGHT_FULL=1 changes a thousand instead of a hundred.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "shardwright/base/error.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/search/planning/make_plan.h"
#include "tests/support/changed_text.h"
#include "tests/support/draws.h"
#include "tests/support/random_plan.h"
#include "tests/support/training_run.h"

namespace shardwright::testing {
namespace {

const TrainingRun run{.model = "ffn:widths=16-16-8,batch=16",
                      .file = "",
                      .optimizer = {"adamw", {{"rate", 0.01}}},
                      .precision = DType::f64,
                      .steps = 2};

/// Plans of every kind for 4 devices, as text.
std::vector<std::string> seeds() {
  std::vector<std::string> out;
  PlanRequest request{.model = run.model, .devices = 4, .search = "recursive"};
  const auto add = [&] {
    out.push_back(
        to_json(make_plan(train_model(run, settings_of(request).pipelining.micro_batches).graph, request)));
  };
  add();
  request.constraints.zero = 3;
  request.constraints.zero_threshold = 0;
  request.constraints = merged(request.constraints, constraints_of({.recompute = parse_recompute("full")}));
  add();
  request.constraints = merged(request.constraints, constraints_of({.pipelining = {.micro_batches = 2}}));
  request.constraints.zero = 2;
  request.constraints.zero_threshold = 0;
  add();
  request.constraints.degrees.set("pp", 2);
  add();
  request.cluster = host_cluster(4);
  request.cluster->overlap = 0.5;  // no preset's
  add();
  for (const std::uint64_t seed : {1, 2, 3}) {
    out.push_back(to_json(random_plan(train_model(run).graph, 4, seed)));
    out.push_back(to_json(random_pipeline(train_model(run, 2).graph, 4, 2, seed)));
  }
  return out;
}

/// The losses under the plan; nothing where it is refused.
std::optional<Outcome> outcome_of(const std::string& text) {
  try {
    const Plan plan = parse_plan(text, "plan.json");
    const Model model = train_model(run, plan.settings.pipelining.micro_batches);
    apply(plan, model.graph);
    check(plan.settings.recompute, model.graph);
    return run_pipeline(run, compile_pipeline(model.graph, plan, {.formats = cpu_formats}));
  } catch (const Error& e) {
    EXPECT_EQ(std::string_view(e.what()).find('\n'), std::string_view::npos) << e.what();
    return std::nullopt;
  }
}

TEST(ChangedPlans, are_refused_or_end_with_the_losses_of_one_device) {
  const int count = testing::is_full() ? 1000 : 100;
  const std::optional<Outcome> alone = run_alone(run);
  const std::vector<std::string> plans = seeds();
  Random random = random_of(12);
  int taken = 0;
  for (int i = 0; i < count && !HasFailure(); ++i) {
    const std::string text = changed_json(random, plans[below(random, plans.size())]);
    SCOPED_TRACE(text);
    const std::optional<Outcome> outcome = outcome_of(text);
    if (!outcome) continue;
    ++taken;
    expect_same(outcome, alone, {.losses = 1e-9, .weights = 1e-8});
  }
  EXPECT_GT(taken, count / 20);
  EXPECT_LT(taken, count);
}

}  // namespace
}  // namespace shardwright::testing
