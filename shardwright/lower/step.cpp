// How the order of a step follows from programs, crossings and the schedule:
//
//   a node           runs where it stands in its program, a transfer starts right above its finish or where the program
//                    says (Program::starts)
//   a send           starts where its value is made, and is finished when its memory is wanted again, so that no stage
//                    waits for a later one to take it: what the forward sends lies there until the backward of the
//                    same micro-batch, what the backward sends until the next backward (of its slot, where it has one)
//   a receive        starts one task ahead and is finished where its value is read
//   both on a rank   (stages on the same devices) the send starts it, the receive finishes it
//   parameters       and states that other stages read cross before the first task
//   tasks            stand in the order of the schedule (plan/schedule.h), the update behind them

#include "shardwright/lower/step.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"
#include "shardwright/lower/step_sections.h"

namespace shardwright {
Phase handed_out_in(const Graph& graph, ValueId output) {
  return graph.node(graph.value(output).producer).phase;
}

namespace {

/// What the steps of ranks share.
struct OfAllRanks {
  OfAllRanks(const Pipeline& pipeline, TransfersOfRanks::Detail detail)
      : transfers(pipeline, detail), rounds(update_rounds(pipeline)) {}

  TransfersOfRanks transfers;
  std::vector<std::vector<int>> rounds;
};

/// What one rank does.
class Derivation {
 public:
  Derivation(const Pipeline& pipeline, int rank, OfAllRanks& shared)
      : pipeline_(pipeline),
        stages_(pipeline.stages_of(rank)),
        ends_of_(pipeline.stages.size()),
        sections_(pipeline.stages.size()),
        last_of_(pipeline.stages.size()) {
    out_.rank = rank;
    prepare_crossings(shared.transfers);
    for (int stage : stages_) prepare_sections(stage, shared.transfers);
    prepare_update(shared.rounds);
  }

  RankStep run() && {
    const std::vector<Task> tasks = tasks_of(pipeline_.pipelining, pipeline_.group_of(out_.rank));
    for (const Task& task : tasks) last_of_[at(stage_of(task))][task.phase] = task.micro_batch;
    begin(tasks.front());
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      if (t + 1 < tasks.size()) expect(tasks[t + 1]);
      make_room_for(tasks[t]);
      run(tasks[t]);
    }
    finish();
    return std::move(out_);
  }

 private:
  /// Of one phase: of all micro-batches, and of the last one to run it.
  struct SectionNumbers {
    int usual = -1, last = -1;
  };

