#include "shardwright/verify/instructions.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/ranges.h>

#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Transfers of equal steps are worked out once: networks repeat their layers.
class StepTransfers {
 public:
  explicit StepTransfers(const Program& program) : program_(program) {}

  const Transfer& of(const Node& node, int local_rank) {
    const Graph& graph = program_.graph;
    const Value& result = graph.value(node.results.front());
    const Step step = step_of(graph, node);
    std::vector<std::optional<Transfer>>& ranks =
        known_[{step.kind, step.reduction, step.axes, step.dim_from, step.dim_to, step.from, step.to,
                result.global_type().shape}];
    ranks.resize(at(program_.rank_count()));
    std::optional<Transfer>& out = ranks[at(local_rank)];
    if (!out) out = transfer_of(step, graph.meshes, result.global_type().shape, local_rank);
    return *out;
  }

 private:
  using Key = std::tuple<StepKind, Reduction, Axes, int, int, Layout, Layout, Shape>;

  const Program& program_;
  std::map<Key, std::vector<std::optional<Transfer>>> known_;
};

/// By crossing and rank.
using CrossingTransfers = std::vector<std::map<int, Transfer>>;

/// What one rank does, in the order of the executor's actions.
class Derivation {
 public:
  /// Takes the rank's transfers out of `crossings`.
  Derivation(const Pipeline& pipeline, int rank, StepTransfers& steps, CrossingTransfers& crossings)
      : pipeline_(pipeline),
        program_(pipeline.stage(pipeline.stage_of(rank))),
        steps_(steps),
        crossings_(crossings) {
    out_.rank = rank;
    out_.stage = pipeline.stage_of(rank);
    first_rank_ = pipeline.first_rank(out_.stage);
    prepare_flows();
    prepare_phases();
  }

