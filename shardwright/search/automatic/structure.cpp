#include "shardwright/search/automatic/structure.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "shardwright/annotations/expert_axes.h"
#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/cost/mixed_cluster.h"
#include "shardwright/search/planning/search_for.h"

namespace shardwright::automatic {
namespace {

/// Divisors of `n`, smallest first.
std::vector<int> divisors_of(int n) {
  std::vector<int> out;
  for (int d = 1; d <= n; ++d)
    if (n % d == 0) out.push_back(d);
  return out;
}

/// What may be chosen of something: `fixed` alone, if it is.
template <class T>
std::vector<T> open(const std::optional<T>& fixed, std::vector<T> all) {
  return fixed ? std::vector<T>{*fixed} : std::move(all);
}

bool says(const Constraints& fixed, Sharing what) {
  return std::ranges::any_of(degree_kinds, [&](const DegreeKind& kind) {
    return kind.of == what && kind.missing.empty() && fixed.degrees.said(kind.name);
  });
}

class Enumeration {
 public:
  /// `may_wait`: even where all but one of the stages wait.
  Enumeration(const PlanRequest& request, const OpenStep& step, bool may_wait)
      : fixed_(request.constraints),
        devices_(request.devices),
        may_wait_(may_wait),
        has_equal_parts_(request.has_equal_parts),
        cluster_(request.cluster ? &*request.cluster : nullptr),
        step_(step) {
    if (request.most_stages) most_stages_ = *request.most_stages;
    for (const Sharing sharing : {Sharing::stages, Sharing::work, Sharing::sequence, Sharing::batch})
      for (const DegreeKind& kind : degree_kinds)
        if (kind.of == sharing && kind.missing.empty() && (!kind.is_rare || fixed_.degrees.said(kind.name)))
          kinds_.push_back(&kind);
  }

  std::vector<Constraints> run() {
    add_degrees(0, devices_, {});
    return std::move(out_);
  }

 private:
  /// Shares `left` devices among the kinds from `k` on; the last takes what is left.
  void add_degrees(std::size_t k, int left, Degrees degrees) {
    if (k == kinds_.size()) return left == 1 ? add_experts(degrees) : void();
    const bool is_last = k + 1 == kinds_.size();
    const std::vector<int> all = is_last ? std::vector<int>{left} : divisors_of(left);
    for (int degree : open(fixed_.degrees.said(kinds_[k]->name), all)) {
      if (left % degree || (kinds_[k]->of == Sharing::stages && degree > most_stages_)) continue;
      degrees.set(kinds_[k]->name, degree);
      add_degrees(k + 1, left / degree, degrees);
    }
  }

  /// Experts over any of the devices of a stage. How many devices there are of ep and etp together says what is moved and kept: of
  /// as many, experts are split before their features, and within tp their features, as those of other weights.
  void add_experts(Degrees degrees) {
    const auto ep = fixed_.degrees.said("ep"), etp = fixed_.degrees.said("etp");
    const auto try_degrees = [&](std::optional<int> experts, std::optional<int> features) {
      degrees.set("ep", ep ? ep : experts);
      degrees.set("etp", etp ? etp : features);
      if (refusal_of_experts(degrees).empty()) add(degrees);
    };
    try_degrees(std::nullopt, std::nullopt);
    if (step_.experts < 2 || (ep && etp)) return;
    const int tensor = degrees.sharing(Sharing::work), data = degrees.sharing(Sharing::batch);
    for (int more : divisors_of(data)) {
      const int all = more * tensor;
      const int experts = etp ? all / *etp : ep.value_or(static_cast<int>(std::gcd(step_.experts, all)));
      if (more > 1 && experts > 1 && all % experts == 0 && step_.experts % experts == 0)
        try_degrees(experts, all / experts);
    }
  }

