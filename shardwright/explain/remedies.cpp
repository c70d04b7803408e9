#include "shardwright/explain/remedies.h"

#include <algorithm>
#include <array>
#include <utility>

#include "shardwright/base/attempt.h"
#include "shardwright/base/progress.h"
#include "shardwright/base/text.h"
#include "shardwright/passes/compile.h"
#include "shardwright/plan/batch.h"
#include "shardwright/search/planning/least_memory.h"
#include "shardwright/search/planning/search_for.h"
#include "shardwright/search/planning/settings.h"

namespace shardwright {
namespace {

/// Flags with their values, which take the place of what was said.
using Change = std::vector<std::pair<std::string, std::string>>;

std::string to_text(const Change& change) {
  std::vector<std::string> out;
  for (const auto& [flag, value] : change) out.push_back(flag + " " + value);
  return join(out, " ");
}

/// What the search is left to choose of a setting that was fixed.
void open(PlanRequest& r, std::string_view flag) {
  Constraints& c = r.constraints;
  if (flag == "--recompute") {
    if (c.recompute) c.recomputed.clear();  // else annotations name them
    for (const char* word : {"recompute", "recompute_communication", "recompute_shard_kept"})
      constraint_word(word).open(c);
  }
  if (flag == "--optimizer-parallel") c.zero.reset();
  if (flag == "--offload") c.offload.reset();
  if (flag == "--micro-batches") c.micro_batches.reset(), c.micro_batch.reset();
  if (flag == "--stages") {
    c.degrees.set("pp", std::nullopt);
    r.auto_pipeline.reset();
  }
}

bool is_fixed(const PlanRequest& r, std::string_view flag) {
  PlanRequest opened = r;
  open(opened, flag);
  const auto parts = [](const PlanRequest& a) { return std::tuple(a.constraints, a.auto_pipeline); };
  return parts(opened) != parts(r);
}

class Search {
 public:
  Search(const Misfit& misfit, const StepOf& step, const StepsOf& steps)
      : misfit_(misfit), step_(step), steps_(steps) {
    constexpr int few_devices = 64;  // beyond them searches take long
    left_ = misfit.request.devices > few_devices ? 8 : 16;
  }

  Remedies run() {
    const Doing doing(misfit_.request.options.deadline.progress(), "looking for what would fit");
    const bool is_whole = chooses_structure(misfit_.request);
    if (!is_whole) try_other_search();
    try_precision();
    try_devices();
    for (const char* flag :
         {"--recompute", "--optimizer-parallel", "--micro-batches", "--stages", "--offload"})
      is_whole ? try_open(flag) : try_values(flag);
    std::ranges::stable_sort(out_.found, {}, &Remedy::step_seconds);
    return std::move(out_);
  }

 private:
  /// There is no time to look at it, which is noted.
  bool is_late(const std::string& flag) {
    if (!misfit_.request.options.deadline.is_over()) return false;
    if (std::ranges::find(out_.unasked, flag) == out_.unasked.end()) out_.unasked.push_back(flag);
    return true;
  }

  /// What a plan for `asked` takes, if there is one and it fits.
  struct Solved {
    Plan plan;
    Evaluation evaluation;
  };
  std::optional<Solved> solved(PlanRequest asked, const StepOf& step) {
    if (left_-- <= 0) return std::nullopt;
    asked.options.is_advice = true;
    std::string no;
    auto out = attempt(no, [&] {
      Plan plan = make_plan(step, asked);
      const Graph graph = step(plan.settings.pipelining.batch_parts());
      const Evaluation e =
          evaluate(compile_pipeline(graph, plan, {.formats = asked.formats, .verifies = false}), plan.cluster,
                   {.memory_cap = misfit_.evaluation.cap_bytes, .framework = plan.settings.framework});
      return Solved{std::move(plan), e};
    });
    return out && out->evaluation.fits() ? std::move(out) : std::nullopt;
  }

  PlanRequest with(const Change& change) const {
    PlanRequest out = misfit_.request;
    out.constraints.micro_batch.reset();  // it would be said twice
    for (const auto& [flag, value] : change) {
      if (flag == "--recompute") open(out, flag);
      if (flag == "--optimizer-parallel")
        out.constraints.zero_threshold.reset(), out.constraints.zero_group.reset();
      setting_of(flag)->parse(out, {flag, value});
    }
    return out;
  }

  /// Whether what fits is a remedy.
  bool add(const std::string& change, const std::optional<Solved>& s) {
    if (s)
      out_.found.push_back(
          {change, s->evaluation.estimate.step_seconds(), s->evaluation.estimate.arena_bytes});
    return s.has_value();
  }
  bool try_change(const Change& change, const StepOf& step) {
    return !is_late(change.front().first) && add(to_text(change), solved(with(change), step));
  }

  /// Lets the search choose what was fixed; what it chooses is then asked for.
  void try_open(const std::string& flag) {
    if (!is_fixed(misfit_.request, flag) || is_late(flag)) return;
    PlanRequest asked = misfit_.request;
    open(asked, flag);
    if (const auto found = solved(asked, step_))
      try_change({{flag, setting_of(flag)->print(request_of(found->plan))}}, step_);
  }

