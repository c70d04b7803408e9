// How the order of a step follows from programs, crossings and the schedule:
//
//   a node           runs where it stands in its program, a transfer starts right above its finish or where the program
//                    says (Program::starts)
//   a send           starts where its value is made, and is finished when its memory is wanted again, so that no stage
//                    waits for a later one to take it: what the forward sends lies there until the backward of the
//                    same micro-batch, what the backward sends until the next backward
//   a receive        starts one task ahead and is finished where its value is read
//   both on a rank   (stages on the same devices) the send starts it, the receive finishes it
//   parameters       and states that other stages read cross before the first task
//   tasks            stand in the order of the schedule (plan/schedule.h), the update behind them

#include "shardwright/lower/step.h"

#include <algorithm>
#include <array>

#include "shardwright/graph/op.h"
#include "shardwright/lower/step_transfers.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// One end of a crossing.
struct End {
  int transfer = 0;
  int stage = 0;
  bool is_send = false;
  bool has_both = false;  // ends on this rank
  CrossingTime time = CrossingTime::micro_batch;
  Phase received = Phase::forward;
  ValueId value;                // of `stage`
  Phase made = Phase::forward;  // sends
  int started = 0;              // sends of this step
  int finished = 0;
};

/// What a stage does for a micro-batch: instructions in the order of its nodes, by section.
class SectionsOfStage {
 public:
  SectionsOfStage(const Pipeline& pipeline, int stage, int rank, const std::vector<End>& ends,
                  TransfersOfRanks& transfers, RankStep& out)
      : program_(pipeline.stage(stage)),
        graph_(program_.graph),
        stage_(stage),
        ends_(ends),
        transfers_(transfers),
        out_(out) {
    for (const Fusion& fusion : fusions_of(graph_)) {
      prepare(fusion, rank);
      prepare_sends(fusion);
    }
    start_early();
  }

  /// The instructions of a phase, with the last micro-batch or with the others.
  std::vector<Instruction> of(Phase phase, bool is_last) const {
    std::vector<Instruction> out;
    for (const Action& a : actions_)
      if (a.place == phase && (is_last || !a.only_last)) out.push_back({a.act, stage_, a.what, 0});
    return out;
  }
  bool differs_in_last(Phase phase) const {
    return std::any_of(actions_.begin(), actions_.end(),
                       [phase](const Action& a) { return a.place == phase && a.only_last; });
  }

 private:
  struct Action {
    Act act = Act::compute;
    int what = 0;
    NodeId node;                   // where it stands
    Phase place = Phase::forward;  // in which it runs
    bool only_last = false;        // with the last micro-batch
    bool crosses = false;
  };

  Action& add(Act act, int what, NodeId node) {
    actions_.push_back({.act = act, .what = what, .node = node, .place = graph_.node(node).phase});
    return actions_.back();
  }

  void prepare(const Fusion& fusion, int rank) {
    const Node& node = graph_.node(fusion.begin);
    const int first = fusion.begin.index;
    switch (node.op->kind) {
      case OpKind::compute:
        if (!node.op->is_alias)
          add(Act::compute, first, fusion.begin);
        else if (program_.offset(node.operands.front()) != program_.offset(node.results.front()))
          add(Act::copy, first, fusion.begin);
        return;
      case OpKind::step: return prepare_steps(fusion, rank);
      case OpKind::receive: return prepare_receive(node, fusion.begin);
      default: return;  // leaves stand in the arena
    }
  }

  void prepare_receive(const Node& node, NodeId id) {
    const auto end = std::find_if(ends_.begin(), ends_.end(), [&](const End& e) {
      return !e.is_send && e.stage == stage_ && e.value == node.results.front();
    });
    if (end == ends_.end())
      add(Act::keep, id.index, id);  // this rank holds nothing of it
    else if (end->time != CrossingTime::step)
      add(Act::finish, end->transfer, id).crosses = true;
  }

