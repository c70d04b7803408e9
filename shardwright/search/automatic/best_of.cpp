#include "shardwright/search/automatic/best_of.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "shardwright/annotations/context_split.h"
#include "shardwright/search/automatic/stock.h"
#include "shardwright/search/automatic/trials.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright::automatic {
namespace {

/// Limits of memory below the best plan's that networks of so few operators are searched with.
constexpr int most_limits = 4, most_nodes_of_limits = 600;

/// So many ways of putting memory on the host may be no better: of a network that fits without, and of one that does not.
constexpr int most_in_vain = 3, most_in_vain_of_misfit = 2;

/// Times the best plan's seconds: what is forecast to take more is not worth a program, as programs take more than forecasts.
constexpr double worthwhile = 0.97;

/// Places from which on a sequence is split, too: of shorter ones attention is a small part, which tensor parallelism splits as well.
constexpr std::int64_t long_sequence = 8192;
/// Into so many parts at most; so many numbers of parts may be no better.
constexpr int most_contexts = 16, most_contexts_in_vain = 2;

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

/// Of a large network: where all copies of the host take a smaller share of a step than this, smaller shares are not tried.
constexpr double worth_sparing = 0.005;

constexpr double unknown = std::numeric_limits<double>::infinity();
constexpr double most_seconds = 1e30;  // a limit that limits nothing; with one no bound is sought

class BestOf {
 public:
  BestOf(const StepOf& step, const PlanRequest& request, const Run& run)
      : request_(request),
        run_(run),
        tables_(step, request),
        cap_(static_cast<double>(request.options.memory_cap.value_or(usable_bytes(*request.cluster)))),
        best_(run(tables_, misses_, request, std::numeric_limits<double>::infinity())),
        bound_(best_.bound),
        looked_(best_.looked),
        asked_(request) {}

  Plan plan() {
    try_lower_limits();
    try_shares();
    try_contexts();
    if (may_offload()) {
      if (!is_quick() || !best_.fits || memory_costs_time()) try_offloads();
      if (best_.fits && best_.plan.settings.offload.is_on()) try_smaller_shares();
    }
    if (bound_ && best_.plan.settings.offload.is_on()) *bound_ *= misses_with_host_.least_seconds();
    best_.plan.compared = looked_.text() + best_.plan.compared;
    if (bound_ && *bound_ <= best_.seconds) tell_bound(best_.plan, request_, *bound_, best_.seconds);
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
    if (!request_.cluster->kinds.empty()) return;  // each has its own limit
    for (int i = 0; i < most_limits && is_quick() && best_.fits && !is_late(); ++i) try {
        asked.options.memory_cap = bytes - 1;
        Found other = run_(tables_, misses_, asked, best_.seconds);
        looked_.add_again(other.looked);
        if (!other.fits) break;
        bytes = other.bytes;
        take_if_better(std::move(other));
      } catch (const Infeasible&) {
        break;
      }
  }

  void take_if_better(Found other) {
    if (is_better(other)) take(std::move(other));
  }

  bool is_better(const Found& other) const {
    return other.fits && (!best_.fits || other.seconds < best_.seconds);
  }

  /// A device has the n-th part of long sequences, with fewer devices that share its weights.
  void try_contexts() {
    if (request_.constraints.degrees.said("cp") || !tables_.graph(1)) return;
    const std::int64_t length = longest_sequence(*tables_.graph(1));
    if (length < long_sequence) return;
    int in_vain = 0;
    const int exchanged = request_.constraints.context.value_or(ContextWays()).exchanged;
    for (int parts = 2; parts <= std::min(most_contexts, request_.devices); ++parts) {
      if (request_.devices % parts || length % (2 * parts)) continue;
      if (!is_part_of(exchanged, parts)) continue;
      if (is_late() || in_vain == most_contexts_in_vain) return;
      if (!try_context(parts)) ++in_vain;
    }
  }

  /// Replicas on devices of several kinds have as much of the batch as they are fast.
  void try_shares() {
    PlanRequest asked = request_;
    if (request_.cluster->kinds.empty() || asked.constraints.batch_shares || is_late()) return;
    asked.constraints.batch_shares = std::vector<int>{};
    try_other(std::move(asked));
  }

  /// Returns whether it is better.
  bool try_context(int parts) {
    PlanRequest asked = request_;
    asked.constraints.degrees.set("cp", parts);
    return try_other(std::move(asked));
  }

