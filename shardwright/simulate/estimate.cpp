#include "shardwright/simulate/estimate.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <span>
#include <utility>

#include "shardwright/base/index.h"
#include "shardwright/lower/traffic.h"
#include "shardwright/passes/parameter_steps.h"
#include "shardwright/simulate/late_transfers.h"
#include "shardwright/simulate/simulation.h"
#include "shardwright/simulate/stage_prices.h"

namespace shardwright {
namespace {

/// To it and from it: levels of links behind those between devices.
constexpr int ways_to_host = 2;

Cluster devices_of(const Pipeline& pipeline, int group, const Cluster& whole) {
  return whole.part(pipeline.first_rank(group), pipeline.stage(group).rank_count());
}

/// The step of one rank of a group: its times for the simulation, and what these add up to.
class GroupFigures {
 public:
  GroupFigures(const Pipeline& pipeline, RankStep step, const Cluster& whole)
      : pipeline_(pipeline), cluster_(devices_of(pipeline, pipeline.group_of(step.rank), whole)) {
    timed_.overlap = cluster_.overlap;
    timed_.step = std::move(step);
    for (int stage : pipeline.stages_of(timed_.step.rank))
      prices_.try_emplace(stage, pipeline.stage(stage), stage, cluster_);
    for (const Section& section : timed_.step.sections) time(section);
    std::vector<int> level_of;  // of the cluster, by that of the group's own
    for (const LinkLevel& link : cluster_.links) level_of.push_back(level_in(whole, link));
    for (int way = 0; way < ways_to_host; ++way)
      level_of.push_back(static_cast<int>(whole.links.size()) + way);
    for (const PreparedTransfer& t : timed_.step.transfers)
      timed_.transfers.push_back({t.crossing < 0 ? parts_of(t, level_of) : std::vector<FlowPart>()});
  }

  GroupFigures(const GroupFigures&) = delete;
  GroupFigures& operator=(const GroupFigures&) = delete;

  const TimedStep& timed() const { return timed_; }
  /// With what others of its stage have to know.
  PieceEstimate of_piece(const SimulatedRank& ran) {
    for (const auto& [stage, prices] : prices_)
      parameters_.emplace(stage, parameter_steps(pipeline_.stage(stage).graph));
    Estimate all = of(ran);
    piece_.all = std::move(all);
    return std::move(piece_);
  }

  Estimate of(const SimulatedRank& ran) {
    out_.operators.resize(at(pipeline_.stage_count()));  // also of stages that compute nothing
    for (const Instruction& i : timed_.step.instructions)
      if (i.act == Act::run) add_section(timed_.step.section(i).phase, sections_[at(i.what)]);
    for (const SectionFigures& section : sections_)
      for (const OwnedSeconds& item : section.owned) add_owned(item, section.runs);
    for (const auto& [transfer, waited] : ran.waited) add_waiting(transfer, waited);
    for (Phase phase : {Phase::forward, Phase::backward, Phase::weights})
      for (auto* seconds : {&out_.phase_seconds, &out_.phase_compute_seconds})
        (*seconds)[phase] /= pipeline_.micro_batches();
    count_transfers();
    for (const auto& [stage, prices] : prices_) {
      const Program& program = pipeline_.stage(stage);
      add_leaves(program.graph);
      out_.peak_seconds += prices.peak_seconds() * pipeline_.micro_batches();
      out_.repeated_peak_seconds += prices.repeated_peak_seconds() * pipeline_.micro_batches();
      out_.host_bytes += program.host_bytes;
    }
    out_.arena_bytes = pipeline_.arena_bytes(timed_.step.rank);
    out_.memory = memory_use(pipeline_, timed_.step.rank);
    return std::move(out_);
  }

 private:
  /// What a section computes.
  struct SectionFigures {
    double compute = 0, recompute = 0;
    std::vector<OwnedSeconds> owned = {};  // the same, by whose work it is
    int runs = 0;
  };

  void time(const Section& section) {
    sections_.emplace_back();
    timed_.sections.emplace_back();
    const auto is_finish = [](const Instruction& i) { return i.act == Act::finish; };
    std::span<const Instruction> left = section.instructions;
    while (!left.empty()) {  // up to where ranks wait for each other
      const auto end = std::ranges::find_if(left.begin() + 1, left.end(), is_finish);
      const std::span<const Instruction> run(left.begin(), end);
      time(run, slowest_kind(run));
      left = left.subspan(run.size());
    }
  }

