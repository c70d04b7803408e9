#include "tests/support/degrees_runs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/plan/set_words.h"

namespace shardwright::testing {

PlanRequest request_of_set(const std::string& set, int micro_batches) {
  const Constraints said = parse_constraints({"--set", set});
  PlanRequest out{.devices = static_cast<int>(said.degrees.devices()),
                  .parallel = Parallel::semi_auto_parallel,
                  .constraints = said,
                  .is_set = true};
  out.constraints.micro_batches = micro_batches;
  out.constraints.zero_threshold = 0;
  return out;
}

std::string DrawnDegrees::with_settings(std::string set) {
  if (set.find("tp") != set.npos) set += one_of("", ",sequence_parallel=1");
  if (set.find("pp") != set.npos) set += one_of("", ",schedule=gpipe", ",schedule=interleaved:2");
  set += one_of("", ",zero=1", ",zero=2", ",zero=3");
  return set + one_of("", ",recompute=full", ",recompute=selected");
}

std::string DrawnDegrees::shares_for(const std::string& set) {
  const int replicas = parse_constraints({"--set", set}).degrees.of("dp");
  if (replicas == 1 || random_() % 3) return "";
  std::string out = ",batch_shares=";
  for (int r = 0; r < replicas; ++r) out += (r ? ":" : "") + one_of("1", "1", "2", "3");
  return out;
}

void DrawnDegrees::compare(const std::string& model, const std::string& set,
                           std::initializer_list<const char*> reasons) {
  const TrainingRun run{
      .model = model, .optimizer = {.name = "momentum"}, .precision = DType::f64, .steps = 2};
  SCOPED_TRACE(model + " " + set);
  std::optional<Outcome> have;
  try {
    have = run_planned(run, request_of_set(set, 2));
  } catch (const Error& e) {
    const std::string_view what = e.what();
    EXPECT_TRUE(std::ranges::any_of(reasons, [&](const char* why) { return what.find(why) != what.npos; }))
        << what;
    return;
  }
  ++trained_;
  if (!alone_.contains(model)) alone_[model] = run_alone(run);
  expect_same(have, alone_[model], {.losses = 1e-9, .weights = 1e-6});
}

}  // namespace shardwright::testing
