// What keeps a plan from being faster, told of what its search has looked at:
//
//   memory   a program is faster that takes more of a device than there is, or the plan itself does not fit
//   fixed    none is, and something was fixed: only the plans that keep to it were looked at
//   time     neither: what was looked at takes as long, or longer
//
// Memory is never guessed: where a search has left out by figures alone what may be faster, a few of that become programs
// here, what differs from the plan in fewest words first, until one is. What it costs that something was fixed takes another
// search, and is told only where one was made. Cost: no program where the search has made one that is faster and does not fit.
#pragma once

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

/// A program that takes so much of a plan's step, or more, is not faster: it takes as long.
constexpr double as_long = 0.995;

enum class Limit : std::uint8_t { time, memory, fixed };
std::string_view name_of(Limit limit);

struct Binding {
  Limit by = Limit::time;
  std::optional<Tried> misfit;  // memory: the leanest that is faster; none where the plan itself does not fit
  std::string fixed;            // as a user says it; empty: nothing is
  std::string other;            // fixed: what is known to be faster without it
};

/// What the search finds where nothing is fixed.
struct Unfixed {
  std::string plan;  // all that was chosen of it
  double step_seconds = 0;
  std::int64_t memory_bytes = 0;
  bool fits = true;
};

/// With all that was looked at, of which more is known now.
struct Bound {
  Binding binding;
  std::vector<Tried> tried;
  std::optional<Unfixed> unfixed = {};  // if somebody has looked (unfixed.h)
};

/// A plan for `request` that takes `evaluation`; `tried`: what its search has looked at; `step`: of its network.
struct Judged {
  const PlanRequest& request;
  const Plan& plan;
  const Evaluation& evaluation;
};
Bound bound_of(const Judged& judged, std::vector<Tried> tried, const StepOf& step);

/// What binds a plan that takes so much; empty: nothing is known of how it was found.
using BoundOf = std::function<Bound(const Evaluation&)>;

/// What `request` fixes of a plan: `tp=2,zero=1`, `--parallel data_parallel`, `annotations of relu1`; empty if nothing.
std::string fixed_text(const PlanRequest& request);

}  // namespace shardwright
