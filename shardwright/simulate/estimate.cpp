#include "shardwright/simulate/estimate.h"

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>
#include <utility>

#include "shardwright/lower/traffic.h"
#include "shardwright/simulate/kernel_work.h"
#include "shardwright/simulate/timeline.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Equal calls are read once.
class CallWorks {
 public:
  const CallWork& of(const Graph& graph, const Node& node) {
    Key key{node.op, operand_types(graph, node), result_types(graph, node), node.attributes};
    const auto known = works_.find(key);
    if (known != works_.end()) return known->second;
    const Rule rule = rule_of(*node.op, {key.operands, key.results, key.attributes});
    return works_.emplace(std::move(key), call_work(*node.op, rule)).first->second;
  }

 private:
  struct Key {
    const OpDef* op;
    std::vector<Type> operands, results;
    Attributes attributes;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      std::size_t h = std::hash<const OpDef*>()(key.op);
      for (const auto* types : {&key.operands, &key.results})
        for (const Type& t : *types)
          for (std::int64_t d : t.shape) h = h * 1000003 + static_cast<std::size_t>(d);
      return h;
    }
  };
  std::unordered_map<Key, CallWork, KeyHash> works_;
};

/// Seconds of compute, fusion by fusion.
class Compute {
 public:
  Compute(const Program& program, const Cluster& cluster)
      : program_(program), graph_(program.graph), cluster_(cluster) {}

  /// Nodes that run together move each value between cache and memory once, and those only they use never. The first
  /// decides by its rule what limits them: the others are point-wise.
  double seconds(const Fusion& fusion) {
    if (is_free(fusion)) return 0;
    Work work{.dtype = dtype_of(graph_.node(fusion.begin))};
    moved_.clear();
    for (NodeId id = fusion.begin; id < fusion.end; ++id.index) {
      const Node& node = graph_.node(id);
      const CallWork& call = works_.of(graph_, node);
      if (id == fusion.begin) work.kind = call.kind;
      if (call.kind != WorkKind::streaming && !node.is_recomputed)
        peak_seconds_ += call.flops / cluster_.flops_per_second.of(dtype_of(node)) / program_.rank_count();
      const double flops = call.flops * share_of(graph_, node);
      work.flops += flops;
      work.bytes +=
          bytes_moved(graph_, node, flops, moved_, [this](ValueId v) { return place(v) != no_place; });
    }
    return compute_seconds(work, cluster_);
  }

  double peak_seconds() const { return peak_seconds_; }

 private:
  std::int64_t place(ValueId v) const { return program_.offsets[at(v.index)]; }
  DType dtype_of(const Node& node) const { return graph_.value(node.results.front()).type.dtype; }

  /// An operand seen otherwise, where it lies.
  bool is_free(const Fusion& fusion) const {
    const Node& node = graph_.node(fusion.begin);
    return fusion.size() == 1 && node.op->is_alias &&
           place(node.operands.front()) == place(node.results.front());
  }

  const Program& program_;
  const Graph& graph_;
  const Cluster& cluster_;
  CallWorks works_;
  std::vector<ValueId> moved_;
  double peak_seconds_ = 0;
};

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

bool is_transfer(const Node& node) { return node.op->kind == OpKind::step && !is_local(*node.op->step); }

/// What prices the nodes of a stage.
class Prices {
 public:
  Prices(const Program& program, const Cluster& cluster)
      : graph_(program.graph),
        compute_(program, cluster),
        redistributor_(redistributor_for(graph_.meshes, cluster)) {
    for (const Fusion& f : fusions_of(graph_)) ends_.emplace(f.begin.index, f.end);
  }

  const Graph& graph() const { return graph_; }
  double peak_seconds() const { return compute_.peak_seconds(); }

  /// Of the fusion that begins with node `first`.
  double compute_seconds_of(int first) {
    const auto [known, is_new] = compute_seconds_.try_emplace(first);
    if (is_new) known->second = compute_.seconds({{first}, ends_.at(first)});
    return known->second;
  }

  /// Of the steps that run as one: they start as one. Local ones take none.
  double seconds_of(const PreparedTransfer& t) {
    double seconds = 0;
    for (int n = 0; n < static_cast<int>(t.parts.size()); ++n) {
      const Node& node = graph_.node({t.node.index + n});
      if (!is_transfer(node)) return 0;
      seconds += redistribution(node).seconds;
      if (n > 0) seconds -= redistributor_.latency(step_of(graph_, node));
    }
    return seconds;
  }
  const Redistribution& redistribution(const Node& node) {
    return redistribution_of(graph_, node, redistributor_);
  }

 private:
  const Graph& graph_;
  Compute compute_;
  Redistributor redistributor_;
  std::unordered_map<int, NodeId> ends_;             // of fusions, by their first node
  std::unordered_map<int, double> compute_seconds_;  // likewise
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
      prices_.try_emplace(stage, pipeline.stage(stage), cluster);
  }

  /// Times the sections, each once: what is alike for all micro-batches takes as long.
  Estimate run(std::vector<TimedSection>& sections) {
    for (const Section& section : step_.sections) sections.push_back(timed(section));
    for (const Instruction& i : step_.instructions)
      if (i.act == Act::run) add_figures(step_.section(i).phase, figures_[at(i.what)]);
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
        return seconds;
      }
      case Act::compute:
      case Act::copy: {
        Prices& prices = prices_.at(i.stage);
        const double seconds = prices.compute_seconds_of(i.what);
        figures.compute += seconds;
        if (prices.graph().node({i.what}).is_recomputed) figures.recompute += seconds;
        transfers_.run_beside(seconds);
        return seconds;
      }
      default: return 0;
    }
  }

  void add_figures(Phase phase, const Figures& figures) {
    out_.compute_seconds += figures.compute;
    out_.recompute_seconds += figures.recompute;
    out_.exposed_communication_seconds += figures.exposed;
    out_.phase_seconds[static_cast<std::size_t>(phase)] += figures.compute + figures.exposed;
  }

  void count_transfers() {
    const std::vector<int> times = times_started(step_);
    for (std::size_t t = 0; t < step_.transfers.size(); ++t) {
      const PreparedTransfer& transfer = step_.transfers[t];
      if (transfer.crossing >= 0) continue;
      Prices& prices = prices_.at(transfer.to_stage);
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
  std::map<int, Prices> prices_;  // by stage
  std::vector<Figures> figures_;  // by section
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
    const int devices = pipeline.stage(pipeline.group_of(timed.step.rank)).rank_count();
    const bool is_part = pipeline.group_count() > 1;
    stages.push_back(
        Walk(pipeline, timed.step, is_part ? cluster_called(part_name(cluster.name, devices)) : cluster)
            .run(timed.sections));
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
  for (int s = 0; s < pipeline.group_count(); ++s)
    out.peak_seconds += stages[at(s)].peak_seconds * pipeline.stage(s).rank_count() / pipeline.rank_count();
  out.stages = std::move(stages);
  return out;
}

Estimate estimate(Program program, const Cluster& cluster) {
  return estimate(Pipeline(std::move(program)), cluster);
}

}  // namespace shardwright