  /// One value after the other, if the last, which saves most, would fit.
  void try_values(const std::string& flag) {
    if (is_late(flag)) return;
    const std::vector<Change> all = values(flag);
    if (all.empty() || !solved(with(all.back()), step_)) return;
    for (const Change& change : all)
      if (try_change(change, step_)) return;
  }

  /// Those that save more than what the plan has, in turn.
  std::vector<Change> values(const std::string& flag) const {
    const PlanRequest& r = misfit_.request;
    const Settings& has = misfit_.plan.settings;
    std::vector<Change> out;
    const auto offer = [&](std::string value) { out.push_back({{flag, std::move(value)}}); };
    if (flag == "--recompute" && has.recompute.modules.empty())
      for (RecomputeMode mode : {RecomputeMode::selected, RecomputeMode::full})
        if (mode > has.recompute.mode) offer(std::string(name_of(mode)));
    if (flag == "--optimizer-parallel" && r.devices > has.pipelining.stages)
      for (int level = has.optimizer_parallel.level + 1; level <= 3; ++level) offer(fmt::format("{}", level));
    if (flag == "--offload" && !has.offload.is_on())
      for (const char* what : {"optimizer", "optimizer,parameters", "optimizer,parameters,activations"})
        offer(what);
    const int parts = has.pipelining.micro_batches, stages = has.pipelining.stages;
    if (flag == "--micro-batches" && !r.kept_micro_batches &&
        !mixes_samples(step_(has.pipelining.batch_parts())))
      for (int factor : {2, 4, 8}) offer(fmt::format("{}", parts * factor));
    if (flag == "--stages" && !r.is_set && r.constraints.stages.empty() && !r.kept_micro_batches)
      for (int more = 2 * stages; more <= std::min(4 * stages, r.devices); more *= 2)
        out.push_back({{"--stages", fmt::format("{}", more)},
                       {"--micro-batches", fmt::format("{}", std::max(more, parts))}});
    return out;
  }

  /// All that --set has said is left to it, too.
  void try_other_search() {
    PlanRequest asked = misfit_.request;
    const bool is_set = std::exchange(asked.is_set, false);
    if (is_set) {
      asked.constraints.degrees.share(Sharing::batch, std::nullopt);
      asked.constraints.degrees.share(Sharing::sequence, std::nullopt);
      asked.constraints.degrees.share(Sharing::work, std::nullopt);
      asked.constraints.sequence_parallel.reset();
      asked.constraints.operators.clear();
      asked.constraints.stages.clear();
    }
    if (!fixed_singly(asked.constraints).empty()) return;
    asked.parallel = Parallel::auto_parallel;
    asked.search = usual_search().name;
    const SearchOptions& o = misfit_.request.options;
    asked.options = {.memory_cap = o.memory_cap, .most_seconds = o.most_seconds, .deadline = o.deadline};
    if (!is_set && search_for(misfit_.request).search->name == asked.search) return;
    const std::string change = fmt::format("--search {}{}", asked.search, is_set ? " without --set" : "");
    if (!is_late(change)) add(change, solved(asked, step_));
  }

  void try_precision() {
    const Precision& p = misfit_.request.origin.precision;
    const DType short_type = p.products.value_or(p.compute == DType::f16 ? DType::f16 : DType::bf16);
    if (!steps_ || p == Precision(short_type)) return;
    const Change change{{"--precision", shardwright::to_text(Precision(short_type))}};
    try_change(change, steps_(with(change).origin));
  }

  /// Whatever the plan.
  bool cannot_fit(int devices) {
    const Evaluation& e = misfit_.evaluation;
    if (e.estimate.framework != own_framework || misfit_.request.options.deadline.is_over()) return false;
    if (!least_of_one_) least_of_one_ = least_bytes(step_(misfit_.plan.settings.pipelining.batch_parts()), 1);
    return *least_of_one_ / devices > e.cap_bytes;
  }

  /// The smallest multiple that fits; what surely does not is passed over.
  void try_devices() {
    const PlanRequest& r = misfit_.request;
    if (r.is_set) return;  // they say how many there are
    const Evaluation& e = misfit_.evaluation;
    constexpr double most_saved = 1.5;  // by a better plan of as many devices
    for (int factor = 2; factor <= 64; factor *= 2) {
      const double share = static_cast<double>(e.estimate.arena_bytes) / factor;
      if (share > most_saved * static_cast<double>(e.cap_bytes)) continue;
      if (left_ <= 0 || (r.cluster && (!is_preset(*r.cluster) || !r.cluster->kinds.empty()))) return;
      const int devices = r.devices * factor;
      if (cannot_fit(devices)) continue;
      const Change change = r.cluster ? Change{{"--cluster", resized(*r.cluster, devices).name}}
                                      : Change{{"--devices", fmt::format("{}", devices)}};
      if (try_change(change, step_)) return;
    }
  }

  const Misfit& misfit_;
  const StepOf& step_;
  const StepsOf& steps_;
  int left_ = 0;                              // searches
  std::optional<std::int64_t> least_of_one_;  // bytes, if one device had all
  Remedies out_;
};

}  // namespace

Remedies remedies_for(const Misfit& misfit, const StepOf& step, const StepsOf& steps) {
  return Search(misfit, step, steps).run();
}

}  // namespace shardwright
