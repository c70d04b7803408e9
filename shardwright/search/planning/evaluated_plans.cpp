#include "shardwright/search/planning/evaluated_plans.h"

#include <algorithm>
#include <utility>

namespace shardwright {
namespace {

bool are_equal(const std::vector<StagePlan>& a, const std::vector<StagePlan>& b) { return a == b; }

bool are_equal(const Choices& a, const Choices& b) {
  return a.strategies == b.strategies && a.meshes == b.meshes && a.layouts == b.layouts;
}

template <class All, class Of>
const Evaluation* found_in(const All& all, const Settings& settings, const Of& of) {
  const auto it = std::ranges::find_if(
      all, [&](const auto& known) { return known.settings == settings && are_equal(known.of, of); });
  return it == all.end() ? nullptr : &it->evaluation;
}

}  // namespace

const Evaluation* EvaluatedPlans::find(const Settings& settings, const std::vector<StagePlan>& stages) const {
  return found_in(plans_, settings, stages);
}

const Evaluation* EvaluatedPlans::add(const Settings& settings, const std::vector<StagePlan>& stages,
                                      Evaluation e) {
  plans_.push_back({settings, stages, std::move(e)});
  return &plans_.back().evaluation;
}

const Evaluation* EvaluatedPlans::find(const Settings& settings, const Choices& choices) const {
  return found_in(choices_, settings, choices);
}

const Evaluation* EvaluatedPlans::add(const Settings& settings, Choices choices, Evaluation e) {
  choices_.push_back({settings, std::move(choices), std::move(e)});
  return &choices_.back().evaluation;
}

}  // namespace shardwright
