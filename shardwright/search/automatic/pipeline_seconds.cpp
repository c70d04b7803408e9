#include "shardwright/search/automatic/pipeline_seconds.h"

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/plan/played_tasks.h"

namespace shardwright::automatic {
namespace {

bool is_gpipe(const Pipelining& p) { return p.schedule.name == "gpipe"; }

/// Whether forwards are ahead of backwards by a warm-up, as the form wants it.
bool has_form(const Pipelining& p) { return p.stages == 1 || def_of(p.schedule).warm_up; }

double warm_up(const Pipelining& p, int stage) {
  if (is_gpipe(p) || p.stages == 1) return 1;
  return std::min(def_of(p.schedule).warm_up(p, stage), p.micro_batches * p.schedule.chunks);
}

/// Of T what all devices share.
double shared_seconds(const Pipelining& p, const Pass& all) {
  return has_form(p) ? all.forward + all.backward / p.schedule.chunks : 0;
}

/// The tasks of as many micro-batches as show what each more of them takes.
double played_seconds(const Pipelining& p, const std::vector<Pass>& stages,
                      const std::vector<double>& crossings) {
  Pipelining few = p;
  if (p.schedule.order != ChunkOrder::table) few.micro_batches = std::min(p.micro_batches, 4 * p.parts());
  std::vector<std::vector<Task>> tasks;
  double longest = 0;
  for (int s = 0; s < p.stages; ++s) {
    tasks.push_back(tasks_of(few, s));
    longest = std::max(longest, stages[at(s)].all());
  }
  const double chunks = p.schedule.chunks, cut = p.schedule.splits_backward ? 2 : 1;
  const PlayedTasks all =
      played(few, tasks,
             {.of =
                  [&](int part, Phase phase) {
                    const Pass& own = stages[at(p.stage_of(part))];
                    return phase == Phase::forward ? own.forward / chunks : own.backward / chunks / cut;
                  },
              .crossing = [&](int part) { return crossings.empty() ? 0 : crossings[at(part)]; }});
  return all.end() + (p.micro_batches - few.micro_batches) * longest;
}

}  // namespace

StageForm form_of_stage(const Pipelining& p, int stage) {
  const double all = p.micro_batches, chunks = p.schedule.chunks;
  if (!has_form(p)) return {all, all};
  return {all - warm_up(p, stage) / chunks, all - 1 / chunks};
}

double pipeline_seconds(const Pipelining& p, const std::vector<Pass>& stages,
                        const std::vector<double>& crossings) {
  if (!has_form(p)) return played_seconds(p, stages, crossings);
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
    const bool waits = !is_gpipe(p) && behind[0] > 0;
    const double waited = waits ? std::max(0.0, round / under_way - longest) : 0;
    most = std::max(most, form_of_stage(p, s).seconds(own) + (p.micro_batches - under_way) * waited);
    before += own.all() / chunks;
  }
  // Forward through all, and back through the last chunks.
  return shared_seconds(p, all) + most + behind[0] + behind[at(p.parts() - p.stages)];
}

double sure_pipeline_seconds(const Pipelining& p, const std::vector<Pass>& stages,
                             const std::vector<double>& crossings) {
  if (has_form(p)) return pipeline_seconds(p, stages, crossings);
  double most = 0, before = 0;  // of the first micro-batch, in the stages in front
  for (int s = 0; s < p.stages; ++s) {
    most = std::max(most, before + p.micro_batches * stages[at(s)].all());
    before += stages[at(s)].forward / p.schedule.chunks;
  }
  return most;
}

double least_pipeline_seconds(const Pipelining& p, const Pass& all) {
  // Of a stage, A f + C b; C is that of all. The longest is no shorter than any mean of them: the plain one, and that weighed by
  // 1 / A.
  const double c = form_of_stage(p, 0).backwards;
  double least = p.micro_batches, most = 0, shares = 0;
  for (int s = 0; s < p.stages; ++s) {
    const double a = form_of_stage(p, s).forwards;
    least = std::min(least, a), most = std::max(most, a);
    if (a > 0) shares += 1 / a;
  }
  const double mean = (least * all.forward + c * all.backward) / p.stages;
  const double weighed = least > 0 ? (all.forward + c / most * all.backward) / shares : 0;
  return shared_seconds(p, all) + std::max(mean, weighed);
}

}  // namespace shardwright::automatic
