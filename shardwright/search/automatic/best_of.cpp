#include "shardwright/search/automatic/best_of.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "shardwright/search/automatic/stock.h"
#include "shardwright/search/automatic/trials.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright::automatic {
namespace {

/// Limits of memory below the best plan's that networks of so few operators are searched with.
constexpr int most_limits = 4, most_nodes_of_limits = 600;

/// So many ways of putting memory on the host may be no better: of a network that fits without, and of one that does not.
constexpr int most_in_vain = 3, most_in_vain_of_misfit = 2;

/// More are not looked at one by one.
constexpr std::size_t most_stages_apart = 8;

/// What goes to the host where devices hold too little, the least to be copied in a step first.
constexpr std::array<Offload, 7> offloads() {
  return {{{.optimizer = 0.5},
           {.optimizer = 1},
           {.activations = 1},
           {.optimizer = 1, .activations = 0.5},
           {.optimizer = 1, .activations = 1},
           {.optimizer = 1, .parameters = 0.5, .activations = 1},
           {.optimizer = 1, .parameters = 1, .activations = 1}}};
}

class BestOf {
 public:
  BestOf(const StepOf& step, const PlanRequest& request, const Run& run)
      : request_(request),
        run_(run),
        tables_(step, request),
        cap_(static_cast<double>(request.options.memory_cap.value_or(usable_bytes(*request.cluster)))),
        best_(run(tables_, misses_, request, std::numeric_limits<double>::infinity())) {}

  Plan plan() {
    try_lower_limits();
    if (may_offload()) {
      if (!best_.fits || memory_costs_time()) try_offloads();
      if (best_.fits && best_.plan.settings.offload.is_on()) try_smaller_shares();
    }
    if (request_.stock) request_.stock->tried = std::move(best_.tried);
    return std::move(best_.plan);
  }

 private:
  bool is_late() const { return request_.options.deadline.is_over(); }
  bool is_quick() { return tables_.graph(1)->nodes.size() <= std::size_t{most_nodes_of_limits}; }

  /// Forecasts err, so that what a lower limit of memory leads to may be faster: it is searched for, too, below what the best
  /// takes, and again below that. So no lower limit makes a plan faster.
  void try_lower_limits() {
    PlanRequest asked = request_;
    std::int64_t bytes = best_.bytes;
    for (int i = 0; i < most_limits && is_quick() && best_.fits && !is_late(); ++i) try {
        asked.options.memory_cap = bytes - 1;
        Found other = run_(tables_, misses_, asked, best_.seconds);
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

  /// What does not fit may be faster than the best: there is something to win.
  bool memory_costs_time() const {
    constexpr double worthwhile = 0.95;  // of the best one's time
    return std::ranges::any_of(best_.tried, [&](const Tried& t) {
      return t.fate == Fate::misfit && is_priced(t) && t.seconds < worthwhile * best_.seconds;
    });
  }

  /// More and more, as long as it pays: what leaves more room may compute less again. Of the fastest as small shares as its
  /// structure lets be.
  void try_offloads() {
    const Found whole = best_;
    const bool has_states = bytes_of(whole, MemoryKind::optimizer_state) > 0;
    int in_vain = 0;
    std::set<Offload> tried{{}};
    for (Offload offload : offloads()) {
      if (is_late() || (in_vain == (whole.fits ? most_in_vain : most_in_vain_of_misfit) && !is_quick()))
        break;
      if (!has_states) offload.optimizer = 0;
      if (leaves_too_much(whole, offload) || !tried.insert(offload).second) continue;
      in_vain += !try_offload(offload) && best_.fits;
    }
  }

  static double bytes_of(const Found& found, MemoryKind kind) {
    return static_cast<double>(found.memory[static_cast<std::size_t>(kind)]);
  }

  /// What lasts is the same in every structure, but for how replicas share it.
  bool leaves_too_much(const Found& whole, const Offload& offload) const {
    const double gone = offload.optimizer * bytes_of(whole, MemoryKind::optimizer_state) +
                        offload.parameters * bytes_of(whole, MemoryKind::parameters) +
                        offload.activations * bytes_of(whole, MemoryKind::activations);
    constexpr double spare = 1.3;
    return static_cast<double>(whole.bytes) - gone > spare * cap_;
  }

  void try_smaller_shares() {
    if (best_.plan.structure.empty()) return;  // of another search
    constexpr int halvings = 3;
    for (const OffloadKind& kind : offload_kinds) {
      const double all = best_.plan.settings.offload.*kind.share;
      for (double step = all / 2; step > all / (2 << halvings) && step > 0 && !is_late(); step /= 2) {
        const Offload& now = best_.plan.settings.offload;
        try_with_structure(with_shares(now, kind, {now.*kind.share - step}));
      }
    }
    for (const OffloadKind& kind : offload_kinds)
      if (best_.plan.settings.offload.*kind.share > 0) try_shares_of_stages(kind);
  }

  /// Stages hold unlike much, the last ones the fewest micro-batches: nothing of a stage, or half as much.
  void try_shares_of_stages(const OffloadKind& kind) {
    const std::size_t stages = best_.plan.stages.size();
    if (stages == 1 || stages > most_stages_apart) return;
    for (std::size_t stage = stages; stage-- > 0 && !is_late();)
      for (const double part : {0.0, 0.5}) {
        const Offload& now = best_.plan.settings.offload;
        std::vector<double> shares(stages);
        for (std::size_t s = 0; s < stages; ++s) shares[s] = now.of_stage(s).*kind.share;
        shares[stage] *= part;
        if (try_with_structure(with_shares(now, kind, std::move(shares)))) break;
      }
  }

  bool try_with_structure(const Offload& offload) {
    PlanRequest asked = request_;
    asked.constraints = merged(asked.constraints, parse_constraints({"structure", best_.plan.structure}));
    return try_offload(offload, asked);
  }

  bool try_offload(const Offload& offload) { return try_offload(offload, request_); }
  /// Returns whether it is better. A bound is of plans with nothing on the host, so it is not told of others.
  bool try_offload(const Offload& offload, PlanRequest asked) try {
    asked.constraints.offload = offload;
    constexpr double most_seconds = 1e30;  // with a limit no bound is told
    Misses misses;                         // those with all on the devices err otherwise
    Found other = run_(tables_, misses, asked, best_.fits ? best_.seconds : most_seconds);
    if (!other.fits || (best_.fits && other.seconds >= best_.seconds)) return false;
    other.plan.lower_bound_seconds.reset();
    take(std::move(other));
    return true;
  } catch (const Infeasible&) {
    return false;
  }

  const PlanRequest& request_;
  const Run& run_;
  Tables tables_;
  Misses misses_;
  double cap_;
  Found best_;
};

}  // namespace

Plan best_of(const StepOf& step, const PlanRequest& request, const Run& run) {
  check_free(request);
  return BestOf(step, request, run).plan();
}

}  // namespace shardwright::automatic
