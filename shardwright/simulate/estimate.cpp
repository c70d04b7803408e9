#include "shardwright/simulate/estimate.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "shardwright/lower/traffic.h"
#include "shardwright/simulate/stage_prices.h"
#include "shardwright/simulate/timeline.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Transfers one at a time, in the order in which they start; but one that compute waits for comes first.
class Transfers {
 public:
  Transfers(double overlap, std::size_t transfers) : seconds_left_(transfers, 0), overlap_(overlap) {}

  void start(int transfer, double seconds) {
    queue_.push_back(transfer);
    seconds_left_[at(transfer)] = seconds;
  }

  /// While compute works.
  void run_beside(double seconds) {
    double left = seconds * overlap_;
    while (!queue_.empty() && left > 0) {
      double& of_first = seconds_left_[at(queue_.front())];  // 0 if compute has waited for it
      const double done = std::min(left, of_first);
      left -= done;
      of_first -= done;
      if (of_first > 0) break;
      queue_.pop_front();
    }
  }

  /// Seconds until it is done.
  double wait_for(int transfer) { return std::exchange(seconds_left_[at(transfer)], 0); }

 private:
  std::deque<int> queue_;
  std::vector<double> seconds_left_;  // by transfer
  double overlap_;
};

/// Bytes of both, and what is largest in either.
void add(MemoryUse& to, const MemoryUse& other) {
  const std::size_t most = std::max(to.largest.size(), other.largest.size());
  for (std::size_t k = 0; k < memory_kinds; ++k) to.bytes[k] += other.bytes[k];
  to.largest.insert(to.largest.end(), other.largest.begin(), other.largest.end());
  std::ranges::stable_sort(to.largest, std::ranges::greater(), &MemoryConsumer::bytes);
  to.largest.resize(most);
}

/// Walks over the step of a rank and adds up what its instructions take.
class Walk {
 public:
  Walk(const Pipeline& pipeline, const RankStep& step, const Cluster& cluster)
      : pipeline_(pipeline), step_(step), transfers_(cluster.overlap, step.transfers.size()) {
    for (int stage : pipeline.stages_of(step.rank))
      prices_.try_emplace(stage, pipeline.stage(stage), stage, cluster);
  }

  /// Times the sections, each once: what is alike for all micro-batches takes as long.
  Estimate run(std::vector<TimedSection>& sections) {
    for (const Section& section : step_.sections) sections.push_back(timed(section));
    for (const Instruction& i : step_.instructions)
      if (i.act == Act::run) add_figures(step_.section(i).phase, figures_[at(i.what)]);
    for (const Figures& figures : figures_) add_owned(figures);
    for (Phase phase : {Phase::forward, Phase::backward})
      out_.phase_seconds[static_cast<std::size_t>(phase)] /= pipeline_.micro_batches();
    count_transfers();
    for (const auto& [stage, prices] : prices_) {
      const Program& program = pipeline_.stage(stage);
      add_leaves(program.graph);
      out_.peak_seconds += prices.peak_seconds() * pipeline_.micro_batches();
      out_.arena_bytes += program.arena_bytes;
      add(out_.memory, memory_use(program));
    }
    return std::move(out_);
  }

 private:
  /// Seconds of a section.
  struct Figures {
    double compute = 0, recompute = 0, exposed = 0;
    std::vector<OwnedSeconds> owned = {};  // the same, by whose work it is
    int runs = 0;
  };

  TimedSection timed(const Section& section) {
    TimedSection out;
    Figures& figures = figures_.emplace_back();
    for (const Instruction& i : section.instructions) {
      const bool is_transfer = i.act == Act::start || i.act == Act::finish;
      if (is_transfer && step_.transfer(i).crossing >= 0)
        out.crossings.push_back({out.seconds, i});
      else
        out.seconds += seconds_of(i, figures);
    }
    return out;
  }

  double seconds_of(const Instruction& i, Figures& figures) {
    switch (i.act) {
      case Act::start: transfers_.start(i.what, prices_.at(i.stage).seconds_of(step_.transfer(i))); return 0;
      case Act::finish: {
        const double seconds = transfers_.wait_for(i.what);
        figures.exposed += seconds;
        if (seconds > 0) prices_.at(i.stage).share(seconds, step_.transfer(i), figures.owned);
        return seconds;
      }
      case Act::compute:
      case Act::copy: {
        StagePrices& prices = prices_.at(i.stage);
        const double seconds = prices.compute_seconds_of(i.what, figures.owned);
        figures.compute += seconds;
        if (prices.graph().node({i.what}).is_recomputed) figures.recompute += seconds;
        transfers_.run_beside(seconds);
        return seconds;
      }
      default: return 0;
    }
  }

  void add_figures(Phase phase, Figures& figures) {
    ++figures.runs;
    out_.compute_seconds += figures.compute;
    out_.recompute_seconds += figures.recompute;
    out_.exposed_communication_seconds += figures.exposed;
    out_.phase_seconds[static_cast<std::size_t>(phase)] += figures.compute + figures.exposed;
  }

  void add_owned(const Figures& figures) {
    out_.operators.resize(at(pipeline_.stage_count()));
    for (const OwnedSeconds& item : figures.owned) {
      StageSeconds& stage = out_.operators[at(item.stage)];
      if (item.owner.is_valid() && at(item.owner.index) >= stage.operators.size())
        stage.operators.resize(at(item.owner.index) + 1);
      OperatorSeconds& owner = item.owner.is_valid() ? stage.operators[at(item.owner.index)] : stage.others;
      owner.*item.what += figures.runs * item.seconds;
    }
  }

