#include "shardwright/runtime/comparison.h"

#include <algorithm>
#include <map>
#include <utility>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"
#include "shardwright/lower/traffic.h"
#include "shardwright/simulate/estimate.h"
#include "shardwright/simulate/stage_prices.h"
#include "shardwright/simulate/step_parts.h"

namespace shardwright {
namespace {

/// Parts by name, in the order in which they come first.
class Parts {
 public:
  ComparedPart& operator[](std::string_view name) {
    const auto [known, is_new] = places_.try_emplace(std::string(name), parts_.size());
    if (is_new) parts_.push_back({.name = std::string(name)});
    return parts_[known->second];
  }
  const std::vector<ComparedPart>& parts() const { return parts_; }
  std::vector<ComparedPart> all() && { return std::move(parts_); }
  /// The longest first.
  std::vector<ComparedPart> sorted() && {
    std::ranges::stable_sort(parts_, [](const ComparedPart& a, const ComparedPart& b) {
      return a.measured_seconds + a.predicted_seconds > b.measured_seconds + b.predicted_seconds;
    });
    return std::move(parts_);
  }

 private:
  std::map<std::string, std::size_t> places_;
  std::vector<ComparedPart> parts_;
};

/// The recorded step of median length.
int median_step(const std::map<int, Interval>& steps) {
  if (steps.empty()) throw error("no step was recorded to compare with what was predicted");
  std::vector<std::pair<std::int64_t, int>> lengths;
  for (const auto& [number, interval] : steps) lengths.emplace_back(interval.end - interval.begin, number);
  std::ranges::sort(lengths);
  return lengths[(lengths.size() - 1) / 2].second;
}

/// Events of a rank in step `number`, without that of the step itself.
std::vector<TraceEvent> events_in(const std::vector<TraceEvent>& events, int number) {
  std::vector<TraceEvent> out;
  for (const TraceEvent& e : events) {
    if (e.activity != Activity::step)
      out.push_back(e);
    else if (e.instruction.what == number)
      return out;
    else
      out.clear();
  }
  return {};
}

/// Others are numbers, which tell nothing where kernels lie in other formats.
bool is_named(std::string_view node) { return !node.empty() && node.front() != '%' && node.front() != '_'; }

class Comparing {
 public:
  explicit Comparing(const Pipeline& pipeline) : pipeline_(pipeline) {
    for (const auto& [name, part] : step_parts) terms_[name];  // in their order
    for (int g = 0; g < pipeline.group_count(); ++g)
      stages_.push_back({.name = pipeline.group_count() > 1 ? fmt::format("stage {}", g) : "devices"});
  }

  void add_measured(const StepTrace& trace) {
    const std::map<int, Interval> steps = steps_of(trace);
    const int number = median_step(steps);
    const double whole = steps.at(number).seconds();
    const std::vector<RankStep> lists = steps_of(pipeline_);
    out_.step.measured_seconds = whole;
    for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
      double known = 0;
      const int group = pipeline_.group_of(static_cast<int>(rank));
      for (const TraceEvent& e : events_in(trace.ranks[rank], number))
        known += add(e, lists[rank], 1.0 / pipeline_.rank_count(), group);
      (pipeline_.stage_count() > 1 ? out_.bubble : out_.others).measured_seconds +=
          (whole - known) / pipeline_.rank_count();
    }
  }

  void add_measured(const MeasuredRanks& step) {
    check_is_of_plan(step);
    out_.step.measured_seconds = step.seconds;
    const double share = 1.0 / pipeline_.rank_count();
    for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
      double known = 0;
      const int group = pipeline_.group_of(static_cast<int>(rank));
      for (const RecordedSpan& s : step.ranks[rank]) {
        known += s.seconds();
        part_of(s).measured_seconds += share * s.seconds();
        if (s.category == "compute")
          for (ComparedPart* term : terms_of(s)) term->measured_seconds += share * s.seconds();
        if (s.category == "compute" || s.category == "exposed")
          stages_[at(group)].measured_seconds += share * s.seconds();
      }
      (pipeline_.stage_count() > 1 ? out_.bubble : out_.others).measured_seconds +=
          share * (step.seconds - known);
    }
  }

