#include "shardwright/simulate/estimate.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "shardwright/simulate/kernel_work.h"

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
  Transfers(double overlap, std::size_t nodes) : seconds_left_(nodes, 0), overlap_(overlap) {}

  void start(NodeId step, double seconds) {
    queue_.push_back(step);
    seconds_left_[at(step.index)] = seconds;
  }

  /// While compute works.
  void run_beside(double seconds) {
    double left = seconds * overlap_;
    while (!queue_.empty() && left > 0) {
      double& of_first = seconds_left_[at(queue_.front().index)];  // 0 if compute has waited for it
      const double done = std::min(left, of_first);
      left -= done;
      of_first -= done;
      if (of_first > 0) break;
      queue_.pop_front();
    }
  }

  /// Seconds until `step` is done.
  double wait_for(NodeId step) { return std::exchange(seconds_left_[at(step.index)], 0); }

 private:
  std::deque<NodeId> queue_;
  std::vector<double> seconds_left_;  // by node
  double overlap_;
};

bool is_transfer(const Node& node) { return node.op->kind == OpKind::step && !is_local(*node.op->step); }

/// Walks a program and adds up what its nodes take.
class Walk {
 public:
  Walk(const Program& program, const Cluster& cluster)
      : program_(program),
        graph_(program.graph),
        compute_(program, cluster),
        transfers_(cluster.overlap, graph_.nodes.size()),
        redistributor_(redistributor_for(graph_.meshes, cluster)),
        starting_(graph_.nodes.size()) {}

  Estimate run() {
    const std::vector<Fusion> fusions = fusions_of(graph_);
    for (const Fusion& f : fusions)
      if (is_transfer(graph_.node(f.begin))) starting_[at(start_of(f).index)].push_back(f);
    for (const Fusion& f : fusions) {
      for (const Fusion& transfer : starting_[at(f.begin.index)]) start(transfer);
      visit(f);
    }
    out_.peak_seconds = compute_.peak_seconds() * program_.micro_batches;
    out_.arena_bytes = program_.arena_bytes;
    out_.memory = memory_use(program_);
    return out_;
  }

 private:
  NodeId start_of(const Fusion& f) const {
    return program_.starts.empty() ? f.begin : program_.starts[at(f.begin.index)];
  }

  void start(const Fusion& transfer) {
    double seconds = 0;
    const int times = times_of(transfer);
    for (NodeId id = transfer.begin; id < transfer.end; ++id.index) {
      const Node& node = graph_.node(id);
      const Redistribution& r = redistribution_of(graph_, node, redistributor_);
      seconds += r.seconds;
      if (id != transfer.begin)
        seconds -= redistributor_.latency(step_of(graph_, node));  // they start as one
      out_.bytes_communicated += times * r.bytes;
      out_.collectives[std::string(name_of(*node.op->step))] += times;
    }
    out_.communication_seconds += times * seconds;
    transfers_.start(transfer.begin, seconds);
  }

  /// How often a step does it.
  int times_of(const Fusion& f) const {
    return graph_.node(f.begin).phase == Phase::update ? 1 : program_.micro_batches;
  }

  void visit(const Fusion& f) {
    const Node& node = graph_.node(f.begin);
    const int times = times_of(f);
    double& phase = out_.phase_seconds[static_cast<std::size_t>(node.phase)];
    const std::int64_t bytes = graph_.value(node.results.front()).type.bytes();
    if (node.op->kind == OpKind::parameter) out_.parameter_bytes += bytes;
    if (node.op->kind == OpKind::state) out_.state_bytes += bytes;
    if (node.op->kind == OpKind::compute) {
      const double seconds = compute_.seconds(f);
      out_.compute_seconds += times * seconds;
      if (node.is_recomputed) out_.recompute_seconds += times * seconds;
      phase += seconds;
      transfers_.run_beside(seconds);
    }
    if (!is_transfer(node)) return;
    const double seconds = transfers_.wait_for(f.begin);
    out_.exposed_communication_seconds += times * seconds;
    phase += seconds;
  }

  const Program& program_;
  const Graph& graph_;
  Compute compute_;
  Transfers transfers_;
  Redistributor redistributor_;
  std::vector<std::vector<Fusion>> starting_;  // by node, the transfers that start in front of it
  Estimate out_;
};

/// The tasks of all stages in time, and what crosses before and behind them.
class Timeline {
 public:
  Timeline(const Pipeline& pipeline, const std::vector<Estimate>& stages, const Cluster& cluster)
      : pipeline_(pipeline), stages_(stages), cluster_(cluster), ends_(stages.size()), free_(stages.size()) {
    for (auto& of_stage : ends_) of_stage.assign(2, std::vector<double>(at(pipeline.micro_batches()), -1));
  }

