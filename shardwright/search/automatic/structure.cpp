#include "shardwright/search/automatic/structure.h"

#include <algorithm>
#include <utility>

#include "shardwright/base/text.h"
#include "shardwright/cost/cluster.h"

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

class Enumeration {
 public:
  /// `may_wait`: even where all but one of the stages wait.
  Enumeration(const PlanRequest& request, const OpenStep& step, bool may_wait)
      : fixed_(request.fixed), devices_(request.devices), may_wait_(may_wait), step_(step) {
    const int asked = request.settings.pipelining.stages;
    if (request.auto_pipeline.value_or(false) && asked > 1) most_stages_ = asked;
  }

  std::vector<Structure> run() {
    for (int stages : open(fixed_.stages, divisors_of(devices_))) {
      if (devices_ % stages || stages > most_stages_) continue;
      const int each = devices_ / stages;
      for (int tensor : open(fixed_.tensor, divisors_of(each))) {
        if (each % tensor || (fixed_.data && *fixed_.data != each / tensor)) continue;
        add(stages, {.data = each / tensor, .tensor = tensor});
      }
    }
    return std::move(out_);
  }

 private:
  void add(int stages, Degrees degrees) {
    for (int count : step_.counts) {
      const std::int64_t at_once = step_.samples / count;
      if (step_.samples % count || at_once % degrees.data) continue;
      if (fixed_.micro_batch && *fixed_.micro_batch != at_once / degrees.data) continue;
      if (stages > 1 && !fixed_.stages && stages > most_stages_of(count)) continue;
      if (stages == 1 && fixed_.schedule) continue;  // it would order nothing
      for (const Schedule& schedule : schedules(stages, count)) {
        const Pipelining pipelining{schedule, stages, count};
        const std::vector<bool> sequence = open(
            fixed_.sequence, degrees.tensor > 1 ? std::vector<bool>{false, true} : std::vector<bool>{false});
        for (bool by_sequence : sequence) {
          if (by_sequence && degrees.tensor == 1) continue;  // it would split nothing
          degrees.sequence = by_sequence;
          add(degrees, pipelining);
        }
      }
    }
  }

  /// With one micro-batch the other stages would only wait; where their number is asked for, stages keep to it.
  int most_stages_of(int count) const {
    return !may_wait_ && (count == 1 || fixed_.micro_batches) ? count : devices_;
  }

  std::vector<Schedule> schedules(int stages, int count) const {
    if (stages == 1) return {Schedule{}};
    if (fixed_.schedule) return {*fixed_.schedule};
    std::vector<Schedule> out{Schedule{}};
    if (count % stages == 0)
      for (int chunks : {2, 4}) out.emplace_back(Schedule::interleaved, chunks);
    return out;
  }

  void add(const Degrees& degrees, const Pipelining& pipelining) {
    using enum RecomputeMode;
    const std::vector<int> levels = degrees.data > 1 ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{0};
    for (int zero : open(fixed_.zero, levels)) {
      for (RecomputeMode mode : open(fixed_.recompute, {none, selected, full}))
        if (fixed_.recompute || mode != full || !step_.repeats_layers)
          out_.push_back({degrees, pipelining, zero, mode});
      if (!fixed_.recompute && step_.repeats_layers)
        for (RecomputeMode others : {none, selected})
          out_.push_back({degrees, pipelining, zero, others, true});
    }
  }

  const Expert& fixed_;
  int devices_;
  bool may_wait_;
  int most_stages_ = most_devices;
  const OpenStep& step_;
  std::vector<Structure> out_;
};

}  // namespace

std::string to_text(const Structure& s) {
  std::string out = fmt::format("dp={},tp={},pp={},micro_batches={}", s.degrees.data, s.degrees.tensor,
                                s.pipelining.stages, s.pipelining.micro_batches);
  if (s.zero > 0) out += fmt::format(",zero={}", s.zero);
  if (s.recompute != RecomputeMode::none) out += fmt::format(",recompute={}", name_of(s.recompute));
  if (s.repeats_layers) out += s.recompute == RecomputeMode::none ? ",recompute=layers" : "+layers";
  if (s.pipelining.stages > 1) out += fmt::format(",schedule={}", name_of(s.pipelining.schedule));
  if (s.degrees.sequence) out += ",sequence_parallel=1";
  return out;
}

PlanRequest with_structure(PlanRequest request, const Structure& s) {
  request.settings.pipelining = s.pipelining;
  request.settings.optimizer_parallel.level = s.zero;
  if (request.settings.recompute.modules.empty()) {
    Recompute& recompute = request.settings.recompute;
    // Of the mode that is asked for, what is unusual of its options stays.
    if (recompute.mode != s.recompute || recompute.options == default_options(s.recompute))
      recompute.options = recompute_options(s.recompute, s.degrees.sequence);
    recompute.mode = s.recompute;
  }
  request.degrees = s.degrees;
  return request;
}

std::vector<Structure> structures_of(const PlanRequest& request, const OpenStep& step) {
  const std::vector<Structure> busy = Enumeration(request, step, false).run();
  return busy.empty() ? Enumeration(request, step, true).run() : busy;
}

void check_free(const PlanRequest& request) {
  const Annotations& a = request.annotations;
  if (!a.nodes.empty() || a.dataset || !a.dataset_word.empty() || !a.stages.empty())
    throw error(
        "search auto: annotations and dataset strategies fix single operators; use --search recursive, or "
        "--fix for degrees");
}

namespace {

/// Of what `request` fixes no more than leaves no structure: without any one of it there would be some.
Expert conflicting(PlanRequest request, OpenStep step) {
  Expert& fixed = request.fixed;
  const auto try_without = [&](auto member) {
    if (!(fixed.*member)) return;
    const auto kept = std::exchange(fixed.*member, {});
    if (!structures_of(request, step).empty()) fixed.*member = kept;
  };
  // What says least by itself comes first; of two that are alike, dp is blamed.
  try_without(&Expert::recompute);
  try_without(&Expert::zero);
  try_without(&Expert::schedule);
  try_without(&Expert::stages);
  try_without(&Expert::tensor);
  try_without(&Expert::data);
  try_without(&Expert::micro_batch);
  try_without(&Expert::sequence);
  return fixed;
}

}  // namespace

std::string conflict_text(const PlanRequest& request, const OpenStep& step) {
  const Expert fixed = conflicting(request, step);
  std::vector<std::string> out;
  for (const auto& [word, value] : {std::pair("dp", fixed.data),
                                    {"tp", fixed.tensor},
                                    {"pp", fixed.stages},
                                    {"micro_batches", fixed.micro_batches},
                                    {"zero", fixed.zero}})
    if (value) out.push_back(fmt::format("{}={}", word, *value));
  if (fixed.micro_batch) out.push_back(fmt::format("micro_batch={}", *fixed.micro_batch));
  if (fixed.recompute) out.push_back(fmt::format("recompute={}", name_of(*fixed.recompute)));
  if (fixed.schedule) out.push_back(fmt::format("schedule={}", name_of(*fixed.schedule)));
  if (fixed.sequence) out.push_back(fmt::format("sequence_parallel={}", *fixed.sequence ? 1 : 0));
  std::string text = out.empty() ? "" : fmt::format(" ({})", join(out, ", "));
  if (fixed.sequence.value_or(false)) text += "; sequence_parallel=1 splits over tp, of which only 1 is left";
  return text;
}

}  // namespace shardwright::automatic