  bool try_other(PlanRequest asked) try {
    Misses misses;  // those with whole sequences, or equal shares, err otherwise
    Found other = run_(tables_, misses, asked, best_.fits ? best_.seconds : most_seconds);
    looked_.add(other.looked);
    if (const auto least = least_of(other, misses); bound_ && least) bound_ = std::min(*bound_, *least);
    const bool is_taken = is_better(other);
    for (Tried& t : is_taken ? best_.tried : other.tried)
      if (t.fate == Fate::taken) t.fate = Fate::slower;
    std::vector<Tried> all = std::move(best_.tried);
    all.insert(all.end(), other.tried.begin(), other.tried.end());
    if (is_taken) best_ = std::move(other), asked_ = std::move(asked);
    best_.tried = std::move(all);
    return is_taken;
  } catch (const Infeasible&) {
    return false;
  }

  /// Seconds that no structure of a search is known to undercut.
  static std::optional<double> least_of(const Found& found, const Misses& misses) {
    double out = unknown;
    for (const Tried& t : found.tried)
      if (t.least_seconds > 0 && t.fate != Fate::impossible)
        out = std::min(out, t.least_seconds * misses.least_seconds());
    return out < unknown ? std::optional(out) : std::nullopt;
  }

  void take(Found other) {
    other.tried = with_taken(std::move(best_.tried), other.tried, cap_);
    best_ = std::move(other);
  }

  /// Nobody has said what is on the host, and memory is counted as it is here.
  bool may_offload() const {
    const Constraints& c = request_.constraints;
    return !c.offload && c.hosted.empty() && settings_of(c).framework == own_framework &&
           request_.cluster->kinds.empty();
  }

  /// What does not fit may be faster than the best: there is something to win.
  bool memory_costs_time() const {
    constexpr double costly = 0.95;  // of the best one's time
    return std::ranges::any_of(best_.tried, [&](const Tried& t) {
      return t.fate == Fate::misfit && is_priced(t) && t.seconds < costly * best_.seconds;
    });
  }

  /// The most promising first, as long as it pays; of what promises as much the least to be copied. Of the fastest as small shares as
  /// its structure lets be.
  void try_offloads() {
    const Found whole = best_;
    bound_with_host_ = bound_with_host(whole);
    int in_vain = 0;
    for (const auto& [seconds, offload] : promising_offloads(whole)) {
      if (is_late() || (in_vain == (whole.fits ? most_in_vain : most_in_vain_of_misfit) && !is_quick()))
        break;
      if (best_.fits && !is_quick() && seconds >= worthwhile * best_.seconds) break;
      in_vain += !try_offload(offload) && best_.fits;
    }
  }

  /// Of plans with some of it on the host, too: no structure is faster for that than with more memory.
  std::optional<double> bound_with_host(const Found& whole) const {
    if (whole.fits && !bound_) return std::nullopt;
    const auto least = least_of(whole, misses_);
    if (!whole.fits || !least) return whole.fits ? bound_ : least;
    return std::min(*bound_, *least);
  }

  /// What leaves little enough on devices, by the time that a step is forecast to take. That is unknown of
  /// small networks, with which each is tried.
  std::vector<std::pair<double, Offload>> promising_offloads(const Found& whole) {
    std::vector<const Tried*> structures;
    if (!is_quick()) structures = promising_structures(whole);
    constexpr std::size_t most = 512;  // of 70B's many thousands it takes seconds to look at all
    const std::span<const Tried* const> all = structures;
    std::vector<std::pair<double, Offload>> out = promises_of(whole, all.first(std::min(most, all.size())));
    const auto is_worthwhile = [&](const auto& p) { return p.first < worth_of(whole); };
    if (all.size() > most && std::ranges::none_of(out, is_worthwhile)) out = promises_of(whole, all);
    return out;
  }

  /// What takes as long is not worth a program.
  static double worth_of(const Found& whole) { return whole.fits ? worthwhile * whole.seconds : unknown; }

