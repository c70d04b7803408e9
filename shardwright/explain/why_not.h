// Why a plan is not otherwise: what somebody asks for instead is planned anew and judged as the plan is.
//
//   the plan has it already              it was chosen, and nothing is searched
//   stages of operators, by name         the plan with these in other stages, split by its own degrees or operator by
//                                        operator: searches of whole plans cut stages themselves
//   all else                             a search of whole plans that keeps to it; all else of the structure is open
//
// What stays is what a plan file keeps of the request: network, batch, types, optimizer, cluster, framework, fusion.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {

struct WhyNotOptions {
  std::int64_t samples = 0;                // of a micro-batch of the plan; 0: it has none
  std::optional<std::int64_t> memory_cap;  // bytes of one device; none: what the cluster's have
  std::optional<double> most_seconds;      // of all searches
  Deadline deadline = {};                  // the same, once they have begun
  bool keeps_micro_batches = false;        // as in PlanRequest
  FormatsOf formats = {};                  // likewise
};

enum class WhyNotStatus : std::uint8_t { chosen, feasible, infeasible };
std::string_view name_of(WhyNotStatus status);

/// A plan that was made for what is asked.
struct Alternative {
  Plan plan;
  Evaluation evaluation;
};
struct WhyNot {
  WhyNotStatus status = WhyNotStatus::chosen;
  Evaluation planned;                // of the plan in question
  std::optional<Alternative> found;  // feasible; or infeasible because it does not fit
  std::string violation = {};        // there is no such plan
  /// Of what was chosen: axes are called after the degrees that are asked for, but operators are split one by one.
  bool is_split_otherwise = false;
};

/// What a step of `plan` takes; `graph` is its network's.
Evaluation evaluation_of(const Plan& plan, const Graph& graph, const WhyNotOptions& options);

/// `step`: of the network that `plan` is for.
/// Throws: Error if `asked` names what the network does not have, contradicts itself, or says another batch.
WhyNot why_not(const Constraints& asked, const Plan& plan, const StepOf& step, const WhyNotOptions& options);

}  // namespace shardwright