  /// When each stage has done its step.
  std::vector<double> run() {
    for (const PlacedCrossing& c : pipeline_.crossings)
      if (c.time == CrossingTime::step) free_[at(c.to)] += seconds(c);
    std::vector<std::vector<Task>> tasks;
    for (int s = 0; s < pipeline_.stage_count(); ++s) tasks.push_back(tasks_of(pipeline_.pipelining, s));
    std::vector<std::size_t> next(tasks.size(), 0);
    for (bool goes_on = true; std::exchange(goes_on, false);)
      for (std::size_t s = 0; s < tasks.size(); ++s)
        while (next[s] < tasks[s].size() && run(static_cast<int>(s), tasks[s][next[s]])) {
          ++next[s];
          goes_on = true;
        }
    for (const PlacedCrossing& c : pipeline_.crossings)
      if (c.time == CrossingTime::update)
        free_[at(c.to)] = std::max(free_[at(c.to)], free_[at(c.from)] + seconds(c));
    for (std::size_t s = 0; s < stages_.size(); ++s)
      free_[s] += stages_[s].phase_seconds[static_cast<std::size_t>(Phase::update)];
    return free_;
  }

 private:
  /// False if something that the task receives has not been sent.
  bool run(int stage, const Task& task) {
    double start = free_[at(stage)];
    for (const PlacedCrossing& c : pipeline_.crossings) {
      if (c.to != stage || c.time != CrossingTime::micro_batch || c.phase != task.phase) continue;
      const double sent = ends_[at(c.from)][static_cast<std::size_t>(task.phase)][at(task.micro_batch)];
      if (sent < 0) return false;
      start = std::max(start, sent + seconds(c));
    }
    const double end = start + stages_[at(stage)].phase_seconds[static_cast<std::size_t>(task.phase)];
    ends_[at(stage)][static_cast<std::size_t>(task.phase)][at(task.micro_batch)] = free_[at(stage)] = end;
    return true;
  }

  double seconds(const PlacedCrossing& c) const {
    const LinkLevel& link = cluster_.links.back();
    const auto bytes = static_cast<double>(pipeline_.stage(c.to).graph.value(c.received).type.bytes());
    return link.start_seconds + link.latency_seconds +
           bytes / (link.bytes_per_second * cluster_.link_efficiency);
  }

  const Pipeline& pipeline_;
  const std::vector<Estimate>& stages_;
  const Cluster& cluster_;
  std::vector<std::vector<std::vector<double>>> ends_;  // by stage, phase and micro-batch; -1: not yet
  std::vector<double> free_;                            // by stage
};

/// Adds to each stage what the rank of it that receives most gets from other stages.
void add_crossings(std::vector<Estimate>& stages, const Pipeline& pipeline) {
  std::vector<std::int64_t> received(at(pipeline.rank_count()), 0);
  for (const PlacedCrossing& c : pipeline.crossings) {
    const int times = c.time == CrossingTime::micro_batch ? pipeline.micro_batches() : 1;
    const auto size =
        static_cast<std::int64_t>(size_of(pipeline.stage(c.to).graph.value(c.received).type.dtype));
    stages[at(c.to)].collectives["receive"] += times;
    for (const auto& [rank, transfer] : pipeline.transfers_of(c)) {
      if (pipeline.stage_of(rank) != c.to) continue;
      for (const Piece& piece : transfer.pieces)
        received[at(rank)] += times * element_count(piece.extent) * size;
    }
  }
  for (int s = 0; s < pipeline.stage_count(); ++s)
    stages[at(s)].bytes_communicated += *std::max_element(received.begin() + pipeline.first_rank(s),
                                                          received.begin() + pipeline.first_rank(s + 1));
}

}  // namespace

Estimate estimate(const Pipeline& pipeline, const Cluster& cluster) {
  if (pipeline.stage_count() == 1) return estimate(pipeline.stage(0), cluster);
  std::vector<Estimate> stages;
  for (const Program& program : pipeline.stages)
    stages.push_back(estimate(program, cluster_called(part_name(cluster.name, program.rank_count()))));
  add_crossings(stages, pipeline);
  const std::vector<double> ends = Timeline(pipeline, stages, cluster).run();
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
    out.peak_seconds += stages[at(s)].peak_seconds * pipeline.stage(s).rank_count() / pipeline.rank_count();
  out.stages = std::move(stages);
  return out;
}

Estimate estimate(const Program& program, const Cluster& cluster) { return Walk(program, cluster).run(); }

}  // namespace shardwright