  void add_predicted(const Cluster& cluster) {
    const Estimate all = estimate(pipeline_, cluster);
    out_.step.predicted_seconds = all.step_seconds();
    double busy = 0;
    for (const RankStep& step : steps_of_stages(pipeline_)) {
      const int group = pipeline_.group_of(step.rank);
      const Estimate& own = all.stages.empty() ? all : all.stages[at(group)];
      const double share = static_cast<double>(pipeline_.stage(group).rank_count()) / pipeline_.rank_count();
      const Cluster part = cluster.part(pipeline_.first_rank(group), pipeline_.stage(group).rank_count());
      std::map<int, StagePrices> prices;
      for (int stage : pipeline_.stages_of(step.rank))
        prices.try_emplace(stage, pipeline_.stage(stage), stage, part);
      add_kernels(step, prices, share);
      add_transfers(step, prices, share, own.exposed_communication_seconds);
      const double of_group = own.compute_seconds + own.exposed_communication_seconds;
      stages_[at(group)].predicted_seconds = of_group;
      busy += share * of_group;
    }
    out_.bubble.predicted_seconds = out_.step.predicted_seconds - busy;
  }

  StepComparison result() && {
    add_terms();
    out_.terms = std::move(terms_).all();
    out_.operators = std::move(operators_).sorted();
    out_.collectives = std::move(collectives_).sorted();
    for (int g = 0; g < pipeline_.group_count(); ++g)
      stages_[at(g)].measured_seconds *=
          static_cast<double>(pipeline_.rank_count()) / pipeline_.stage(g).rank_count();
    out_.stages = std::move(stages_);
    return std::move(out_);
  }

 private:
  /// Its seconds, if it is a part of its own.
  double add(const TraceEvent& e, const RankStep& step, double share, int group) {
    ComparedPart* part = part_of(e, step);
    if (!part) return 0;
    part->measured_seconds += share * e.seconds();
    if (const Instruction& i = e.instruction;
        e.activity != Activity::progress && (i.act == Act::compute || i.act == Act::copy))
      for (ComparedPart* term : terms_of(i)) term->measured_seconds += share * e.seconds();
    if (part != &out_.bubble && part != &out_.others)
      stages_[at(group)].measured_seconds += share * e.seconds();
    return e.seconds();
  }

  ComparedPart* part_of(const TraceEvent& e, const RankStep& step) {
    const Instruction& i = e.instruction;
    if (e.activity == Activity::progress) return &collectives_["moved on beside compute"];
    switch (i.act) {
      case Act::run: return nullptr;  // what it holds has events of its own
      case Act::compute:
      case Act::copy: return &operators_[operator_of(i)];
      case Act::start:
      case Act::finish: {
        const PreparedTransfer& t = step.transfer(i);
        return t.crossing >= 0 ? &out_.bubble : &collectives_[name_of(t.kind())];
      }
      default: return &out_.others;
    }
  }

  const Node& node_of(const Instruction& i) const { return pipeline_.stage(i.stage).graph.node({i.what}); }

  /// What a kernel is for.
  std::vector<ComparedPart*> terms_of(const Instruction& i) {
    const Node& node = node_of(i);
    if (node.is_recomputed) return {&terms_["recompute"]};
    if (node.phase == Phase::update) return {&terms_["compute"], &out_.update};
    return {&terms_["compute"]};
  }

  /// Throws: Error if it has other ranks, or kernels of no operator that the plan has.
  void check_is_of_plan(const MeasuredRanks& step) {
    if (static_cast<int>(step.ranks.size()) != pipeline_.rank_count())
      throw error("is of {} ranks, but the plan of {}", step.ranks.size(), pipeline_.rank_count());
    for (int s = 0; s < pipeline_.stage_count(); ++s)
      for (const Node& node : pipeline_.stage(s).graph.nodes)
        for (const ValueId result : node.results)
          by_name_.try_emplace(pipeline_.stage(s).graph.value(result).name, &node);
    for (const auto& spans : step.ranks)
      for (const RecordedSpan& s : spans)
        if (s.category == "compute" && is_named(s.node) && !by_name_.contains(s.node))
          throw error("has a kernel {}, which the plan has not: it is of another plan", s.node);
  }

