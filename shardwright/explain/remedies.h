// What would fit where a plan does not: each way out is planned anew by the same search, with one thing otherwise.
//
//   more recompute, more sharded state, smaller micro-batches, more stages   where they are not left to the search
//   search auto, which chooses all of these                                  of another search
//   2, 4, ... times the devices; all in the short element type
//
// Only what fits counts, with the time and memory that its program has. Cost: 16 searches at most, beyond 64 devices 8, and
// none once the time of the request's search is over.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/plan/tried.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {

struct Remedy {
  std::string change;  // the flags that say it: `--recompute full`
  double step_seconds = 0;
  std::int64_t memory_bytes = 0;  // of the device that has most
  bool operator==(const Remedy&) const = default;
};

/// The network's step, made of an origin; empty where it is as it is (a graph as text).
using StepsOf = std::function<StepOf(const Origin&)>;

struct Remedies {
  std::vector<Remedy> found;              // the fastest first
  std::vector<std::string> unasked = {};  // flags that nobody looked at, for lack of time
};

/// For a command that says nothing of the time of its searches.
constexpr double most_seconds_of_remedies = 30;

/// A plan for `request` that does not fit.
struct Misfit {
  const PlanRequest& request;
  const Plan& plan;
  const Evaluation& evaluation;
};

/// `step` is that of the request's own origin.
Remedies remedies_for(const Misfit& misfit, const StepOf& step, const StepsOf& steps = {});

/// Asked only if a plan does not fit.
using RemediesOf = std::function<Remedies(const Evaluation&)>;

/// A plan that takes more than a flag allows, with what would fit.
class Refusal : public Infeasible {
 public:
  Refusal(const std::string& what, Evaluation refused, std::optional<Remedies> would_fit)
      : Infeasible(what), evaluation(std::move(refused)), remedies(std::move(would_fit)) {}

  Evaluation evaluation;
  std::optional<Remedies> remedies;              // empty: nobody has looked for any
  std::optional<std::vector<Tried>> tried = {};  // what the search has looked at, where that is known
};

}  // namespace shardwright