  void add(const Degrees& degrees) {
    const int replicas = degrees.sharing(Sharing::batch), stages = degrees.sharing(Sharing::stages);
    for (int count : step_.counts) {
      const std::int64_t at_once = step_.samples / count;
      if (step_.samples % count || !can_be_shared(at_once, replicas)) continue;
      if (fixed_.batch_shares && !takes_shares(at_once, replicas, stages)) continue;
      if (fixed_.micro_batch && *fixed_.micro_batch != at_once / replicas) continue;
      if (stages > 1 && !says(fixed_, Sharing::stages) && stages > most_stages_of(count)) continue;
      if (stages == 1 && fixed_.schedule) continue;  // it would order nothing
      for (const Schedule& schedule : schedules(stages, count))
        for (bool by_sequence : open(fixed_.sequence_parallel, {false, true})) {
          if (by_sequence && degrees.sharing(Sharing::work) == 1) continue;  // it would split nothing
          Constraints s{.degrees = degrees, .micro_batches = count, .interleave = fixed_.interleave};
          s.schedule = schedule;
          s.sequence_parallel = by_sequence;
          s.context = fixed_.context;
          s.batch_shares = fixed_.batch_shares;
          s.overlap_tensor = fixed_.overlap_tensor;
          add(s);
        }
    }
  }

  /// Evenly, or so that each replica has one at least: but not where rows of experts are shared, too.
  bool can_be_shared(std::int64_t samples, int replicas) const {
    return samples % replicas == 0 ||
           (samples > replicas && step_.experts < 2 && !fixed_.micro_batch && !has_equal_parts_);
  }

  /// Unequal ones of the batch, as they are asked for: by speed, of more samples than replicas, in a stage on devices of several kinds.
  bool takes_shares(std::int64_t samples, int replicas, int stages) const {
    const int asked = static_cast<int>(fixed_.batch_shares->size());
    if (step_.experts >= 2 || has_equal_parts_) return false;
    if (asked > 0) return asked == replicas;
    if (replicas == 1 || samples <= replicas) return false;
    const int devices = devices_ / stages;
    for (int stage = 0; stage < stages; ++stage)
      if (cluster_ && !cluster_->kinds.empty() && !kind_of(*cluster_, stage * devices, devices)) return true;
    return false;
  }

  /// With one micro-batch the other stages wait; a few of them may still be faster than more replicas. Where their number is
  /// asked for, stages keep to it.
  int most_stages_of(int count) const {
    constexpr int most_of_one = 8;
    if (may_wait_) return devices_;
    return fixed_.micro_batches ? count : count == 1 ? most_of_one : devices_;
  }

  std::vector<Schedule> schedules(int stages, int count) const {
    if (stages == 1) return {Schedule{}};
    if (fixed_.schedule) {
      const bool can_be = refusal_of({*fixed_.schedule, stages, count}).empty();
      return can_be ? std::vector<Schedule>{*fixed_.schedule} : std::vector<Schedule>{};
    }
    std::vector<Schedule> out{Schedule{}};
    for (const ScheduleDef& def : all_schedules())
      for (int argument : def.searched) {
        const Schedule schedule = schedule_of(def, argument);
        // What the stages do not divide, chunks in rounds take badly; and with fewer micro-batches than stages nothing fills
        // their bubbles, but gradients of weights may, of a few stages.
        if (schedule.order == ChunkOrder::rounds && !schedule.splits_backward && count % stages) continue;
        constexpr int most_stages_where_cut = 8;  // for each micro-batch
        if (stages > (schedule.splits_backward ? most_stages_where_cut : 1) * count) continue;
        if (refusal_of({schedule, stages, count}).empty()) out.push_back(schedule);
      }
    return out;
  }

  void add(Constraints s) {
    using enum RecomputeMode;
    const std::vector<int> levels =
        replicas_of(s) * contexts_of(s) > 1 ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{0};
    for (int zero : open(fixed_.zero, levels))
      for (const Again again : agains()) {
        s.zero = zero;
        s.recompute = again;
        out_.push_back(s);
      }
  }