  RankInstructions run() && {
    const std::vector<Task> tasks = tasks_of(pipeline_.pipelining, out_.stage);
    begin();
    expect(CrossingTime::micro_batch, tasks.front().phase, tasks.front().micro_batch);
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      const Task& task = tasks[t];
      if (t + 1 < tasks.size())
        expect(CrossingTime::micro_batch, tasks[t + 1].phase, tasks[t + 1].micro_batch);
      if (task.phase == Phase::forward) add(Act::fill, 0, task.micro_batch);
      make_room_for(task);
      for (const Action& a : tasks_[task.phase == Phase::backward ? 1 : 0]) run(a, task.micro_batch);
      add(Act::replace, static_cast<int>(task.phase), task.micro_batch);
      if (task.phase == Phase::forward) add(Act::hand_out, 0, task.micro_batch);
    }
    run_update();
    return std::move(out_);
  }

 private:
  struct Flow {
    int transfer = 0;
    bool is_send = false;
    CrossingTime time = CrossingTime::micro_batch;
    Phase phase = Phase::forward;
    ValueId value;
    int started = 0;  // sends
    int finished = 0;
  };
  /// An instruction without its micro-batch.
  struct Action {
    Act act = Act::compute;
    int what = 0;
    NodeId node;                   // where it stands
    Phase place = Phase::forward;  // in which it runs
    bool is_last = false;          // only with the last micro-batch
    bool is_first = false;         // only with the first one
    int flow = -1;
  };

  int last() const { return program_.micro_batches - 1; }
  void add(Act act, int what, int micro_batch) { out_.instructions.push_back({act, what, micro_batch}); }

  void prepare_flows() {
    for (std::size_t i = 0; i < pipeline_.crossings.size(); ++i) {
      const PlacedCrossing& c = pipeline_.crossings[i];
      if (c.from != out_.stage && c.to != out_.stage) continue;
      Flow flow{.transfer = static_cast<int>(out_.transfers.size()),
                .is_send = c.from == out_.stage,
                .time = c.time,
                .phase = c.phase,
                .value = c.from == out_.stage ? c.sent : c.received};
      Part part{.from = {}, .to = {}, .dtype = program_.graph.value(flow.value).type.dtype, .transfer = {}};
      (flow.is_send ? part.from : part.to) = flow.value;
      part.transfer = std::move(crossings_[i].at(out_.rank));
      if (part.transfer.group.size() < 2) continue;
      PreparedTransfer transfer{.node = {}, .crossing = static_cast<int>(i), .over = {}, .parts = {}};
      transfer.copies = flow.time == CrossingTime::micro_batch ? program_.micro_batches : 1;
      transfer.parts.push_back(std::move(part));
      out_.transfers.push_back(std::move(transfer));
      flows_.push_back(flow);
    }
  }

  /// Actions of forward, backward and update; those of every slot are alike.
  void prepare_phases() {
    for (const Fusion& fusion : fusions_of(program_.graph)) {
      prepare(fusion);
      for (std::size_t f = 0; f < flows_.size(); ++f) {
        const Flow& flow = flows_[f];
        const NodeId producer = program_.graph.value(flow.value).producer;
        if (flow.is_send && flow.time != CrossingTime::step && producer >= fusion.begin &&
            producer < fusion.end) {
          Action& a = act(Act::start, flow.transfer, fusion.begin);
          a.flow = static_cast<int>(f);
          a.is_last = flow.time == CrossingTime::update && program_.micro_batches > 1;
        }
      }
    }
    start_early();
    for (const Action& a : actions_)
      (a.place == Phase::update ? update_ : tasks_[a.place == Phase::backward ? 1 : 0]).push_back(a);
  }

  Action& act(Act act, int what, NodeId node) {
    actions_.push_back({.act = act, .what = what, .node = node, .place = program_.graph.node(node).phase});
    return actions_.back();
  }

  void prepare(const Fusion& fusion) {
    const Node& node = program_.graph.node(fusion.begin);
    switch (node.op->kind) {
      case OpKind::compute: act(Act::compute, fusion.begin.index, fusion.begin); return;
      case OpKind::step: return prepare_steps(fusion);
      case OpKind::receive: return prepare_receive(node, fusion.begin);
      default: return;  // leaves stand in the arena
    }
  }

  void prepare_receive(const Node& node, NodeId id) {
    bool is_found = false;
    for (std::size_t f = 0; f < flows_.size(); ++f) {
      if (flows_[f].is_send || flows_[f].value != node.results.front()) continue;
      Action& a = act(Act::finish, flows_[f].transfer, id);
      a.flow = static_cast<int>(f);
      a.is_first = flows_[f].time == CrossingTime::step;
      is_found = true;
    }
    if (!is_found) act(Act::compute, id.index, id);  // this rank holds nothing of it
  }

  void prepare_steps(const Fusion& fusion) {
    PreparedTransfer transfer{.node = fusion.begin, .copies = program_.slots, .over = {}, .parts = {}};
    const Node& first = program_.graph.node(fusion.begin);
    if (first.phase == Phase::update) transfer.copies = 1;
    transfer.over = first.attributes.text("over", "");
    for (NodeId id = fusion.begin; id < fusion.end; id = {id.index + 1}) {
      const Node& node = program_.graph.node(id);
      transfer.parts.push_back({.from = node.operands[0],
                                .to = node.results[0],
                                .dtype = program_.graph.value(node.operands[0]).type.dtype,
                                .transfer = shifted(steps_.of(node, out_.rank - first_rank_), first_rank_)});
    }
    const Part& part = transfer.parts.front();
    if (!transfer.moves_between_ranks() && program_.offset(part.from) == program_.offset(part.to) &&
        part.transfer.from_shape == part.transfer.to_shape && !part.transfer.clears) {
      act(Act::compute, fusion.begin.index, fusion.begin);  // the result is there already
      return;
    }
    const int number = static_cast<int>(out_.transfers.size());
    out_.transfers.push_back(std::move(transfer));
    act(Act::finish, number, fusion.begin);
  }

  /// Every transfer of a step starts right above its finish, or where the program says.
  void start_early() {
    std::vector<std::vector<Action>> starts(program_.graph.nodes.size() + 1);
    for (const Action& a : actions_) {
      if (a.act != Act::finish || a.flow >= 0 || program_.starts.empty()) continue;
      const NodeId start = program_.starts[at(a.node.index)];
      if (start == a.node) continue;
      const Phase place = program_.graph.node(start).phase;
      starts[at(start.index)].push_back({.act = Act::start,
                                         .what = a.what,
                                         .node = a.node,
                                         .place = place,
                                         .is_last = place != a.place && program_.micro_batches > 1});
    }
    std::vector<Action> all;
    std::size_t next = 0;
    for (const Action& a : actions_) {
      for (; next <= at(a.node.index); ++next)
        all.insert(all.end(), starts[next].begin(), starts[next].end());
      if (a.act == Act::finish && a.flow < 0 &&
          (program_.starts.empty() || program_.starts[at(a.node.index)] == a.node)) {
        all.push_back(a);
        all.back().act = Act::start;
      }
      all.push_back(a);
    }
    actions_ = std::move(all);
  }

  void run(const Action& a, int micro_batch) {
    if (a.is_last && micro_batch < last()) return;
    if (a.flow < 0) return add(a.act, a.what, micro_batch);
    if (a.is_first && micro_batch > 0) return;
    Flow& flow = flows_[at(a.flow)];
    const int number = flow.time == CrossingTime::micro_batch ? micro_batch : 0;
    flow.started += flow.is_send;
    add(a.act, a.what, number);
  }

  void begin() {
    add(Act::clear, 0, 0);
    expect(CrossingTime::step, Phase::forward, 0);
    for (Flow& flow : flows_) {
      if (!flow.is_send || flow.time != CrossingTime::step) continue;
      add(Act::start, flow.transfer, 0);
      ++flow.started;
    }
  }

  void expect(CrossingTime time, Phase phase, int micro_batch) {
    for (const Flow& flow : flows_)
      if (!flow.is_send && flow.time == time && (time != CrossingTime::micro_batch || flow.phase == phase))
        add(Act::start, flow.transfer, micro_batch);
  }

  void finish_sends_until(Flow& flow, int micro_batch) {
    while (flow.finished < std::min(flow.started, micro_batch + 1))
      add(Act::finish, flow.transfer, flow.finished++);
  }

  void make_room_for(const Task& task) {
    for (Flow& flow : flows_) {
      if (!flow.is_send || flow.time != CrossingTime::micro_batch) continue;
      if (task.phase == Phase::forward && flow.phase == Phase::forward)
        finish_sends_until(flow, task.micro_batch - program_.slots);
      if (task.phase == Phase::backward)
        finish_sends_until(flow, flow.phase == Phase::forward ? task.micro_batch : task.micro_batch - 1);
    }
  }

  void finish_sends(CrossingTime time) {
    for (Flow& flow : flows_)
      if (flow.is_send && flow.time == time) {
        finish_sends_until(flow, most_micro_batches);
        flow.started = flow.finished = 0;
      }
  }

  void run_update() {
    expect(CrossingTime::update, Phase::update, 0);
    finish_sends(CrossingTime::step);
    finish_sends(CrossingTime::micro_batch);
    for (const Action& a : update_) run(a, last());
    finish_sends(CrossingTime::update);
    add(Act::replace, static_cast<int>(Phase::update), last());
  }

  const Pipeline& pipeline_;
  const Program& program_;
  StepTransfers& steps_;
  CrossingTransfers& crossings_;
  int first_rank_ = 0;
  std::vector<Flow> flows_;
  std::vector<Action> actions_;
  std::array<std::vector<Action>, 2> tasks_;  // forward, backward
  std::vector<Action> update_;
  RankInstructions out_;
};

