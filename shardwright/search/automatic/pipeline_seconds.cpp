#include "shardwright/search/automatic/pipeline_seconds.h"

#include <algorithm>

#include "shardwright/base/index.h"

namespace shardwright::automatic {
namespace {

double warm_up(const Pipelining& p, int stage) {
  if (p.schedule.kind == Schedule::gpipe) return 1;
  return std::min(warm_up_of(p, stage), p.micro_batches * p.schedule.chunks);
}

/// Of T what all devices share.
double shared_seconds(const Pipelining& p, const Pass& all) {
  return all.forward + all.backward / p.schedule.chunks;
}

}  // namespace

double seconds_of_stage(const Pipelining& p, int stage, const Pass& own) {
  return p.micro_batches * own.all() - (warm_up(p, stage) * own.forward + own.backward) / p.schedule.chunks;
}

double pipeline_seconds(const Pipelining& p, const std::vector<Pass>& stages,
                        const std::vector<double>& crossings) {
  Pass all;
  double longest = 0, before = 0;  // of a chunk
  for (const Pass& own : stages) {
    all += own;
    longest = std::max(longest, own.all());
  }
  // Of all parts from one on, one way.
  std::vector<double> behind(at(p.parts()) + 1, 0);
  for (int part = p.parts() - 2; part >= 0 && !crossings.empty(); --part)
    behind[at(part)] = behind[at(part) + 1] + crossings[at(part)];
  const int chunks = p.schedule.chunks;
  double most = 0;
  for (int s = 0; s < p.stages; ++s) {
    const Pass& own = stages[at(s)];
    // From a forward to its backward, through all behind; as often as there are forwards under way.
    const double round = all.all() - before + 2 * behind[at(s)];
    const double under_way = warm_up(p, s) / chunks;
    const bool waits = p.schedule.kind != Schedule::gpipe && behind[0] > 0;
    const double waited = waits ? std::max(0.0, round / under_way - longest) : 0;
    most = std::max(most, seconds_of_stage(p, s, own) + (p.micro_batches - under_way) * waited);
    before += own.all() / chunks;
  }
  // Forward through all, and back through the last chunks.
  return shared_seconds(p, all) + most + behind[0] + behind[at(p.parts() - p.stages)];
}

double least_pipeline_seconds(const Pipelining& p, const Pass& all) {
  // Of a stage, A f + C b; C is that of all. The longest is no shorter than any mean of them: the plain one, and that weighed by
  // 1 / A.
  const double c = seconds_of_stage(p, 0, {0, 1});
  double least = p.micro_batches, most = 0, shares = 0;
  for (int s = 0; s < p.stages; ++s) {
    const double a = seconds_of_stage(p, s, {1, 0});
    least = std::min(least, a), most = std::max(most, a);
    if (a > 0) shares += 1 / a;
  }
  const double mean = (least * all.forward + c * all.backward) / p.stages;
  const double weighed = least > 0 ? (all.forward + c / most * all.backward) / shares : 0;
  return shared_seconds(p, all) + std::max(mean, weighed);
}

}  // namespace shardwright::automatic
