#include "shardwright/search/planning/device_counts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "shardwright/base/attempt.h"
#include "shardwright/base/index.h"
#include "shardwright/base/progress.h"
#include "shardwright/base/quantity.h"
#include "shardwright/graph/op.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/automatic/stock.h"
#include "shardwright/search/planning/search_for.h"

namespace shardwright {
namespace {

/// A power of two, or a part of `all`.
bool is_usual(int n, int all) { return (n & (n - 1)) == 0 || all % n == 0; }

/// Bytes of parameters and states that are read, which devices may share but cannot do without.
std::int64_t lasting_bytes(const Graph& graph) {
  std::vector<bool> is_read(graph.values.size(), false);
  for (const Node& node : graph.nodes)
    for (const ValueId v : node.operands) is_read[at(v.index)] = true;
  std::int64_t out = 0;
  for (const Node& node : graph.nodes) {
    const bool lasts = node.op->kind == OpKind::parameter || node.op->kind == OpKind::state;
    if (lasts && is_read[at(node.results.front().index)])
      out += graph.value(node.results.front()).type.bytes();
  }
  return out;
}

/// Searches on several numbers of devices, for which each network is made once.
class Counter {
 public:
  explicit Counter(const CountedSearch& search)
      : search_(search), deadline_(search.request.options.deadline) {
    const SearchOptions& o = search.request.options;
    if (!deadline_.seconds_left()) deadline_ = deadline_.within(o.most_seconds);
    step_ = [this](int micro_batches) {
      const auto it = networks_.find(micro_batches);
      return it != networks_.end()
                 ? it->second
                 : networks_.emplace(micro_batches, search_.step(micro_batches)).first->second;
    };
  }
  Counter(const Counter&) = delete;  // step_ is of this one

  /// `others`: how many are still to come, which have their share of the time.
  CountedPlan on(int devices, std::size_t others) {
    CountedPlan out{.devices = devices};
    if (has_plan_ && deadline_.is_over()) {
      out.why =
          fmt::format("not looked at: --search-time {} was over", *search_.request.options.most_seconds);
      return out;
    }
    out.evaluation = attempt(out.why, [&] {
      out.plan = plan_on(devices, others);
      out.tried = std::exchange(stock_.tried, {});
      return search_.evaluate(step_(out.plan->settings.pipelining.batch_parts()), *out.plan);
    });
    if (!out.evaluation) out.plan.reset();
    has_plan_ = has_plan_ || out.plan;
    if (out.evaluation) {
      const double seconds = out.evaluation->estimate.peak_seconds * devices;
      peak_seconds_ = std::min(seconds, peak_seconds_.value_or(seconds));
    }
    return out;
  }

  /// Why no plan on so many devices fits, or is fast enough; empty if one may be.
  std::string refusal(int devices, const std::optional<double>& target_seconds) {
    const PlanRequest& r = search_.request;
    if (!lasting_bytes_)
      lasting_bytes_ =
          lasting_bytes(step_(chooses_structure(r) ? 1 : settings_of(r).pipelining.batch_parts()));
    const std::int64_t least = *lasting_bytes_ / devices,
                       most = r.options.memory_cap.value_or(most_usable_bytes(*r.cluster));
    const bool is_all_here =
        !settings_of(r).offload.is_on();  // only where it is said is some of it looked for on the host
    if (least > most && is_all_here)
      return fmt::format("{} of parameters and states a device, of {}", bytes_text(least), bytes_text(most));
    // Plans may differ in what they compute, by what is the same in two places.
    constexpr double nearness = 0.99;
    const double seconds = nearness * peak_seconds_.value_or(0) / devices;
    if (target_seconds && seconds > *target_seconds)
      return fmt::format("its products take {:.4g} s at the devices' peak", seconds);
    return "";
  }

 private:
  /// On one device, too, a search of whole plans has micro-batches and recompute to choose.
  Plan plan_on(int devices, std::size_t others) {
    PlanRequest asked = search_.request;
    asked.devices = devices;
    asked.cluster = resized(*search_.request.cluster, devices);
    asked.stock = &stock_;
    if (const auto left = deadline_.seconds_left())
      asked.options.deadline = deadline_.within(*left / static_cast<double>(others + 1));
    if (devices > 1 || !chooses_structure(search_.request)) return make_plan(step_, asked);
    PlanRequest named = asked;
    named.search = search_for(search_.request).search->name;
    if (!instead_of_auto(asked)) return make_plan(step_, named);
    std::string no;  // then as a network that has no structure
    auto out = attempt(no, [&] { return make_plan(step_, named); });
    return out ? *std::move(out) : make_plan(step_, asked);
  }

  const CountedSearch& search_;
  std::map<int, Graph> networks_;  // by micro-batches
  StepOf step_;
  automatic::Stock stock_;
  Deadline deadline_;  // of all of them
  bool has_plan_ = false;
  std::optional<std::int64_t> lasting_bytes_;
  std::optional<double>
      peak_seconds_;  // that one device takes for the products of a step at its peak, at least
};

Doing of_counts(const CountedSearch& search, const std::vector<int>& counts) {
  return {search.request.options.deadline.progress(), "numbers of devices",
          static_cast<std::int64_t>(counts.size())};
}

/// That the next one is looked at.
void tell(Doing& doing, std::size_t looked_at, int devices) {
  doing.tell(static_cast<std::int64_t>(looked_at), [&] { return fmt::format("now {}", devices); });
}

}  // namespace

std::optional<double> CountedPlan::seconds() const {
  return evaluation ? std::optional(evaluation->estimate.step_seconds()) : std::nullopt;
}

std::optional<double> CountedPlan::price() const {
  return evaluation ? plan->cluster.price_of(*seconds()) : std::nullopt;
}

bool CountWanted::is_met_by(const CountedPlan& plan) const {
  return plan.fits() && (!target_seconds || *plan.seconds() <= *target_seconds);
}

std::vector<int> usual_counts(const Cluster& cluster) {
  std::vector<int> out;
  for (int n = 1; n < cluster.devices_per_node; ++n)
    if (is_usual(n, cluster.devices_per_node)) out.push_back(n);
  for (int n = 1; n <= cluster.nodes; ++n)
    if (is_usual(n, cluster.nodes)) out.push_back(n * cluster.devices_per_node);
  return out;
}

std::vector<CountedPlan> plans_over(const CountedSearch& search, const std::vector<int>& counts) {
  Counter counter(search);
  std::vector<CountedPlan> out;
  Doing doing = of_counts(search, counts);
  for (const int devices : counts) {
    tell(doing, out.size(), devices);
    out.push_back(counter.on(devices, counts.size() - out.size() - 1));
  }
  return out;
}

CountChoice best_count(const CountedSearch& search, const std::vector<int>& counts,
                       const CountWanted& wanted) {
  Counter counter(search);
  CountChoice out;
  std::optional<double> least;  // price
  Doing doing = of_counts(search, counts);
  for (const int devices : counts) {
    tell(doing, out.looked_at.size(), devices);
    std::string refusal = counter.refusal(devices, wanted.target_seconds);
    out.looked_at.push_back(refusal.empty() ? counter.on(devices, counts.size() - out.looked_at.size() - 1)
                                            : CountedPlan{.devices = devices, .why = std::move(refusal)});
    const CountedPlan& last = out.looked_at.back();
    if (!wanted.is_met_by(last)) continue;
    if (wanted.objective == Objective::price && least && *last.price() >= *least) continue;
    least = last.price();
    out.best = out.looked_at.size() - 1;
    if (wanted.objective == Objective::devices) break;
  }
  return out;
}

}  // namespace shardwright