  ComparedPart& part_of(const RecordedSpan& s) {
    if (s.category == "compute") return operators_[s.what];
    if (s.category == "exposed") return collectives_[s.what.empty() ? "collectives" : s.what];
    return s.category == "bubble" ? out_.bubble : out_.others;
  }

  std::vector<ComparedPart*> terms_of(const RecordedSpan& s) {
    const auto node = by_name_.find(s.node);
    if (node != by_name_.end() && node->second->is_recomputed) return {&terms_["recompute"]};
    if (s.phase == name_of(Phase::update)) return {&terms_["compute"], &out_.update};
    return {&terms_["compute"]};
  }

  /// All that is no kernel's.
  void add_terms() {
    const auto add_to = [](ComparedPart& term, const ComparedPart& part) {
      term.measured_seconds += part.measured_seconds;
      term.predicted_seconds += part.predicted_seconds;
    };
    for (const ComparedPart& part : collectives_.parts()) add_to(terms_["communication"], part);
    add_to(terms_["bubble"], out_.bubble);
    add_to(terms_["other"], out_.others);
  }

  const std::string& operator_of(const Instruction& i) const { return node_of(i).op->name; }

  void add_kernels(const RankStep& step, std::map<int, StagePrices>& prices, double share) {
    for (const Instruction& run : step.instructions) {
      if (run.act != Act::run) continue;
      for (const Instruction& i : step.section(run).instructions) {
        if (i.act != Act::compute && i.act != Act::copy) continue;
        ComparedPart& part = operators_[operator_of(i)];
        part.count += share;
        const double seconds = share * prices.at(i.stage).mean_compute_seconds_of(i.what);
        part.predicted_seconds += seconds;
        for (ComparedPart* term : terms_of(i)) term->predicted_seconds += seconds;
      }
    }
  }

  /// The exposed seconds, shared by what the transfers take.
  void add_transfers(const RankStep& step, std::map<int, StagePrices>& prices, double share, double exposed) {
    const std::vector<int> times = times_started(step);
    std::map<std::string_view, double> seconds;
    double all = 0;
    for (std::size_t t = 0; t < step.transfers.size(); ++t) {
      const PreparedTransfer& transfer = step.transfers[t];
      if (transfer.crossing >= 0 || !is_collective(transfer.kind())) continue;
      const double own = times[t] * prices.at(transfer.to_stage).seconds_of(transfer);
      ComparedPart& part = collectives_[name_of(transfer.kind())];
      part.count += share * times[t];
      seconds[name_of(transfer.kind())] += own;
      all += own;
    }
    for (const auto& [kind, own] : seconds)
      if (all > 0) collectives_[kind].predicted_seconds += share * exposed * own / all;
  }

  const Pipeline& pipeline_;
  Parts operators_, collectives_, terms_;
  std::vector<ComparedPart> stages_;
  std::map<std::string, const Node*> by_name_;  // of what was recorded elsewhere
  StepComparison out_;
};

}  // namespace

StepComparison compared(const Pipeline& pipeline, const Cluster& cluster, const StepTrace& trace) {
  Comparing comparing(pipeline);
  comparing.add_measured(trace);
  comparing.add_predicted(cluster);
  return std::move(comparing).result();
}

StepComparison compared(const Pipeline& pipeline, const Cluster& cluster, const MeasuredRanks& step) {
  Comparing comparing(pipeline);
  comparing.add_measured(step);
  comparing.add_predicted(cluster);
  return std::move(comparing).result();
}

StepComparison predicted(const Pipeline& pipeline, const Cluster& cluster) {
  Comparing comparing(pipeline);
  comparing.add_predicted(cluster);
  return std::move(comparing).result();
}

}  // namespace shardwright
