// Zero-bubble schedules with one chunk per stage (Qi et al., 2023): 1f1b whose gradients of weights wait, so that they
// fill what stages would be idle for.
//
//   zero-bubble    stage s begins as 1f1b; its gradients of weights are s micro-batches late, so that S are alive in every
//                  stage: as many as the first has of 1f1b. If forward, gradients of inputs and of weights take 1 each, a
//                  stage is idle for S - 1 (ZB1P), where it is 3 (S - 1) of 1f1b
//   zero-bubble:2  the forwards in front fill that, too: 2 (S - s) - 1 of them, gradients of weights 2 s late, 2 S - 1 alive;
//                  idle for 0 (ZB2P), from 2 S - 1 micro-batches on

#include <algorithm>

#include "shardwright/plan/schedule.h"

namespace shardwright::schedules {
namespace {

std::vector<Task> tasks(const Pipelining& p, int stage) {
  const int times = std::max(p.schedule.argument, 1), ahead = times * (p.stages - stage) - (times - 1),
            late = times * stage;
  std::vector<Task> out;
  int forwards = 0, weights = 0;
  for (int m = 0; m < p.micro_batches; ++m) {
    while (forwards < std::min(p.micro_batches, m + ahead)) out.push_back({Phase::forward, forwards++});
    out.push_back({Phase::backward, m});
    if (weights <= m - late) out.push_back({Phase::weights, weights++});
  }
  while (weights < p.micro_batches) out.push_back({Phase::weights, weights++});
  return out;
}

}  // namespace

std::vector<ScheduleDef> zero_bubble() {
  return {{.name = "zero-bubble",
           .argument = "MEMORY",
           .least = 1,
           .most = 2,
           .doc = "MEMORY times the activations of 1f1b",
           .splits_backward = true,
           .searched = {1, 2},
           .tasks = tasks}};
}

}  // namespace shardwright::schedules