  void prepare_sends(const Fusion& fusion) {
    for (const End& end : ends_) {
      const bool is_of_stage = end.is_send && end.stage == stage_ && end.time != CrossingTime::step;
      if (!is_of_stage) continue;
      const NodeId producer = graph_.value(end.value).producer;
      if (producer < fusion.begin || producer >= fusion.end) continue;
      Action& a = add(Act::start, end.transfer, fusion.begin);
      a.crosses = true;
      a.only_last =
          end.time == CrossingTime::update && program_.micro_batches > 1 && a.place != Phase::update;
    }
  }

  void prepare_steps(const Fusion& fusion, int rank) {
    PreparedTransfer transfer = transfers_.of_steps(stage_, fusion, rank);
    const Part& part = transfer.parts.front();
    const bool is_there = !transfer.moves_between_ranks() &&
                          program_.offset(part.from) == program_.offset(part.to) &&
                          part.transfer.from_shape == part.transfer.to_shape && !part.transfer.clears;
    if (is_there) {
      add(Act::keep, fusion.begin.index, fusion.begin);
      return;
    }
    add(Act::finish, static_cast<int>(out_.transfers.size()), fusion.begin);
    out_.transfers.push_back(std::move(transfer));
  }

  /// Where the transfer of a step starts: right above its finish, or where the program says.
  NodeId start_of(const Action& finish) const {
    return program_.starts.empty() ? finish.node : program_.starts[at(finish.node.index)];
  }

  void start_early() {
    std::vector<std::vector<Action>> starts(graph_.nodes.size());
    for (const Action& a : actions_) {
      if (a.act != Act::finish || a.crosses) continue;
      const NodeId start = start_of(a);
      if (start == a.node) continue;
      Action early = a;
      early.act = Act::start;
      early.place = graph_.node(start).phase;
      early.only_last = early.place != a.place && program_.micro_batches > 1;
      starts[at(start.index)].push_back(early);
    }
    std::vector<Action> all;
    std::size_t next = 0;
    for (const Action& a : actions_) {
      for (; next <= at(a.node.index); ++next)
        all.insert(all.end(), starts[next].begin(), starts[next].end());
      if (a.act == Act::finish && !a.crosses && start_of(a) == a.node) {
        all.push_back(a);
        all.back().act = Act::start;
      }
      all.push_back(a);
    }
    actions_ = std::move(all);
  }

  const Program& program_;
  const Graph& graph_;
  int stage_;
  const std::vector<End>& ends_;
  TransfersOfRanks& transfers_;
  RankStep& out_;
  std::vector<Action> actions_;
};

/// What one rank does.
class Derivation {
 public:
  Derivation(const Pipeline& pipeline, int rank, TransfersOfRanks& transfers)
      : pipeline_(pipeline), stages_(pipeline.stages_of(rank)), sections_(pipeline.stages.size()) {
    out_.rank = rank;
    prepare_crossings(transfers);
    for (int stage : stages_) prepare_sections(stage, transfers);
    prepare_update();
  }

