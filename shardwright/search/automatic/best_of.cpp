#include "shardwright/search/automatic/best_of.h"

#include <array>
#include <limits>
#include <utility>

#include "shardwright/search/automatic/stock.h"
#include "shardwright/search/automatic/trials.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright::automatic {
namespace {

/// Limits of memory below the best plan's that networks of so few operators are searched with.
constexpr int most_limits = 4, most_nodes_of_limits = 600;

/// What goes to the host where devices cannot hold all, the least to be copied in a step first.
constexpr std::array<Offload, 6> offloads() {
  return {{{.optimizer = 0.5, .operators = {}},
           {.optimizer = 1, .operators = {}},
           {.optimizer = 1, .activations = 0.5, .operators = {}},
           {.optimizer = 1, .activations = 1, .operators = {}},
           {.optimizer = 1, .parameters = 0.5, .activations = 1, .operators = {}},
           {.optimizer = 1, .parameters = 1, .activations = 1, .operators = {}}}};
}

class BestOf {
 public:
  BestOf(const StepOf& step, const PlanRequest& request, const Run& run)
      : request_(request),
        run_(run),
        tables_(step, request),
        cap_(static_cast<double>(request.options.memory_cap.value_or(usable_bytes(*request.cluster)))),
        best_(run(tables_, request, std::numeric_limits<double>::infinity())) {}

  Plan plan() {
    try_lower_limits();
    if (may_offload()) {
      if (!best_.fits)
        try_offloads();
      else if (best_.plan.settings.recompute.is_on())  // in the stead of computing again
        try_offload({.activations = 1, .operators = {}});
    }
    if (request_.stock) request_.stock->tried = std::move(best_.tried);
    return std::move(best_.plan);
  }

 private:
  bool is_late() const { return request_.options.deadline.is_over(); }

  /// Forecasts err, so that what a lower limit of memory leads to may be faster: it is searched for, too, below what the best
  /// takes, and again below that. So no lower limit makes a plan faster.
  void try_lower_limits() {
    PlanRequest asked = request_;
    std::int64_t bytes = best_.bytes;
    const bool is_quick = tables_.graph(1)->nodes.size() <= std::size_t{most_nodes_of_limits};
    for (int i = 0; i < most_limits && is_quick && best_.fits && !is_late(); ++i) try {
        asked.options.memory_cap = bytes - 1;
        Found other = run_(tables_, asked, best_.seconds);
        if (!other.fits) break;
        bytes = other.bytes;
        take_if_better(std::move(other));
      } catch (const Infeasible&) {
        break;
      }
  }

  void take_if_better(Found other) {
    if (best_.fits && other.seconds >= best_.seconds) return;
    other.tried = with_taken(std::move(best_.tried), other.tried, cap_);
    if (const auto bound = best_.plan.lower_bound_seconds; bound && *bound <= other.seconds)
      tell_bound(other.plan, *bound, other.seconds);
    best_ = std::move(other);
  }

  /// Nobody has said what is on the host, and memory is counted as it is here.
  bool may_offload() const {
    const Constraints& c = request_.constraints;
    return !c.offload && c.hosted.empty() && settings_of(c).framework == own_framework;
  }

  /// Of all that fit the fastest: what leaves more room may compute less again.
  void try_offloads() {
    for (const Offload& offload : offloads())
      if (!is_late()) try_offload(offload);
  }

  /// A bound is of plans with nothing on the host, so it is not told of others.
  void try_offload(const Offload& offload) try {
    PlanRequest asked = request_;
    asked.constraints.offload = offload;
    constexpr double all = std::numeric_limits<double>::infinity();
    Found other = run_(tables_, asked, best_.fits ? best_.seconds : all);
    if (!other.fits || (best_.fits && other.seconds >= best_.seconds)) return;
    other.plan.lower_bound_seconds.reset();
    other.tried = with_taken(std::move(best_.tried), other.tried, cap_);
    best_ = std::move(other);
  } catch (const Infeasible&) {
  }

  const PlanRequest& request_;
  const Run& run_;
  Tables tables_;
  double cap_;
  Found best_;
};

}  // namespace

Plan best_of(const StepOf& step, const PlanRequest& request, const Run& run) {
  check_free(request);
  return BestOf(step, request, run).plan();
}

}  // namespace shardwright::automatic
