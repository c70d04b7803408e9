// Plans of one network on several numbers of devices of a cluster, each by a search of its own, and the number that is
// asked for:
//
//   price      of those that fit, the one whose step costs least
//   devices    the fewest that fit
//
// Both may have a target, the longest that a step may take. The batch of a step is the same on all of them.
//
// More devices need not do better: degrees divide other things, links are slower. So numbers are looked at one after the
// other, the fewest first, never by halving. What surely cannot do is passed over without a search: devices that do not hold
// the parameters and states, each byte once; a step whose products alone, at the peak, take longer than the target.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/plan/tried.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {

/// time: of as many devices as there are the fastest plan, so that no other number is looked at.
enum class Objective : std::uint8_t { time, price, devices };
constexpr std::array<std::string_view, 3> objective_names{"time", "price", "devices"};

/// What a number of devices comes to.
struct CountedPlan {
  int devices = 1;
  std::optional<Plan> plan;
  std::optional<Evaluation> evaluation;  // of the plan's program
  std::string why = {};                  // there is no plan, or none was looked for
  std::vector<Tried> tried = {};         // what the search for it looked at

  bool fits() const { return evaluation && evaluation->fits(); }
  /// Of a step, where there is a plan.
  std::optional<double> seconds() const;
  std::optional<double> price() const;
};

/// What is searched for on each number of devices.
struct CountedSearch {
  StepOf step;
  PlanRequest
      request;  // of the whole cluster, which it has; the others are parts of it (cost/cluster.h, resized)
  /// How a plan's program for the step `graph` is judged.
  std::function<Evaluation(const Graph& graph, const Plan& plan)> evaluate;
};

/// One after the other, as they are asked for, all within the request's time. Where there is no plan, the row says why.
std::vector<CountedPlan> plans_over(const CountedSearch& search, const std::vector<int>& counts);

/// Of a node 1, 2, 4, ... devices and what divides it, then of nodes as many; all is the last.
std::vector<int> usual_counts(const Cluster& cluster);

struct CountWanted {
  Objective objective = Objective::devices;
  std::optional<double> target_seconds = {};

  /// Whether it fits, and is fast enough.
  bool is_met_by(const CountedPlan& plan) const;
};
/// Every number that was looked at or passed over, and which of them is meant; none if nothing does.
struct CountChoice {
  std::vector<CountedPlan> looked_at;
  std::optional<std::size_t> best;
};
/// Pre: `counts` ascend; of a price the cluster has one.
CountChoice best_count(const CountedSearch& search, const std::vector<int>& counts,
                       const CountWanted& wanted);

}  // namespace shardwright
