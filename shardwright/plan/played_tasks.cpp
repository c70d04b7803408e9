#include "shardwright/plan/played_tasks.h"

#include <algorithm>

#include "shardwright/base/index.h"

namespace shardwright {
namespace {

constexpr double not_yet = -1;

class Play {
 public:
  Play(const Pipelining& p, const std::vector<std::vector<Task>>& tasks,
       const std::function<double(int part, Phase phase)>& seconds)
      : p_(p), tasks_(tasks), seconds_(seconds), next_(tasks.size()), free_(tasks.size()) {
    const std::vector<double> none(at(p.micro_batches), not_yet);
    forwards_.assign(at(p.parts()), none), inputs_.assign(at(p.parts()), none);
    for (int stage = 0; stage < static_cast<int>(tasks.size()); ++stage) parts_.push_back(p.parts_of(stage));
    out_.times.resize(tasks.size());
  }

  PlayedTasks run() && {
    for (bool goes_on = true; std::exchange(goes_on, false);)
      for (std::size_t stage = 0; stage < tasks_.size(); ++stage)
        while (next_[stage] < tasks_[stage].size() && step(stage)) goes_on = true;
    for (std::size_t stage = 0; stage < tasks_.size() && !out_.stuck; ++stage)
      if (next_[stage] < tasks_[stage].size()) out_.stuck = {static_cast<int>(stage), next_[stage]};
    return std::move(out_);
  }

 private:
  /// When what a task waits for is there; none: not yet.
  std::optional<double> ready(const Task& task, int part) const {
    const auto of = [&](const auto& done, int p) { return done[at(p)][at(task.micro_batch)]; };
    double first = 0, second = 0;
    if (task.phase == Phase::forward)
      second = part > 0 ? of(forwards_, part - 1) : 0;
    else if (task.phase == Phase::backward)
      first = of(forwards_, part), second = part + 1 < p_.parts() ? of(inputs_, part + 1) : 0;
    else if (task.phase == Phase::weights)
      first = of(inputs_, part);
    if (first == not_yet || second == not_yet) return std::nullopt;
    return std::max(first, second);
  }

  /// The next task of a stage. False if it waits.
  bool step(std::size_t stage) {
    const Task& task = tasks_[stage][next_[stage]];
    const int part = parts_[stage][at(task.chunk)];
    const std::optional<double> is_ready = ready(task, part);
    if (!is_ready) return false;
    const double begin = std::max(free_[stage], *is_ready), end = begin + seconds_(part, task.phase);
    out_.times[stage].push_back({begin, end});
    if (task.phase == Phase::forward) forwards_[at(part)][at(task.micro_batch)] = end;
    if (task.phase == Phase::backward) inputs_[at(part)][at(task.micro_batch)] = end;
    free_[stage] = end;
    ++next_[stage];
    return true;
  }

  const Pipelining& p_;
  const std::vector<std::vector<Task>>& tasks_;
  const std::function<double(int part, Phase phase)>& seconds_;
  std::vector<std::vector<int>> parts_;                 // by stage and chunk
  std::vector<std::vector<double>> forwards_, inputs_;  // when over, by part and micro-batch
  std::vector<std::size_t> next_;                       // by stage
  std::vector<double> free_;                            // by stage
  PlayedTasks out_;
};

}  // namespace

PlayedTasks played(const Pipelining& p, const std::vector<std::vector<Task>>& tasks,
                   const std::function<double(int part, Phase phase)>& seconds) {
  return Play(p, tasks, seconds).run();
}

PlayedTasks played_evenly(const Pipelining& p) {
  std::vector<std::vector<Task>> tasks;
  for (int stage = 0; stage < p.stages; ++stage) tasks.push_back(tasks_of(p, stage));
  return played(p, tasks, [](int, Phase) { return 1.0; });
}

}  // namespace shardwright
