#include "shardwright/search/automatic/pipeline_seconds.h"

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/search/automatic/tasks_in_time.h"

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

/// Of so many micro-batches.
double played_seconds(Pipelining p, int micro_batches, const std::vector<Pass>& parts,
                      const std::vector<Crossing>& crossings) {
  p.micro_batches = micro_batches;
  return seconds_of_tasks(p, parts, crossings);
}

/// Micro-batches that show what each more of them takes; a round more than that.
int few_of(const Pipelining& p) {
  const int few = std::max(4 * p.parts(), 8 * p.stages) + p.micro_batches % p.stages;
  return p.schedule.order == ChunkOrder::table ? p.micro_batches : std::min(p.micro_batches, few);
}

/// The tasks of few micro-batches, and as much for each more of them as for the last ones.
double played_seconds(const Pipelining& p, const std::vector<Pass>& parts,
                      const std::vector<Crossing>& crossings) {
  const int few = few_of(p), round = p.stages;
  const double out = played_seconds(p, few, parts, crossings);
  if (few == p.micro_batches) return out;
  const double more = out - played_seconds(p, few - round, parts, crossings);
  return out + (p.micro_batches - few) * more / round;
}

/// Of devices that do as much in each of their parts.
std::vector<Pass> even_parts(const Pipelining& p, const std::vector<Pass>& stages) {
  std::vector<Pass> out;
  for (int part = 0; part < p.parts(); ++part) {
    const Pass& own = stages[at(p.stage_of(part))];
    out.push_back({own.forward / p.schedule.chunks, own.backward / p.schedule.chunks, own.share_of_weights});
  }
  return out;
}

/// They take little to play.
bool are_few(const Pipelining& p) {
  constexpr int most_tasks = 20000;
  return std::int64_t{few_of(p)} * p.parts() <= most_tasks;
}

}  // namespace

StageForm form_of_stage(const Pipelining& p, int stage) {
  const double all = p.micro_batches, chunks = p.schedule.chunks;
  if (!has_form(p)) return {all, all};
  return {all - warm_up(p, stage) / chunks, all - 1 / chunks};
}

namespace {

/// By the form.
double form_seconds(const Pipelining& p, const std::vector<Pass>& stages,
                    const std::vector<Crossing>& crossings) {
  Pass all;
  double longest = 0, before = 0;  // of a chunk
  for (const Pass& own : stages) {
    all += own;
    longest = std::max(longest, own.all());
  }
  // Of all parts from one on, one way.
  std::vector<double> behind(at(p.parts()) + 1, 0);
  for (int part = p.parts() - 2; part >= 0 && !crossings.empty(); --part)
    behind[at(part)] = behind[at(part) + 1] + crossings[at(part)].seconds();
  const int chunks = p.schedule.chunks;
  double most = 0;
  for (int s = 0; s < p.stages; ++s) {
    const Pass& own = stages[at(s)];
    // From the forward of each chunk to its backward, through all behind; as often as there are forwards under way.
    double rounds = 0;
    for (int c = 0; c < chunks; ++c)
      rounds += all.all() * (chunks - c) / chunks - before + 2 * behind[at(c * p.stages + s)];
    const double under_way = warm_up(p, s) / chunks;
    const bool waits = !is_gpipe(p) && behind[0] > 0;
    const double waited = waits ? std::max(0.0, rounds / warm_up(p, s) - longest) : 0;
    most = std::max(most, form_of_stage(p, s).seconds(own) + (p.micro_batches - under_way) * waited);
    before += own.all() / chunks;
  }
  // Forward through all, and back through the last chunks.
  return shared_seconds(p, all) + most + behind[0] + behind[at(p.parts() - p.stages)];
}

}  // namespace

double pipeline_seconds(const Pipelining& p, const std::vector<Pass>& stages,
                        const std::vector<Crossing>& crossings) {
  if (!has_form(p)) return played_seconds(p, even_parts(p, stages), crossings);
  return form_seconds(p, stages, crossings);
}

double pipeline_seconds_of_parts(const Pipelining& p, const std::vector<Pass>& parts,
                                 const std::vector<Crossing>& crossings) {
  if (p.stages > 1 && (!has_form(p) || are_few(p))) return played_seconds(p, parts, crossings);
  std::vector<Pass> stages(at(p.stages));
  for (int part = 0; part < p.parts(); ++part) stages[at(p.stage_of(part))] += parts[at(part)];
  return form_seconds(p, stages, crossings);
}

double sure_pipeline_seconds(const Pipelining& p, const std::vector<Pass>& stages,
                             const std::vector<Crossing>& crossings) {
  if (has_form(p)) return form_seconds(p, stages, crossings);
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
