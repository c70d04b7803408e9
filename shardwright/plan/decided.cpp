#include "shardwright/plan/decided.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

/// How the devices of a stage share its work; nothing where axes are of no degree.
std::optional<Degrees> degrees_of(const StagePlan& stage) {
  Degrees out;
  for (const DegreeKind& kind : degree_kinds)
    if (kind.of != Sharing::stages && kind.missing.empty() && !kind.is_rare) out.set(kind.name, 1);
  if (stage.meshes.size() > 1) return std::nullopt;
  for (const Axis& axis : stage.meshes.front().axes) {
    const std::string_view degree = degree_of_axis(axis.name);
    if (degree.empty()) return std::nullopt;
    out.set(degree, out.of(degree) * axis.size);
  }
  return out;
}

/// Those of the axis by which what carries the batch of `stage` is cut; none where it is cut equally.
std::vector<int> batch_shares_of(const StagePlan& stage) {
  for (const PlannedOperator& op : stage.operators)
    for (const auto& [loop, axes] : op.strategy)
      if (const auto cut = op.cuts.find(loop); cut != op.cuts.end() && cut->second.is_by_shares)
        for (const Axis& axis : stage.meshes[static_cast<std::size_t>(op.mesh)].axes)
          if (!axis.shares.empty() && std::ranges::count(axes, axis.name)) return axis.shares;
  return {};
}

/// Of the batch of a micro-batch, where devices have unequal ones; by speed, where stages have others.
Rare<std::vector<int>> batch_shares_of(const Plan& plan) {
  std::vector<int> out = batch_shares_of(plan.stages.front());
  bool is_any = !out.empty();
  for (const StagePlan& stage : plan.stages) {
    const std::vector<int> own = batch_shares_of(stage);
    is_any = is_any || !own.empty();
    if (own != out) out.clear();
  }
  return is_any ? Rare<std::vector<int>>(std::move(out)) : Rare<std::vector<int>>();
}

/// Of all stages; nothing where they differ.
std::optional<Degrees> degrees_of(const Plan& plan) {
  const std::optional<Degrees> out = degrees_of(plan.stages.front());
  const bool is_one =
      std::ranges::all_of(plan.stages, [&](const StagePlan& stage) { return degrees_of(stage) == out; });
  return is_one ? out : std::nullopt;
}

/// Of how many devices the loop dim of `op` that is called so is a matter.
int devices_behind(const PlannedOperator& op, const Mesh& mesh, const std::string& loop) {
  int out = 1;
  for (const auto& [name, axes] : op.strategy)
    for (const std::string& axis : axes)
      if (name == loop) out *= std::ranges::find(mesh.axes, axis, &Axis::name)->size;
  return out;
}

/// Says how experts are shared, of the first operator that has some, where it is not as nobody would have to say it.
void add_experts(Degrees& degrees, const Plan& plan) {
  for (const StagePlan& stage : plan.stages)
    for (const PlannedOperator& op : stage.operators) {
      const auto& routed = find_op(op.kind).routed;
      if (!routed) continue;
      const Mesh& mesh = stage.meshes[static_cast<std::size_t>(op.mesh)];
      if (const int experts = devices_behind(op, mesh, routed->experts); experts > 1)
        degrees.set("ep", experts);
      const int features = devices_behind(op, mesh, routed->inner);
      if (features != degrees.of_experts_features()) degrees.set("etp", features);
      return;
    }
}

}  // namespace

std::string_view degree_of_axis(std::string_view name) {
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  for (const DegreeKind& kind : degree_kinds)
    if (kind.of != Sharing::stages && kind.of != Sharing::experts && name.starts_with(kind.name) &&
        std::all_of(name.begin() + std::ssize(kind.name), name.end(), is_digit))
      return kind.name;
  return {};
}

Constraints decided_by(const Plan& plan, std::int64_t samples) {
  const Settings& s = plan.settings;
  auto degrees = degrees_of(plan);
  if (degrees) add_experts(*degrees, plan);
  Constraints out{.degrees = degrees.value_or(Degrees{})};
  out.degrees.set("pp", s.pipelining.stages);
  out.micro_batches = s.pipelining.micro_batches;
  if (s.pipelining.interleave > 1) out.interleave = s.pipelining.interleave;
  if (samples > 0) out.global_batch = samples * s.pipelining.batch_parts();
  if (samples > 0 && degrees && samples % degrees->sharing(Sharing::batch) == 0)
    out.micro_batch = samples / degrees->sharing(Sharing::batch);
  out.zero = s.optimizer_parallel.level;
  out.recompute = Again(s.recompute.mode, std::ranges::any_of(s.recompute.modules, &RecomputedModule::is_on));
  Offload shares = s.offload;
  for (std::string& name : std::exchange(shares.operators, {})) out.hosted.insert(std::move(name));
  if (shares.is_on()) out.offload = std::move(shares);
  if (s.overlap_tensor) out.overlap_tensor = true;
  out.batch_shares = batch_shares_of(plan);
  if (s.pipelining.stages > 1) out.schedule = s.pipelining.schedule;
  return out;
}

bool decide_alike(const PlannedOperator& a, const PlannedOperator& b) {
  return a.name == b.name && a.strategy == b.strategy && a.cuts == b.cuts && a.mesh == b.mesh &&
         a.out == b.out;
}

bool decide_alike(const Plan& a, const Plan& b) {
  const auto same_stage = [](const StagePlan& x, const StagePlan& y) {
    return x.meshes == y.meshes && x.layouts == y.layouts &&
           std::ranges::equal(x.operators, y.operators,
                              [](const auto& p, const auto& q) { return decide_alike(p, q); });
  };
  return a.settings == b.settings && std::ranges::equal(a.stages, b.stages, same_stage);
}

}  // namespace shardwright