  void time(std::span<const Instruction> run, std::size_t kind) {
    SectionFigures& figures = sections_.back();
    std::vector<double>& seconds = timed_.sections.back().seconds;
    for (const Instruction& i : run) {
      seconds.push_back(0);
      if (i.act != Act::compute && i.act != Act::copy) continue;
      StagePrices& prices = prices_.at(i.stage);
      seconds.back() = prices.compute_seconds_of(i.what, kind, figures.owned);
      figures.compute += seconds.back();
      if (prices.graph().node({i.what}).is_recomputed) figures.recompute += seconds.back();
    }
  }

  /// Whose devices are done last with all of it.
  std::size_t slowest_kind(std::span<const Instruction> run) {
    std::vector<double> all(prices_.begin()->second.kind_count());
    if (all.size() == 1) return 0;
    for (const Instruction& i : run)
      for (std::size_t kind = 0; kind < all.size(); ++kind)
        if (i.act == Act::compute || i.act == Act::copy)
          all[kind] += prices_.at(i.stage).compute_seconds_of(i.what, kind);
    return static_cast<std::size_t>(std::ranges::max_element(all) - all.begin());
  }

  /// Starts and latencies, then its bytes level by level.
  std::vector<FlowPart> parts_of(const PreparedTransfer& t, const std::vector<int>& level_of) {
    StagePrices& prices = prices_.at(t.to_stage);
    double left = prices.seconds_of(t);
    if (left == 0) return {};
    std::vector<FlowPart> out{{-1, 0}};
    for (const LinkUse& use : prices.link_uses(t)) {
      out.push_back({level_of[at(use.level)], std::min(left, use.seconds)});
      left -= out.back().seconds;
    }
    out.front().seconds = left;
    return out;
  }

  void add_section(Phase phase, SectionFigures& section) {
    ++section.runs;
    out_.compute_seconds += section.compute;
    out_.recompute_seconds += section.recompute;
    out_.phase_seconds[phase] += section.compute;
    out_.phase_compute_seconds[phase] += section.compute;
  }

  void add_waiting(int transfer, const OfPhases<double>& waited) {
    double seconds = 0;
    for (Phase phase : {Phase::forward, Phase::backward, Phase::weights, Phase::update}) {
      seconds += waited[phase];
      out_.phase_seconds[phase] += waited[phase];
    }
    if (seconds == 0) return;
    out_.exposed_communication_seconds += seconds;
    const PreparedTransfer& t = timed_.step.transfers[at(transfer)];
    std::vector<OwnedSeconds> owned;
    prices_.at(t.to_stage).share(seconds, t, owned);
    for (const OwnedSeconds& item : owned) add_owned(item, 1);
  }

  void add_owned(const OwnedSeconds& item, int times) {
    StageSeconds& stage = out_.operators[at(item.stage)];
    if (item.owner.is_valid() && at(item.owner.index) >= stage.operators.size())
      stage.operators.resize(at(item.owner.index) + 1);
    OperatorSeconds& owner = item.owner.is_valid() ? stage.operators[at(item.owner.index)] : stage.others;
    owner.*item.what += times * item.seconds;
  }

  void count_transfers() {
    const std::vector<int> times = times_started(timed_.step);
    for (std::size_t t = 0; t < times.size(); ++t) {
      const PreparedTransfer& transfer = timed_.step.transfers[t];
      if (transfer.crossing >= 0) continue;
      StagePrices& prices = prices_.at(transfer.to_stage);
      const double seconds = times[t] * prices.seconds_of(transfer);
      if (is_of_host(transfer.kind())) {
        out_.host_seconds += seconds;
        for (const Part& part : transfer.parts)
          out_.host_bytes_moved += times[t] * prices.graph().value(part.to).type.bytes();
        continue;
      }
      out_.communication_seconds += seconds;
      const Graph& graph = prices.graph();
      const Node& node = graph.node(transfer.node);
      const bool is_of_update = node.phase == Phase::update;
      const Phase phase =
          is_of_update ? graph.node(graph.value(node.operands.front()).producer).phase : node.phase;
      out_.phase_communication_seconds[phase] += seconds;
      if (is_of_update && phase != Phase::update) piece_.late_seconds[phase] += seconds;
      if (!parameters_.empty()) count_starts(transfer, phase, times[t]);
      for (int n = 0; n < static_cast<int>(transfer.parts.size()); ++n) {
        const Node& part = graph.node({transfer.node.index + n});
        if (!is_transfer(part)) continue;
        out_.bytes_communicated += times[t] * prices.redistribution(part).bytes;
        out_.collectives[std::string(name_of(*part.op->step))] += times[t];
      }
    }
  }