  /// Of what `structures` promise, the most promising first.
  std::vector<std::pair<double, Offload>> promises_of(const Found& whole,
                                                      std::span<const Tried* const> structures) {
    const bool has_states = bytes_of(whole, MemoryKind::optimizer_state) > 0;
    std::vector<std::pair<double, Offload>> out;
    std::set<Offload> seen{{}};
    for (Offload offload : offloads()) {
      if (!has_states) offload.optimizer = 0;
      if (!leaves_too_much(whole, offload) && seen.insert(offload).second)
        out.emplace_back(is_late() ? unknown : promise_of(whole, offload, structures), offload);
    }
    std::ranges::stable_sort(out, {}, &std::pair<double, Offload>::first);
    return out;
  }

  /// Those that may be faster with less memory, as far as the search without a host has looked at them; by the least that they take.
  static std::vector<const Tried*> promising_structures(const Found& whole) {
    std::vector<const Tried*> out;
    for (const Tried& t : whole.tried)
      if (t.words.empty() && (t.fate == Fate::misfit || is_priced(t)) &&
          (t.by == KnownBy::program ? t.seconds : t.least_seconds) < worth_of(whole))
        out.push_back(&t);
    std::ranges::stable_sort(out, {}, &Tried::least_seconds);
    return out;
  }

  /// Seconds of a step of the fastest of them, as much more than forecasts as programs of their kind were seen to take; what
  /// is not worth a program if none that fits takes less.
  double promise_of(const Found& whole, const Offload& offload, std::span<const Tried* const> structures) {
    Bounds bounds(tables_, 1);  // which no forecast asks
    Candidates forecasts(tables_, bounds, *request_.cluster, static_cast<std::int64_t>(cap_),
                         usable_host_bytes(*request_.cluster));
    double out = worth_of(whole);
    for (const Tried* t : structures) {
      if (t->least_seconds >= out || is_late()) break;
      Constraints s = t->structure;
      const double miss = misses_.of(s).seconds;
      s.offload = offload;
      if (const auto c = forecasts.forecast(s, 1, out / miss); c && c->forecast.fits)
        out = std::min(out, miss * c->forecast.seconds);
    }
    return out;
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
    if (is_late()) return;
    if (!is_quick() && best_.seconds - seconds_without_host() < worth_sparing * best_.seconds) return;
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

  /// Of the best one's structure with all on devices that hold it, or nothing if that is none.
  double seconds_without_host() try {
    PlanRequest asked = with_best_structure();
    asked.constraints.offload = Offload{};
    asked.options.memory_cap = std::numeric_limits<std::int64_t>::max() / 2;
    Misses misses;
    const Found other = run_(tables_, misses, asked, most_seconds);
    looked_.add_again(other.looked);
    return other.seconds;
  } catch (const Infeasible&) {
    return 0;
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

  PlanRequest with_best_structure() const {
    PlanRequest asked = request_;
    asked.constraints = merged(asked.constraints, parse_constraints({"structure", best_.plan.structure}));
    return asked;
  }

  bool try_with_structure(const Offload& offload) { return try_offload(offload, with_best_structure()); }

  bool try_offload(const Offload& offload) { return try_offload(offload, asked_); }
  /// Returns whether it is better.
  bool try_offload(const Offload& offload, PlanRequest asked) try {
    asked.constraints.offload = offload;
    asked.options.host_cap = usable_host_bytes(*request_.cluster);
    Misses own;  // those with all on the devices err otherwise
    Misses& misses = is_quick() ? own : misses_with_host_;
    Found other = run_(tables_, misses, asked, best_.fits ? best_.seconds : most_seconds);
    looked_.add_again(other.looked);
    if (!is_better(other)) return false;
    bound_ = bound_with_host_;
    take(std::move(other));
    return true;
  } catch (const Infeasible&) {
    return false;
  }

  const PlanRequest& request_;
  const Run& run_;
  Tables tables_;
  Misses misses_, misses_with_host_;  // of large networks: what one share was seen to take, others will
  double cap_;
  Found best_;
  std::optional<double> bound_;            // seconds that no plan undercuts
  std::optional<double> bound_with_host_;  // the same of plans with memory on the host, too
  Looked looked_;
  PlanRequest asked_;  // with the parts of sequences, or the shares of the batch, that the best one has
};

}  // namespace

std::string Looked::text() const {
  return fmt::format("{} structures looked at, {} forecast, {} simulated", structures, forecasts, programs);
}

Plan best_of(const StepOf& step, const PlanRequest& request, const Run& run) {
  check_free(request);
  return BestOf(step, request, run).plan();
}

}  // namespace shardwright::automatic
