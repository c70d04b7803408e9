#include "shardwright/search/automatic/tasks_in_time.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <utility>

#include "shardwright/base/error.h"
#include "shardwright/base/index.h"
#include "shardwright/plan/lanes.h"
#include "shardwright/simulate/flows.h"

namespace shardwright::automatic {
namespace {

int levels_of(const std::vector<Crossing>& crossings) {
  int out = 1;
  for (const Crossing& c : crossings) out = std::max(out, c.level + 1);
  return out;
}

class TasksInTime {
 public:
  TasksInTime(const Pipelining& p, const std::vector<Pass>& parts, const std::vector<Crossing>& crossings)
      : p_(p),
        parts_(parts),
        crossings_(crossings),
        keeps_sends_(keeps_sends(p)),
        stages_(at(p.stages)),
        forwards_(at(p.parts() * p.micro_batches)),
        backwards_(forwards_),
        flows_(p.stages, levels_of(crossings)) {
    for (int stage = 0; stage < p.stages; ++stage)
      stages_[at(stage)] = {.tasks = tasks_of(p, stage), .parts = p.parts_of(stage)};
    for (const Crossing& c : crossings)
      ways_.push_back({{.level = -1, .seconds = c.starting}, {.level = c.level, .seconds = c.moving}});
  }

  double run() && {
    for (int stage = 0; stage < p_.stages; ++stage) expect(stage, 0), expect(stage, 1);
    for (int stage = 0; stage < p_.stages; ++stage) begin(stage);
    while (!ends_.empty() || flows_.next() < Flows::never) {
      const double flow = flows_.next();
      if (ends_.empty() || flow < ends_.top().first) {
        now_ = flow;
        if (const int id = flows_.step(); id >= 0) arrive(on_way_.extract(id).mapped());
      } else {
        const auto [time, stage] = ends_.top();
        ends_.pop();
        now_ = time;
        end(stage);
      }
    }
    for (const Stage& stage : stages_)
      require(stage.next == stage.tasks.size(), "a pipeline's tasks wait for what never is there");
    return now_;
  }

 private:
  /// What a part makes of a micro-batch for its neighbour.
  struct Made {
    bool is_made = false, is_expected = false, is_there = false;
  };
  struct Stage {
    std::vector<Task> tasks;
    std::vector<int> parts;  // by chunk
    std::size_t next = 0;
    bool is_busy = false;
  };
  /// Which is made by a part, in a phase; part -1: nothing.
  struct What {
    Phase phase = Phase::forward;
    int part = -1, micro_batch = 0;
  };

  Made& made(const What& w) {
    return (w.phase == Phase::forward ? forwards_
                                      : backwards_)[at(w.part * p_.micro_batches + w.micro_batch)];
  }
  int part_of(const Stage& stage, const Task& task) const { return stage.parts[at(task.chunk)]; }
  int taker_of(const What& w) const { return w.phase == Phase::forward ? w.part + 1 : w.part - 1; }

  /// What another stage makes for a task.
  What awaited(const Stage& stage, const Task& task) const {
    const int part = part_of(stage, task);
    const int maker = task.phase == Phase::forward ? part - 1 : part + 1;
    const bool crosses = task.phase != Phase::weights && maker >= 0 && maker < p_.parts() &&
                         p_.stage_of(maker) != p_.stage_of(part);
    return {task.phase, crosses ? maker : -1, task.micro_batch};
  }

  /// What it sends lies where the backward before it has sent from.
  What to_be_taken(const Stage& stage, const Task& task) const {
    const int part = part_of(stage, task);
    const bool waits = !keeps_sends_ && task.phase == Phase::backward && part > 0 && task.micro_batch > 0 &&
                       p_.stage_of(part - 1) != p_.stage_of(part);
    return {Phase::backward, waits ? part : -1, task.micro_batch - 1};
  }

  bool is_there(const What& w) { return w.part < 0 || made(w).is_there; }

  void expect(int stage, std::size_t task) {
    const Stage& own = stages_[at(stage)];
    if (task >= own.tasks.size()) return;
    const What what = awaited(own, own.tasks[task]);
    if (what.part < 0) return;
    made(what).is_expected = true;
    set_out(what);
  }

  void set_out(const What& w) {
    Made& m = made(w);
    if (!m.is_made || !m.is_expected || m.is_there) return;
    const int taker = taker_of(w), way = std::min(taker, w.part);
    if (crossings_.empty() || crossings_[at(way)].seconds() == 0) {
      arrive(w);
      return;
    }
    const int id =
        flows_.start(ways_[at(way)], {.from = p_.stage_of(w.part), .to = p_.stage_of(taker)}, now_);
    on_way_[id] = w;
  }

  void arrive(const What& w) {
    made(w).is_there = true;
    begin(p_.stage_of(taker_of(w)));
    begin(p_.stage_of(w.part));
  }

  void begin(int stage) {
    Stage& own = stages_[at(stage)];
    if (own.is_busy || own.next == own.tasks.size()) return;
    const Task& task = own.tasks[own.next];
    if (!is_there(awaited(own, task)) || !is_there(to_be_taken(own, task))) return;
    own.is_busy = true;
    ends_.push({now_ + seconds_of(part_of(own, task), task.phase), stage});
  }

  void end(int stage) {
    Stage& own = stages_[at(stage)];
    const Task& task = own.tasks[own.next++];
    own.is_busy = false;
    const What what{task.phase, part_of(own, task), task.micro_batch};
    const int taker = taker_of(what);
    expect(stage, own.next + 1);
    begin(stage);
    if (task.phase == Phase::weights || taker < 0 || taker == p_.parts()) return;
    made(what).is_made = true;
    set_out(what);
    begin(p_.stage_of(taker));
  }

  double seconds_of(int part, Phase phase) const {
    const Pass& own = parts_[at(part)];
    if (phase == Phase::forward) return own.forward;
    const double second = p_.schedule.splits_backward ? own.share_of_weights : 0;
    return own.backward * (phase == Phase::weights ? second : 1 - second);
  }

  using End = std::pair<double, int>;  // of a stage's task

  const Pipelining& p_;
  const std::vector<Pass>& parts_;
  const std::vector<Crossing>& crossings_;
  bool keeps_sends_;
  std::vector<Stage> stages_;
  std::vector<Made> forwards_, backwards_;  // by part and micro-batch
  std::vector<std::vector<FlowPart>> ways_;
  std::map<int, What> on_way_;  // by flow
  Flows flows_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  double now_ = 0;
};

}  // namespace

double seconds_of_tasks(const Pipelining& p, const std::vector<Pass>& parts,
                        const std::vector<Crossing>& crossings) {
  return TasksInTime(p, parts, crossings).run();
}

}  // namespace shardwright::automatic