  /// Of what `phase` has made, or reads.
  void count_starts(const PreparedTransfer& t, Phase phase, int times) {
    StagePrices& prices = prices_.at(t.to_stage);
    const Node& node = prices.graph().node(t.node);
    const auto [starting, moving, bytes] = prices.among_many(t);
    const Starts starts{starting, moving, bytes, prices.seconds_of(t),
                        bytes / static_cast<double>(most_bucket_bytes(cluster_.memory_bytes))};
    PieceStarts& all = piece_.starts;
    if (node.phase == Phase::update) return (phase == node.phase ? all.update : all.late).add(starts, times);
    if (!parameters_.at(t.to_stage)[at(t.node.index)].is_valid()) return;
    const bool is_gather = node.op->step == StepKind::all_gather;
    if (!is_gather && node.op->step != StepKind::reduce_scatter)
      return;  // what is summed whole is read at once
    if (!is_gather || moves_as_starts(moving, starting))
      (is_gather ? all.gathers[phase] : all.sums)
          .add(starts, static_cast<double>(times) / pipeline_.micro_batches());
  }

  void add_leaves(const Graph& graph) {
    for (const Node& node : graph.nodes) {
      const OpKind kind = node.op->kind;
      if (kind == OpKind::parameter) out_.parameter_bytes += graph.value(node.results[0]).type.bytes();
      if (kind == OpKind::state) out_.state_bytes += graph.value(node.results[0]).type.bytes();
    }
  }

