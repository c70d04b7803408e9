// The tasks of all stages in time: each begins when the one before it on its devices and what it waits for are over. A
// forward waits for that of the part in front, gradients of inputs for those of the part behind, gradients of weights for
// those of inputs of the same part.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "shardwright/plan/schedule.h"

namespace shardwright {

struct PlayedTasks {
  struct Time {
    double begin = 0, end = 0;
  };
  std::vector<std::vector<Time>> times;                   // by stage and task
  std::optional<std::pair<int, std::size_t>> stuck = {};  // stage and task that wait for what never is over
};

/// `tasks` by stage, `seconds` of a task by its part and phase. What crosses to other stages is there at once. Cost: linear in tasks,
/// times stages where they wait for each other a lot.
PlayedTasks played(const Pipelining& p, const std::vector<std::vector<Task>>& tasks,
                   const std::function<double(int part, Phase phase)>& seconds);

/// Of the schedule's own tasks, each of which takes 1.
PlayedTasks played_evenly(const Pipelining& p);

}  // namespace shardwright