  void count_transfers() {
    const std::vector<int> times = times_started(step_);
    for (std::size_t t = 0; t < step_.transfers.size(); ++t) {
      const PreparedTransfer& transfer = step_.transfers[t];
      if (transfer.crossing >= 0) continue;
      StagePrices& prices = prices_.at(transfer.to_stage);
      out_.communication_seconds += times[t] * prices.seconds_of(transfer);
      for (int n = 0; n < static_cast<int>(transfer.parts.size()); ++n) {
        const Node& node = prices.graph().node({transfer.node.index + n});
        if (!is_transfer(node)) continue;
        out_.bytes_communicated += times[t] * prices.redistribution(node).bytes;
        out_.collectives[std::string(name_of(*node.op->step))] += times[t];
      }
    }
  }

  void add_leaves(const Graph& graph) {
    for (const Node& node : graph.nodes) {
      const OpKind kind = node.op->kind;
      if (kind == OpKind::parameter) out_.parameter_bytes += graph.value(node.results[0]).type.bytes();
      if (kind == OpKind::state) out_.state_bytes += graph.value(node.results[0]).type.bytes();
    }
  }

  const Pipeline& pipeline_;
  const RankStep& step_;
  Transfers transfers_;
  std::map<int, StagePrices> prices_;  // by stage
  std::vector<Figures> figures_;       // by section
  Estimate out_;
};

/// Seconds until what crosses is on the other side.
std::vector<double> crossing_seconds(const Pipeline& pipeline, const Cluster& cluster) {
  const LinkLevel& link = cluster.links.back();
  std::vector<double> out;
  for (const PlacedCrossing& c : pipeline.crossings) {
    if (pipeline.first_rank(c.from) == pipeline.first_rank(c.to)) {  // chunks of the same devices
      out.push_back(0);
      continue;
    }
    const auto bytes = static_cast<double>(pipeline.stage(c.to).graph.value(c.received).type.bytes());
    out.push_back(link.start_seconds + link.latency_seconds +
                  bytes / (link.bytes_per_second * cluster.link_efficiency));
  }
  return out;
}

/// Adds to each group of devices what the rank of it that receives most gets from other stages.
void add_crossings(std::vector<Estimate>& groups, const Pipeline& pipeline) {
  std::vector<std::int64_t> received(at(pipeline.rank_count()), 0);
  for (const PlacedCrossing& c : pipeline.crossings) {
    const int group = c.to % pipeline.group_count();
    if (group == c.from % pipeline.group_count()) continue;
    const int times = c.time == CrossingTime::micro_batch ? pipeline.micro_batches() : 1;
    const auto size =
        static_cast<std::int64_t>(size_of(pipeline.stage(c.to).graph.value(c.received).type.dtype));
    groups[at(group)].collectives["receive"] += times;
    for (const auto& [rank, transfer] : pipeline.transfers_of(c)) {
      if (!pipeline.has(c.to, rank)) continue;
      for (const Piece& piece : transfer.pieces)
        received[at(rank)] += times * element_count(piece.extent) * size;
    }
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
  std::vector<Estimate> stages;
  std::vector<TimedStep> ranks;
  for (RankStep& step : steps_of_stages(pipeline)) {
    TimedStep& timed = ranks.emplace_back(TimedStep{std::move(step), {}});
    const int group = pipeline.group_of(timed.step.rank);
    const Cluster own = cluster.part(pipeline.first_rank(group), pipeline.stage(group).rank_count());
    stages.push_back(Walk(pipeline, timed.step, own).run(timed.sections));
  }
  if (stages.size() == 1) return std::move(stages.front());
  add_crossings(stages, pipeline);
  const std::vector<double> ends = ends_of(ranks, crossing_seconds(pipeline, cluster));
  const auto longest = std::max_element(
      stages.begin(), stages.end(),
      [](const Estimate& a, const Estimate& b) { return a.step_seconds() < b.step_seconds(); });
  const auto largest =
      std::max_element(stages.begin(), stages.end(),
                       [](const Estimate& a, const Estimate& b) { return a.arena_bytes < b.arena_bytes; });
  Estimate out = *longest;
  out.bubble_seconds = *std::max_element(ends.begin(), ends.end()) - out.step_seconds();
  out.parameter_bytes = largest->parameter_bytes;
  out.state_bytes = largest->state_bytes;
  out.arena_bytes = largest->arena_bytes;
  out.memory = largest->memory;
  for (const Estimate& stage : stages) {  // of the rank with most, as the runtime counts
    out.bytes_communicated = std::max(out.bytes_communicated, stage.bytes_communicated);
    for (const auto& [kind, count] : stage.collectives)
      out.collectives[kind] = std::max(out.collectives[kind], count);
  }
  out.peak_seconds = 0;
  for (int s = 0; s < pipeline.stage_count(); ++s)
    out.operators[at(s)] = stages[at(s % pipeline.group_count())].operators[at(s)];
  for (int s = 0; s < pipeline.group_count(); ++s)
    out.peak_seconds += stages[at(s)].peak_seconds * pipeline.stage(s).rank_count() / pipeline.rank_count();
  out.stages = std::move(stages);
  return out;
}

Estimate estimate(Program program, const Cluster& cluster) {
  return estimate(Pipeline(std::move(program)), cluster);
}

}  // namespace shardwright