  /// Where there are layers, as many of them as memory wants stand for all.
  std::vector<Again> agains() const {
    using enum RecomputeMode;
    if (!step_.repeats_layers) {
      const bool is_none = fixed_.recompute && fixed_.recompute->layers;
      return is_none ? std::vector<Again>{} : open(fixed_.recompute, {none, selected, full});
    }
    return open(fixed_.recompute, {none, selected, Again{none, true}, Again{selected, true}});
  }

  const Constraints& fixed_;
  int devices_;
  bool may_wait_, has_equal_parts_;
  const Cluster* cluster_;
  int most_stages_ = most_devices;
  const OpenStep& step_;
  std::vector<const DegreeKind*> kinds_;  // stages first, what shares the batch last
  std::vector<Constraints> out_;
};

}  // namespace

int fewest_replicas(const Constraints& s) {
  if (!s.degrees.said("ep")) return 1;
  return std::max(1, s.degrees.of("ep") * s.degrees.of_experts_features() / (shards_of(s) * contexts_of(s)));
}

Constraints without_replicas(Constraints s) {
  s.degrees.share(Sharing::batch, fewest_replicas(s));
  s.zero = 0;
  return s;
}

Constraints of_pieces(Constraints s) {
  s.degrees.share(Sharing::stages, 1);
  s.schedule.reset();
  s.recompute = mode_of(s);
  s.offload.reset();  // which is counted of whole stages
  return s;
}

std::string structure_text(const Constraints& s) {
  Constraints said = s;
  if (level_of(s) == 0) said.zero.reset();
  if (s.recompute == Again{}) said.recompute.reset();
  if (stages_of(s) == 1) said.schedule.reset();
  if (!splits_sequence(s)) said.sequence_parallel.reset();
  return to_text(said);
}

Said said(const Constraints& s) {
  if (stages_of(s) == 1 && !repeats_layers(s)) return {"--set", structure_text(s)};
  Constraints all = s;
  if (stages_of(s) == 1) all.schedule.reset();
  if (shards_of(s) == 1) all.sequence_parallel.reset();
  return {"--fix", to_text(all)};
}

PlanRequest with_structure(PlanRequest request, const Constraints& s) {
  for (const ConstraintWord& word : constraint_words())
    if (word.is_chosen) word.copy(request.constraints, s, word.name);
  request.constraints.stages = s.stages;
  if (s.batch_shares) request.constraints.batch_shares = s.batch_shares;
  request.is_set = true;
  return request;
}

std::vector<int> micro_batch_counts(std::int64_t samples) {
  std::vector<int> out;
  for (int m = 1; m <= std::min<std::int64_t>(samples, most_micro_batches); ++m)
    if (samples % m == 0) out.push_back(m);
  return out;
}

std::string kept_batch_text(int micro_batches) {
  return fmt::format(
      "; the loss depends on how the batch is cut, so micro-batches stay as many as asked for: {}",
      micro_batches);
}

std::vector<Constraints> structures_of(const PlanRequest& request, const OpenStep& step) {
  std::vector<Constraints> out = Enumeration(request, step, false).run();
  if (out.empty()) out = Enumeration(request, step, true).run();
  const auto& offload = request.constraints.offload;
  if (const std::size_t stages = offload ? offload->stages() : 0; stages > 0) {
    std::erase_if(out, [&](const Constraints& s) { return at(pipelining_of(s).parts()) != stages; });
    if (out.empty())
      throw Infeasible(fmt::format(
          "no plan: offload {} has shares of {} stages; say as many with --stages, chunks counted",
          to_text(*offload), stages));
  }
  for (Constraints& s : out) s.offload = offload;
  return out;
}

bool fixes_split(const Constraints& fixed) {
  return says(fixed, Sharing::batch) || says(fixed, Sharing::sequence) || says(fixed, Sharing::work) ||
         fixed.sequence_parallel || fixed.micro_batch || fixed.batch_shares || !fixed.operators.empty();
}

bool fixes_settings(const Constraints& fixed) {
  return says(fixed, Sharing::stages) || fixed.micro_batches || fixed.zero || fixed.recompute ||
         fixed.schedule;
}

namespace {

/// Throws: Error if the schedule cannot be so of as many stages and micro-batches as are fixed, too.
void check_schedule(const Constraints& fixed) {
  if (!fixed.schedule) return;
  const bool says_stages = says(fixed, Sharing::stages), is_table = !fixed.schedule->rows.empty();
  const Pipelining asked = settings_of(fixed).pipelining;
  if (!is_table && (!says_stages || !fixed.micro_batches)) return;
  if (const std::string why = refusal_of(asked); !why.empty()) throw error("{}", why);
}

}  // namespace

void check_free(const PlanRequest& request) {
  const Constraints& fixed = request.constraints;
  const std::string_view what = fixed_singly(fixed);
  const bool is_fix = request.options.said.test(static_cast<std::size_t>(Setting::fix));
  if (is_fix && splits_tensors(fixed))
    throw error("--fix needs search auto, but {}; leave one of the two out", what);
  if (is_fix && !what.empty())
    throw error(
        "--fix needs search auto, which cuts stages itself, but {} is put into stage {}; that is for --set, "
        "or "
        "for --annotate without --fix",
        fixed.stages.begin()->first, fixed.stages.begin()->second);
  check_schedule(fixed);
  if (!what.empty()) throw error("search auto: {}; use --search recursive, or --fix for degrees", what);
  if (fixed.recompute.value_or(Again{}).layers && !fixed.recomputed.empty())
    throw error("recompute={} lets the search choose layers, but {} names one; leave one of the two out",
                constraint_word("recompute").print(fixed, "recompute"),
                to_text({.recomputed = {fixed.recomputed.front()}}));
}

namespace {

/// Of what `request` fixes no more than leaves no structure: without any one of it there would be some.
Constraints conflicting(PlanRequest request, const OpenStep& step) {
  Constraints& fixed = request.constraints;
  fixed.operators.clear();  // each structure can have them, or none
  fixed.recomputed.clear();
  fixed.fusion_numbers.clear();
  for (const ConstraintWord& word : constraint_words())
    if (!word.is_chosen) word.open(fixed);
  // What says least by itself comes first; of degrees that are alike, the first is blamed.
  std::vector<std::string_view> words{"recompute", "zero", "schedule"};
  for (const Sharing sharing : {Sharing::stages, Sharing::work, Sharing::sequence, Sharing::batch})
    for (const DegreeKind& kind : degree_kinds)
      if (kind.of == sharing) words.push_back(kind.name);
  words.insert(words.end(), {"micro_batch", "sequence_parallel"});
  for (std::string_view word : words) {
    const Constraints kept = fixed;
    constraint_word(word).open(fixed);
    if (fixed != kept && !structures_of(request, step).empty()) fixed = kept;
  }
  return fixed;
}

}  // namespace

std::string conflict_text(const PlanRequest& request, const OpenStep& step) {
  const Constraints fixed = conflicting(request, step);
  std::string text = to_text(fixed, ", ");
  if (!text.empty()) text = fmt::format(" ({})", text);
  if (fixed.recompute.value_or(Again{}).layers && !step.repeats_layers)
    text += "; it is for networks of repeated layers";
  if (const auto& shares = request.constraints.batch_shares; shares && shares->empty())
    text += "; batch_shares=speed is for replicas on devices of several kinds, of more samples than replicas";
  if (splits_sequence(fixed)) text += "; sequence_parallel=1 splits over tp, of which only 1 is left";
  return text;
}

std::optional<Constraints> with_most_chunks(Constraints s, int pieces) {
  const ScheduleDef& def = def_of(schedule_of(s));
  if (def.near.empty() || schedule_of(s).chunks != def.searched.back()) return std::nullopt;
  const int most = std::min(def.near.back(), pieces / stages_of(s));
  if (most <= def.searched.back()) return std::nullopt;
  s.schedule = schedule_of(def, most);
  return s;
}

}  // namespace shardwright::automatic
