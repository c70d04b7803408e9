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
      if (best_.fits && best_.plan.settings.offload.is_on()) try_smaller_shares();
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
    if (const auto bound = best_.plan.lower_bound_seconds; bound && *bound <= other.seconds)
      tell_bound(other.plan, request_, *bound, other.seconds);
    take(std::move(other));
  }

  void take(Found other) {
    other.tried = with_taken(std::move(best_.tried), other.tried, cap_);
    best_ = std::move(other);
  }

  /// Nobody has said what is on the host, and memory is counted as it is here.
  bool may_offload() const {
    const Constraints& c = request_.constraints;
    return !c.offload && c.hosted.empty() && settings_of(c).framework == own_framework;
  }

  /// The first that fits, and the next, which leaves more room and may compute less again; of the faster one as small shares
  /// as its structure lets be.
  void try_offloads() {
    const Found whole = best_;
    int tries = 2;
    for (const Offload& offload : offloads()) {
      if (is_late() || tries == 0) break;
      if (leaves_too_much(whole, offload)) continue;
      try_offload(offload);
      tries -= best_.fits;
    }
  }

  /// What lasts is the same in every structure, but for how replicas share it.
  bool leaves_too_much(const Found& whole, const Offload& offload) const {
    const auto of = [&](MemoryKind kind) {
      return static_cast<double>(whole.memory[static_cast<std::size_t>(kind)]);
    };
    const double gone = offload.optimizer * of(MemoryKind::optimizer_state) +
                        offload.parameters * of(MemoryKind::parameters) +
                        offload.activations * of(MemoryKind::activations);
    constexpr double spare = 1.3;
    return static_cast<double>(whole.bytes) - gone > spare * cap_;
  }

  void try_smaller_shares() {
    if (best_.plan.structure.empty()) return;  // of another search
    constexpr int halvings = 3;
    for (double Offload::*share : {&Offload::activations, &Offload::optimizer, &Offload::parameters}) {
      const double all = best_.plan.settings.offload.*share;
      for (double step = all / 2; step > all / (2 << halvings) && step > 0 && !is_late(); step /= 2) {
        Offload less = best_.plan.settings.offload;
        less.*share -= step;
        PlanRequest asked = request_;
        asked.constraints = merged(asked.constraints, parse_constraints({"structure", best_.plan.structure}));
        try_offload(less, asked);
      }
    }
  }

  void try_offload(const Offload& offload) { try_offload(offload, request_); }
  /// A bound is of plans with nothing on the host, so it is not told of others.
  void try_offload(const Offload& offload, PlanRequest asked) try {
    asked.constraints.offload = offload;
    constexpr double most_seconds = 1e30;  // with a limit no bound is told
    Found other = run_(tables_, asked, best_.fits ? best_.seconds : most_seconds);
    if (!other.fits || (best_.fits && other.seconds >= best_.seconds)) return;
    other.plan.lower_bound_seconds.reset();
    take(std::move(other));
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
