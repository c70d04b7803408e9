#include "shardwright/plan/settings.h"

#include <algorithm>

#include "shardwright/plan/schedule_table.h"

namespace shardwright {

int stage_count(const Constraints& c) {
  if (const auto said = c.degrees.said("pp")) return *said;
  if (c.schedule && !c.schedule->rows.empty()) return static_cast<int>(c.schedule->rows.size());
  int parts = 1;
  for (const auto& [name, part] : c.stages) parts = std::max(parts, part + 1);
  const int chunks = c.schedule.value_or(Schedule{}).chunks;
  if (parts == 1) return 1;
  if (parts % chunks)
    throw error("annotations name {} stages but the devices of each take {} of them", parts, chunks);
  return parts / chunks;
}

Settings settings_of(const Constraints& c) {
  Settings out;
  OptimizerParallel& zero = out.optimizer_parallel;
  zero.level = c.zero.value_or(zero.level);
  zero.threshold = c.zero_threshold.value_or(zero.threshold);
  zero.group = c.zero_group.value_or(zero.group);
  const RecomputeMode mode = c.recompute.value_or(Again{}).mode;
  const RecomputeOptions usual = recompute_options(mode, c.sequence_parallel.value_or(false));
  out.recompute = {.mode = mode,
                   .options = {.communication = c.recompute_communication.value_or(usual.communication),
                               .shard_kept = c.recompute_shard_kept.value_or(usual.shard_kept)},
                   .modules = c.recomputed};
  out.offload = c.offload.value_or(Offload{});
  out.offload.operators.assign(c.hosted.begin(), c.hosted.end());
  out.comm_fusion = c.comm_fusion.value_or(CommFusion{});
  const int stages = stage_count(c);
  out.pipelining = {.schedule = c.schedule.value_or(Schedule{}),
                    .stages = stages,
                    .micro_batches = c.micro_batches.value_or(stages),
                    .interleave = c.interleave.value_or(1)};
  if (!c.micro_batches && c.schedule && !c.schedule->rows.empty())
    out.pipelining.micro_batches = micro_batches_of_table(*c.schedule);
  out.overlap_tensor = c.overlap_tensor.value_or(out.overlap_tensor);
  out.framework = c.framework.value_or(out.framework);
  return out;
}

Constraints constraints_of(const Settings& settings) {
  Constraints out;
  const Settings usual;
  const auto fix = [](auto& part, const auto& has, const auto& as_usual) {
    if (has != as_usual) part = has;
  };
  const Pipelining& p = settings.pipelining;
  if (p.stages != 1) out.degrees.set("pp", p.stages);
  fix(out.micro_batches, p.micro_batches, p.stages);
  fix(out.interleave, p.interleave, usual.pipelining.interleave);
  fix(out.schedule, p.schedule, usual.pipelining.schedule);
  fix(out.zero, settings.optimizer_parallel.level, usual.optimizer_parallel.level);
  fix(out.zero_threshold, settings.optimizer_parallel.threshold, usual.optimizer_parallel.threshold);
  fix(out.zero_group, settings.optimizer_parallel.group, usual.optimizer_parallel.group);
  const Recompute& recompute = settings.recompute;
  const RecomputeOptions options = default_options(recompute.mode);
  fix(out.recompute, Again(recompute.mode), Again(usual.recompute.mode));
  fix(out.recompute_communication, recompute.options.communication, options.communication);
  fix(out.recompute_shard_kept, recompute.options.shard_kept, options.shard_kept);
  out.recomputed = recompute.modules;
  Offload shares = settings.offload;
  for (std::string& name : std::exchange(shares.operators, {})) out.hosted.insert(std::move(name));
  fix(out.offload, shares, usual.offload);
  CommFusion limits = settings.comm_fusion;
  out.fusion_numbers = std::exchange(limits.parameters, {});
  fix(out.comm_fusion, limits, usual.comm_fusion);
  fix(out.overlap_tensor, settings.overlap_tensor, usual.overlap_tensor);
  fix(out.framework, settings.framework, usual.framework);
  return out;
}

}  // namespace shardwright