  RankStep run() && {
    begin();
    const std::vector<Task> tasks = tasks_of(pipeline_.pipelining, stages_.front());
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      if (t == 0) expect(tasks[0]);
      if (t + 1 < tasks.size()) expect(tasks[t + 1]);
      make_room_for(tasks[t]);
      run(tasks[t]);
    }
    finish();
    return std::move(out_);
  }

 private:
  struct SectionNumbers {
    int forward = 0, backward = 0, last_backward = 0;
  };

  int last() const { return pipeline_.micro_batches() - 1; }
  int stage_of(const Task&) const { return stages_.front(); }
  void add(Act act, int stage, int what, int micro_batch) {
    out_.instructions.push_back({act, stage, what, micro_batch});
  }

  void prepare_crossings(TransfersOfRanks& transfers) {
    for (int i = 0; i < static_cast<int>(pipeline_.crossings.size()); ++i) {
      std::optional<PreparedTransfer> transfer = transfers.of_crossing(i, out_.rank);
      if (!transfer) continue;
      const PlacedCrossing& c = pipeline_.crossings[at(i)];
      const Graph& giver = pipeline_.stage(c.from).graph;
      const bool gives = transfer->gives(), takes = transfer->takes();
      End end{.transfer = static_cast<int>(out_.transfers.size()),
              .has_both = gives && takes,
              .time = c.time,
              .received = c.phase,
              .value = {},
              .made = giver.node(giver.value(c.sent).producer).phase};
      if (gives) {
        end.is_send = true, end.stage = c.from, end.value = c.sent;
        ends_.push_back(end);
      }
      if (takes) {
        end.is_send = false, end.stage = c.to, end.value = c.received;
        ends_.push_back(end);
      }
      out_.transfers.push_back(*std::move(transfer));
    }
  }

  int add_section(int stage, Phase phase, bool only_last, std::vector<Instruction> instructions) {
    out_.sections.push_back({stage, phase, only_last, std::move(instructions)});
    return static_cast<int>(out_.sections.size()) - 1;
  }

  void prepare_sections(int stage, TransfersOfRanks& transfers) {
    const Graph& graph = pipeline_.stage(stage).graph;
    const SectionsOfStage of_stage(pipeline_, stage, out_.rank, ends_, transfers, out_);
    const auto has = [&](OpKind kind) {
      return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                         [kind](const Node& node) { return node.op->kind == kind; });
    };
    if (has(OpKind::accumulator)) accumulating_.push_back(stage);
    std::vector<Instruction> forward;
    if (has(OpKind::input)) forward.push_back({Act::fill, stage, 0, 0});
    const std::vector<Instruction> nodes = of_stage.of(Phase::forward, true);
    forward.insert(forward.end(), nodes.begin(), nodes.end());
    add_replace(forward, stage, Phase::forward);
    if (!graph.outputs.empty()) forward.push_back({Act::hand_out, stage, 0, 0});
    SectionNumbers& numbers = sections_[at(stage)];
    numbers.forward = add_section(stage, Phase::forward, false, std::move(forward));
    const auto add_backward = [&](bool is_last, bool only_last) {
      std::vector<Instruction> backward = of_stage.of(Phase::backward, is_last);
      add_replace(backward, stage, Phase::backward);
      return add_section(stage, Phase::backward, only_last, std::move(backward));
    };
    const bool differs = of_stage.differs_in_last(Phase::backward);
    numbers.backward = add_backward(!differs, false);
    numbers.last_backward = differs ? add_backward(true, true) : numbers.backward;
    updates_.push_back(of_stage.of(Phase::update, true));
  }

  /// Leaves that change before the update do so behind the section that makes their new values.
  void add_replace(std::vector<Instruction>& to, int stage, Phase phase) {
    const Graph& graph = pipeline_.stage(stage).graph;
    const bool has_any = std::any_of(graph.updates.begin(), graph.updates.end(), [&](const Update& u) {
      return replaced_in(pipeline_.stage(stage), u) == phase;
    });
    if (has_any) to.push_back({Act::replace, stage, static_cast<int>(phase), 0});
  }

  void prepare_update() {
    std::vector<Instruction> update = updates_.front();
    for (const End& end : ends_)
      if (end.is_send && end.time == CrossingTime::update && !end.has_both)
        update.push_back({Act::finish, end.stage, end.transfer, 0});
    for (int stage : stages_) add_replace(update, stage, Phase::update);
    update_ = add_section(stages_.front(), Phase::update, false, std::move(update));
  }

  void begin() {
    for (int stage : accumulating_) add(Act::clear, stage, 0, 0);
    expect(
        CrossingTime::step, [](const End&) { return true; }, 0);
    for (End& end : ends_)
      if (end.is_send && end.time == CrossingTime::step) {
        add(Act::start, end.stage, end.transfer, 0);
        ++end.started;
      }
    for (const End& end : ends_)
      if (!end.is_send && end.time == CrossingTime::step) add(Act::finish, end.stage, end.transfer, 0);
  }

  template <class F>
  void expect(CrossingTime time, F is_wanted, int micro_batch) {
    for (const End& end : ends_)
      if (!end.is_send && !end.has_both && end.time == time && is_wanted(end))
        add(Act::start, end.stage, end.transfer, micro_batch);
  }
  /// Lets what a task receives begin.
  void expect(const Task& task) {
    const auto is_of_task = [&](const End& e) {
      return e.stage == stage_of(task) && e.received == task.phase;
    };
    expect(CrossingTime::micro_batch, is_of_task, task.micro_batch);
  }

  void finish_sends_until(End& end, int micro_batch) {
    for (; end.finished < std::min(end.started, micro_batch + 1); ++end.finished)
      if (!end.has_both)
        add(Act::finish, end.stage, end.transfer, end.time == CrossingTime::micro_batch ? end.finished : 0);
  }

  /// Sends whose memory the task is going to write are over.
  void make_room_for(const Task& task) {
    const int stage = stage_of(task);
    for (End& end : ends_) {
      if (!end.is_send || end.stage != stage || end.time != CrossingTime::micro_batch) continue;
      if (task.phase == Phase::forward && end.made == Phase::forward)
        finish_sends_until(end, task.micro_batch - pipeline_.stage(stage).slots);
      if (task.phase == Phase::backward)
        finish_sends_until(end, end.received == Phase::forward ? task.micro_batch : task.micro_batch - 1);
    }
  }

  void run(const Task& task) {
    const int stage = stage_of(task);
    const SectionNumbers& numbers = sections_[at(stage)];
    const int section = task.phase == Phase::forward ? numbers.forward
                        : task.micro_batch == last() ? numbers.last_backward
                                                     : numbers.backward;
    add(Act::run, stage, section, task.micro_batch);
    for (End& end : ends_)
      end.started += end.is_send && end.stage == stage && end.time == CrossingTime::micro_batch &&
                     end.made == task.phase;
  }

  void finish() {
    expect(
        CrossingTime::update, [](const End&) { return true; }, last());
    for (CrossingTime time : {CrossingTime::step, CrossingTime::micro_batch})
      for (End& end : ends_)
        if (end.is_send && end.time == time) finish_sends_until(end, last());
    add(Act::run, stages_.front(), update_, last());
  }

  const Pipeline& pipeline_;
  std::vector<int> stages_;
  std::vector<End> ends_;
  std::vector<int> accumulating_;                  // stages
  std::vector<std::vector<Instruction>> updates_;  // of `stages_`
  std::vector<SectionNumbers> sections_;           // by stage
  int update_ = 0;                                 // section
  RankStep out_;
};

}  // namespace