  const Pipeline& pipeline_;
  Cluster cluster_;  // of the group's devices
  TimedStep timed_;
  std::map<int, StagePrices> prices_;  // by stage
  std::vector<SectionFigures> sections_;
  Estimate out_;
  std::map<int, std::vector<ValueId>> parameters_;  // by stage and node; asked for a piece
  PieceEstimate piece_;
};

/// The fastest links that join all devices of two groups.
int level_between(const Pipeline& pipeline, int a, int b, const Cluster& cluster) {
  const int first = pipeline.first_rank(std::min(a, b)), other = std::max(a, b);
  const int last = pipeline.first_rank(other) + pipeline.stage(other).rank_count() - 1;
  int level = 0;
  while (first / cluster.links[at(level)].devices != last / cluster.links[at(level)].devices) ++level;
  return level;
}

std::vector<TimedCrossing> timed_crossings(const Pipeline& pipeline, const Cluster& cluster) {
  std::vector<TimedCrossing> out;
  for (const PlacedCrossing& c : pipeline.crossings) {
    TimedCrossing& timed = out.emplace_back();
    timed.from = pipeline.pipelining.stage_of(c.from), timed.to = pipeline.pipelining.stage_of(c.to);
    if (timed.from == timed.to) continue;  // chunks of the same devices
    const int level = level_between(pipeline, timed.from, timed.to, cluster);
    const LinkLevel& link = cluster.links[at(level)];
    const auto bytes = static_cast<double>(pipeline.stage(c.to).graph.value(c.received).type.bytes());
    timed.parts = {{-1, link.start_seconds + link.latency_seconds},
                   {level, bytes / (link.bytes_per_second * cluster.link_efficiency)}};
  }
  return out;
}

std::deque<GroupFigures> groups_of(const Pipeline& pipeline, const Cluster& cluster) {
  std::deque<GroupFigures> out;
  for (RankStep& step : steps_of_stages(pipeline)) out.emplace_back(pipeline, std::move(step), cluster);
  return out;
}

std::vector<SimulatedRank> simulated(const std::deque<GroupFigures>& groups, const Pipeline& pipeline,
                                     const Cluster& cluster, bool with_events) {
  std::vector<const TimedStep*> ranks;
  for (const GroupFigures& group : groups) ranks.push_back(&group.timed());
  return simulate(
      ranks, timed_crossings(pipeline, cluster),
      {.levels = static_cast<int>(cluster.links.size()) + ways_to_host, .with_events = with_events});
}

/// Adds to each group of devices what the rank of it that receives most gets from other stages.
void add_crossings(std::vector<Estimate>& groups, const Pipeline& pipeline) {
  std::vector<std::int64_t> received(at(pipeline.rank_count()), 0);
  for (const PlacedCrossing& c : pipeline.crossings) {
    const int group = pipeline.pipelining.stage_of(c.to);
    if (group == pipeline.pipelining.stage_of(c.from)) continue;
    const int times = c.time == CrossingTime::micro_batch ? pipeline.micro_batches() : 1;
    groups[at(group)].collectives["receive"] += times;
    // A rank has nothing of it before: it receives all that it holds then.
    const Placement to = placement_of(pipeline, c.to, c.received);
    const Type type = pipeline.stage(c.to).graph.value(c.received).global_type();
    const auto size = static_cast<std::int64_t>(size_of(type.dtype));
    for (int rank = to.first_rank; to.has(rank); ++rank)
      received[at(rank)] += times * size * element_count(to.box_on(rank, type.shape).extent);
  }
  std::vector<std::int64_t> most(groups.size(), 0);
  for (int rank = 0; rank < pipeline.rank_count(); ++rank) {
    std::int64_t& of_group = most[at(pipeline.group_of(rank))];
    of_group = std::max(of_group, received[at(rank)]);
  }
  for (std::size_t g = 0; g < groups.size(); ++g) groups[g].bytes_communicated += most[g];
}

}  // namespace

Estimate estimate(const Pipeline& pipeline, const Cluster& cluster) {
  std::deque<GroupFigures> groups = groups_of(pipeline, cluster);
  const std::vector<SimulatedRank> ran = simulated(groups, pipeline, cluster, false);
  std::vector<Estimate> stages;
  for (std::size_t g = 0; g < ran.size(); ++g) stages.push_back(groups[g].of(ran[g]));
  if (stages.size() == 1) return std::move(stages.front());
  add_crossings(stages, pipeline);
  const auto longest = std::max_element(
      stages.begin(), stages.end(),
      [](const Estimate& a, const Estimate& b) { return a.step_seconds() < b.step_seconds(); });
  const auto largest =
      std::max_element(stages.begin(), stages.end(),
                       [](const Estimate& a, const Estimate& b) { return a.arena_bytes < b.arena_bytes; });
  Estimate out = *longest;
  out.bubble_seconds = std::ranges::max(ran, {}, &SimulatedRank::end).end - out.step_seconds();
  out.parameter_bytes = largest->parameter_bytes;
  out.state_bytes = largest->state_bytes;
  out.arena_bytes = largest->arena_bytes;
  const Estimate& on_host = std::ranges::max(stages, {}, &Estimate::host_bytes);
  out.host_bytes = on_host.host_bytes;
  out.host_bytes_moved = on_host.host_bytes_moved;
  out.host_seconds = on_host.host_seconds;
  out.memory = largest->memory;
  for (const Estimate& stage : stages) {  // of the rank with most, as the runtime counts
    out.bytes_communicated = std::max(out.bytes_communicated, stage.bytes_communicated);
    for (const auto& [kind, count] : stage.collectives)
      out.collectives[kind] = std::max(out.collectives[kind], count);
  }
  out.peak_seconds = out.repeated_peak_seconds = 0;
  for (int s = 0; s < pipeline.stage_count(); ++s)
    out.operators[at(s)] = stages[at(pipeline.pipelining.stage_of(s))].operators[at(s)];
  for (int s = 0; s < pipeline.group_count(); ++s) {
    const double share = static_cast<double>(pipeline.stage(s).rank_count()) / pipeline.rank_count();
    out.peak_seconds += stages[at(s)].peak_seconds * share;
    out.repeated_peak_seconds += stages[at(s)].repeated_peak_seconds * share;
  }
  const double end = out.step_seconds();
  for (Estimate& stage : stages) stage.bubble_seconds = end - stage.step_seconds();
  out.stages = std::move(stages);
  return out;
}

Estimate estimate(Program program, const Cluster& cluster) {
  return estimate(Pipeline(std::move(program)), cluster);
}

PieceEstimate estimate_piece(Program program, const Cluster& cluster) {
  const Pipeline pipeline(std::move(program));
  std::deque<GroupFigures> groups = groups_of(pipeline, cluster);
  const std::vector<SimulatedRank> ran = simulated(groups, pipeline, cluster, false);
  return groups.front().of_piece(ran.front());
}

std::span<const Estimate> stages_of(const Estimate& e) {
  return e.stages.empty() ? std::span(&e, 1) : std::span<const Estimate>(e.stages);
}

std::vector<SimulatedRank> simulated_ranks(const Pipeline& pipeline, const Cluster& cluster) {
  return simulated(groups_of(pipeline, cluster), pipeline, cluster, true);
}

StepTrace trace_of(const std::vector<SimulatedRank>& ranks, const Pipeline& pipeline) {
  StepTrace out{std::vector<std::vector<TraceEvent>>(at(pipeline.rank_count()))};
  const auto nanoseconds = [](double seconds) { return std::llround(seconds * 1e9); };
  for (const SimulatedRank& ran : ranks) {
    std::vector<TraceEvent>& events = out.ranks[at(ran.rank)];
    for (const SimulatedEvent& e : ran.events)
      events.push_back(
          {nanoseconds(e.begin), nanoseconds(e.end), e.instruction, Activity::instruction, e.phase});
    events.push_back({0, nanoseconds(ran.end), {}, Activity::step, Phase::forward});
  }
  return out;
}

StepTrace simulated_trace(const Pipeline& pipeline, const Cluster& cluster) {
  return trace_of(simulated_ranks(pipeline, cluster), pipeline);
}

}  // namespace shardwright