  int last() const { return pipeline_.micro_batches() - 1; }
  int stage_of(const Task& task) const { return stages_[at(task.chunk)]; }
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
        add_end(end);
      }
      if (takes) {
        end.is_send = false, end.stage = c.to, end.value = c.received;
        add_end(end);
      }
      out_.transfers.push_back(*std::move(transfer));
    }
  }

  void add_end(const End& end) {
    if (end.time == CrossingTime::micro_batch) ends_of_[at(end.stage)].push_back(ends_.size());
    ends_.push_back(end);
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
    add_hand_out(forward, stage, Phase::forward);
    const int number = add_section(stage, Phase::forward, false, std::move(forward));
    sections_[at(stage)][Phase::forward] = {number, number};
    prepare_backward(stage, Phase::backward, of_stage);
    if (pipeline_.pipelining.schedule.splits_backward) prepare_backward(stage, Phase::weights, of_stage);
    updates_.push_back(of_stage);
  }

  void prepare_backward(int stage, Phase phase, const SectionsOfStage& of_stage) {
    const auto add_one = [&](bool is_last, bool only_last) {
      std::vector<Instruction> instructions = of_stage.of(phase, is_last);
      add_replace(instructions, stage, phase);
      add_hand_out(instructions, stage, phase);
      return add_section(stage, phase, only_last, std::move(instructions));
    };
    SectionNumbers& numbers = sections_[at(stage)][phase];
    const bool differs = of_stage.differs_in_last(phase);
    numbers.usual = add_one(!differs, false);
    numbers.last = differs ? add_one(true, true) : numbers.usual;
  }

  /// Leaves that change before the update do so behind the section that makes their new values.
  void add_replace(std::vector<Instruction>& to, int stage, Phase phase) {
    const Graph& graph = pipeline_.stage(stage).graph;
    const bool has_any = std::any_of(graph.updates.begin(), graph.updates.end(), [&](const Update& u) {
      return replaced_in(pipeline_.stage(stage), u) == phase;
    });
    if (has_any) to.push_back({Act::replace, stage, static_cast<int>(phase), 0});
  }

  void add_hand_out(std::vector<Instruction>& to, int stage, Phase phase) {
    const Graph& graph = pipeline_.stage(stage).graph;
    const bool has_any =
        std::ranges::any_of(graph.outputs, [&](ValueId v) { return handed_out_in(graph, v) == phase; });
    if (has_any) to.push_back({Act::hand_out, stage, static_cast<int>(phase), 0});
  }

  void prepare_update(const std::vector<std::vector<int>>& rounds) {
    std::vector<Instruction> update;
    int last = 0;
    for (int stage : stages_)
      for (int round : rounds[at(stage)]) last = std::max(last, round);
    for (int round = 0; round <= last; ++round)
      for (std::size_t s = 0; s < stages_.size(); ++s) {
        const std::vector<Instruction> part = updates_[s].of_round(round, rounds[at(stages_[s])]);
        update.insert(update.end(), part.begin(), part.end());
      }
    for (const End& end : ends_)
      if (end.is_send && end.time == CrossingTime::update && !end.has_both)
        update.push_back({Act::finish, end.stage, end.transfer, 0});
    for (int stage : stages_) add_replace(update, stage, Phase::update);
    for (int stage : stages_) add_hand_out(update, stage, Phase::update);
    update_ = add_section(stages_.front(), Phase::update, false, std::move(update));
  }

  void begin(const Task& first) {
    for (int stage : accumulating_) add(Act::clear, stage, 0, 0);
    expect(CrossingTime::step, 0);
    for (End& end : ends_)
      if (end.is_send && end.time == CrossingTime::step) {
        add(Act::start, end.stage, end.transfer, 0);
        end.under_way.push_back(0);
      }
    expect(first);  // which may be on its way while the step's own are waited for
    for (const End& end : ends_)
      if (!end.is_send && end.time == CrossingTime::step) add(Act::finish, end.stage, end.transfer, 0);
  }

  /// Lets begin what comes once a step.
  void expect(CrossingTime time, int micro_batch) {
    for (const End& end : ends_)
      if (!end.is_send && !end.has_both && end.time == time)
        add(Act::start, end.stage, end.transfer, micro_batch);
  }
  /// Lets what a task receives begin.
  void expect(const Task& task) {
    for (std::size_t e : ends_of_[at(stage_of(task))]) {
      const End& end = ends_[e];
      if (!end.is_send && !end.has_both && end.received == task.phase)
        add(Act::start, end.stage, end.transfer, task.micro_batch);
    }
  }

  /// Those under way for which `is_over(micro_batch)`.
  template <class F>
  void finish_sends(End& end, F is_over) {
    std::erase_if(end.under_way, [&](int micro_batch) {
      if (!is_over(micro_batch)) return false;
      if (!end.has_both) add(Act::finish, end.stage, end.transfer, micro_batch);
      return true;
    });
  }

  /// Sends whose memory the task is going to write are over.
  void make_room_for(const Task& task) {
    const int stage = stage_of(task);
    const Program& program = pipeline_.stage(stage);
    const auto is_in_its_slot = [&](int other) {
      return program.lanes.slot(other, Life::whole) == program.lanes.slot(task.micro_batch, Life::whole);
    };
    for (std::size_t e : ends_of_[at(stage)]) {
      End& end = ends_[e];
      if (!end.is_send) continue;
      if (task.phase == Phase::forward && end.made == Phase::forward) finish_sends(end, is_in_its_slot);
      if (task.phase != Phase::backward) continue;
      if (end.received == Phase::forward)
        finish_sends(end, [&](int other) { return other == task.micro_batch; });
      else
        finish_sends(end, [&](int other) { return !program.keeps_sends || is_in_its_slot(other); });
    }
  }

  void run(const Task& task) {
    const int stage = stage_of(task);
    const SectionNumbers& numbers = sections_[at(stage)][task.phase];
    const bool is_last = task.micro_batch == last_of_[at(stage)][task.phase];
    add(Act::run, stage, is_last ? numbers.last : numbers.usual, task.micro_batch);
    for (std::size_t e : ends_of_[at(stage)])
      if (ends_[e].is_send && ends_[e].made == task.phase) ends_[e].under_way.push_back(task.micro_batch);
  }

  void finish() {
    expect(CrossingTime::update, last());
    for (CrossingTime time : {CrossingTime::step, CrossingTime::micro_batch})
      for (End& end : ends_)
        if (end.is_send && end.time == time) finish_sends(end, [](int) { return true; });
    add(Act::run, stages_.front(), update_, last());
  }

  const Pipeline& pipeline_;
  std::vector<int> stages_;
  std::vector<End> ends_;
  std::vector<std::vector<std::size_t>> ends_of_;   // by stage: of what crosses with each micro-batch
  std::vector<int> accumulating_;                   // stages
  std::vector<SectionsOfStage> updates_;            // of `stages_`
  std::vector<OfPhases<SectionNumbers>> sections_;  // by stage
  std::vector<OfPhases<int>> last_of_;              // by stage: the micro-batch that comes last
  int update_ = 0;                                  // section
  RankStep out_;
};

}  // namespace

int copy_of(const PreparedTransfer& transfer, int micro_batch, const Pipeline& pipeline) {
  if (transfer.copies == 1) return 0;
  return transfer.crossing >= 0 ? micro_batch : pipeline.stage(transfer.to_stage).lanes.lane(micro_batch);
}

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

namespace {

std::vector<RankStep> steps_with(TransfersOfRanks::Detail detail, const Pipeline& pipeline,
                                 std::span<const int> ranks) {
  OfAllRanks shared(pipeline, detail);
  std::vector<RankStep> out;
  for (int rank : ranks) out.push_back(Derivation(pipeline, rank, shared).run());
  return out;
}

}  // namespace

std::vector<RankStep> steps_of(const Pipeline& pipeline, std::span<const int> ranks) {
  return steps_with(TransfersOfRanks::Detail::pieces, pipeline, ranks);
}

std::vector<RankStep> steps_of(const Pipeline& pipeline) {
  std::vector<int> ranks(at(pipeline.rank_count()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return steps_of(pipeline, ranks);
}

std::vector<RankStep> steps_of_stages(const Pipeline& pipeline) {
  std::vector<int> ranks;
  for (int group = 0; group < pipeline.group_count(); ++group) ranks.push_back(pipeline.first_rank(group));
  return steps_with(TransfersOfRanks::Detail::outline, pipeline, ranks);
}

RankStep step_of(const Pipeline& pipeline, int rank) {
  return std::move(steps_of(pipeline, std::span(&rank, 1)).front());
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