bool PreparedTransfer::gives() const {
  return std::any_of(parts.begin(), parts.end(), [](const Part& p) { return p.from.is_valid(); });
}

bool PreparedTransfer::takes() const {
  return std::any_of(parts.begin(), parts.end(), [](const Part& p) { return p.to.is_valid(); });
}

Phase replaced_in(const Program& program, const Update& update) {
  if (program.micro_batches == 1) return Phase::update;
  return program.graph.node(program.graph.value(update.value).producer).phase;
}

std::vector<RankStep> steps_of(const Pipeline& pipeline) {
  TransfersOfRanks transfers(pipeline);
  std::vector<RankStep> out;
  for (int rank = 0; rank < pipeline.rank_count(); ++rank)
    out.push_back(Derivation(pipeline, rank, transfers).run());
  return out;
}

std::vector<RankStep> steps_of_stages(const Pipeline& pipeline) {
  TransfersOfRanks transfers(pipeline);
  std::vector<RankStep> out;
  for (int stage = 0; stage < pipeline.stage_count(); ++stage)
    out.push_back(Derivation(pipeline, pipeline.first_rank(stage), transfers).run());
  return out;
}

RankStep step_of(const Pipeline& pipeline, int rank) {
  TransfersOfRanks transfers(pipeline);
  return Derivation(pipeline, rank, transfers).run();
}

RankStep unrolled(RankStep step) {
  std::vector<Instruction> all;
  for (const Instruction& i : step.instructions) {
    if (i.act != Act::run) {
      all.push_back(i);
      continue;
    }
    for (Instruction inner : step.section(i).instructions) {
      inner.micro_batch = i.micro_batch;
      all.push_back(inner);
    }
  }
  step.instructions = std::move(all);
  step.sections.clear();
  return step;
}

}  // namespace shardwright