std::string ranks_text(const std::vector<int>& ranks) {
  constexpr std::size_t most = 8;
  if (ranks.size() <= most) return fmt::format("{}", fmt::join(ranks, ","));
  return fmt::format("{},..,{} ({} ranks)", fmt::join(ranks.begin(), ranks.begin() + 3, ","), ranks.back(),
                     ranks.size());
}

}  // namespace

bool PreparedTransfer::gives() const {
  return std::any_of(parts.begin(), parts.end(), [](const Part& p) { return p.from.is_valid(); });
}

bool PreparedTransfer::takes() const {
  return std::any_of(parts.begin(), parts.end(), [](const Part& p) { return p.to.is_valid(); });
}

std::vector<RankInstructions> instructions_of(const Pipeline& pipeline) {
  std::vector<RankInstructions> out;
  CrossingTransfers crossings;
  for (const PlacedCrossing& c : pipeline.crossings) crossings.push_back(pipeline.transfers_of(c));
  for (int s = 0; s < pipeline.stage_count(); ++s) {
    StepTransfers steps(pipeline.stage(s));
    const int first = pipeline.first_rank(s);
    for (int rank = first; rank < first + pipeline.stage(s).rank_count(); ++rank)
      out.push_back(Derivation(pipeline, rank, steps, crossings).run());
  }
  return out;
}

std::string to_text(const PreparedTransfer& t, const Pipeline& pipeline, int stage) {
  const Part& part = t.parts.front();
  const Transfer& transfer = part.transfer;
  const ValueId v = part.to.is_valid() ? part.to : part.from;
  const Shape& shape = part.from.is_valid() ? transfer.from_shape : transfer.to_shape;
  std::string what(name_of(transfer.kind));
  if (transfer.reduces) what += transfer.reduction == Reduction::sum ? ".sum" : ".max";
  if (t.crossing >= 0) what = part.from.is_valid() ? "send" : "receive";
  std::string out = fmt::format("{} %{}", what, pipeline.stage(stage).graph.value(v).name);
  if (!t.over.empty()) out += fmt::format(" over {}", t.over);
  out += fmt::format(" {} of ranks {}", to_text(Type{part.dtype, shape}), ranks_text(transfer.group));
  if (t.parts.size() > 1) out += fmt::format(" with {} more", t.parts.size() - 1);
  if (t.crossing < 0) return out;
  const auto& c = pipeline.crossings;
  if (at(t.crossing) >= c.size()) return out;
  return out + fmt::format(" from stage {} to {}", c[at(t.crossing)].from, c[at(t.crossing)].to);
}

std::string to_text(const RankInstructions& rank, const Instruction& i, const Pipeline& pipeline) {
  const Graph& graph = pipeline.stage(rank.stage).graph;
  std::string out;
  switch (i.act) {
    case Act::start: out = "start " + to_text(rank.transfer(i), pipeline, rank.stage); break;
    case Act::finish: out = "finish " + to_text(rank.transfer(i), pipeline, rank.stage); break;
    case Act::compute: {
      const Node& node = graph.node({i.what});
      out = fmt::format("%{} = {}", graph.value(node.results.front()).name, node.op->name);
      break;
    }
    case Act::clear: out = "clear accumulators"; break;
    case Act::fill: out = "fill inputs"; break;
    case Act::hand_out: out = "hand out outputs"; break;
    case Act::replace:
      out = fmt::format("replace leaves after the {}", name_of(static_cast<Phase>(i.what)));
      break;
  }
  if (pipeline.micro_batches() > 1) out += fmt::format(", micro-batch {}", i.micro_batch);
  return out;
}

}  // namespace shardwright
