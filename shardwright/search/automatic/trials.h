// Whole plans that a search tries: each is made into a program, which is simulated, and the best of them stays.
#pragma once

#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "shardwright/search/automatic/record.h"
#include "shardwright/search/planning/evaluated_plans.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright::automatic {

/// The search chooses whether products go on beside their transfers: for the plan that is the best without.
bool may_overlap(const PlanRequest& request);

/// That no plan takes less than `bound`, of those that keep to what `request` fixes, in one that takes `seconds`.
void tell_bound(Plan& plan, const PlanRequest& request, double bound, double seconds);

class Trials {
 public:
  /// For the cluster of `request`; `evaluated`: by all searches of its network. All must outlive it.
  Trials(const PlanRequest& request, Record& record, EvaluatedPlans& evaluated)
      : request_(request), record_(record), evaluated_(evaluated) {}

  /// What the program of the plan for `asked` takes, if there is such a plan; `number`: of its entry in the record.
  std::optional<Evaluation> run(const Graph& graph, PlanRequest asked, std::size_t number);

  /// The best one with products beside their transfers, where these may be.
  void try_overlapped(const Graph& graph);

  /// With all of the network on each device, which repeats what the others do.
  void run_whole(const Graph& graph, PlanRequest asked);

  const std::optional<Plan>& best() const { return best_; }
  /// Of its entry.
  std::size_t best_number() const { return best_number_; }
  bool does_fit() const { return best_ && of_best_.fits(); }
  /// Of the best.
  double seconds() const { return of_best_.estimate.step_seconds(); }
  /// That it takes of a device.
  std::int64_t bytes() const { return of_best_.estimate.arena_bytes; }
  /// The same by kind.
  const BytesByKind& memory() const { return of_best_.estimate.memory.bytes; }
  /// Of those that fit the least.
  double least_seconds() const { return least_seconds_; }
  std::size_t count() const { return count_; }
  /// Beside how many there are: `, best step 2.31 s`; empty if none fits yet.
  std::string best_text() const;
  /// With those that turned out to be no plan.
  std::size_t attempts() const { return attempts_; }
  /// The last that could not be made.
  const std::string& why() const { return why_; }

 private:
  Evaluation judge(Plan plan, const Graph& graph, std::size_t number);
  Evaluation evaluated(const Plan& plan, const Graph& graph, std::size_t number);
  Evaluation made(const Plan& plan, const Graph& graph) const;
  void refuse(std::size_t number);

  const PlanRequest& request_;
  Record& record_;
  EvaluatedPlans& evaluated_;
  std::optional<Plan> best_;
  std::size_t best_number_ = 0;
  Evaluation of_best_;
  std::set<std::pair<std::size_t, const Evaluation*>> judged_;  // of which entries, which ones
  double least_seconds_ = std::numeric_limits<double>::infinity();
  std::size_t count_ = 0, attempts_ = 0;
  std::string why_;
};

}  // namespace shardwright::automatic
