#include "shardwright/search/planning/plan_alike.h"

#include <algorithm>
#include <utility>

#include "shardwright/base/attempt.h"
#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/graph/op.h"
#include "shardwright/passes/compile.h"
#include "shardwright/passes/share_memory.h"
#include "shardwright/plan/settings.h"
#include "shardwright/search/planning/settings.h"

namespace shardwright {
namespace {

/// All that is said of how `plan` is done beside its operators.
Constraints said_by(const Plan& plan) {
  Constraints out = constraints_of(plan.settings);
  if (!plan.structure.empty()) out = merged(parse_constraints({"structure", plan.structure}), std::move(out));
  return out;
}

/// Each parameter in the layout that it has.
std::map<std::string, Annotation> parameters_of(const PlanThere& there) {
  std::map<std::string, Annotation> out;
  const PlannedStages stages = apply(there.plan, there.graph);
  for (const PlannedGraph& stage : stages.stages)
    for (const Node& node : stage.graph.nodes) {
      const Value& v = stage.graph.value(node.results[0]);
      if (node.op->kind != OpKind::parameter || !v.layout || !makes(stage.graph, v.name)) continue;
      const Mesh& mesh = stage.graph.meshes[at(v.layout->mesh)];
      TensorSplit split;
      split.is_by_axes = true;
      for (const Axes& axes : v.layout->dims) {
        auto& names = split.axes.emplace_back();
        for (int a : axes) names.push_back(mesh.axes[at(a)].name);
      }
      out[v.name] = {.device_matrix = mesh, .in = {}, .out = {std::move(split)}};
    }
  return out;
}

std::map<std::string, int> stages_of(const Plan& plan) {
  std::map<std::string, int> out;
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (const PlannedOperator& op : plan.stages[s].operators) out.emplace(op.name, static_cast<int>(s));
  return out;
}

class Alike {
 public:
  Alike(const PlanThere& there, const StepOf& step, const PlanRequest& request)
      : there_(there), step_(step), request_(request) {
    request_.stock = nullptr;
    request_ = on_devices(std::move(request_));
    request_.devices = there.plan.devices();  // an objective may have chosen them
    request_.cluster = there.plan.cluster;
    // Nothing is suggested of it.
    request_.auto_pipeline.reset();
    request_.constraints.interleave = there.plan.settings.pipelining.interleave;
  }

  PlannedAlike run() {
    try_plan(false, [&] { return carried(); });
    if (best_) best_->carried = best_->evaluation;
    if (request_.is_set && !there_.is_given)
      try_plan(true, [&] { return make_plan(step_, cut_as_there(request_)); });
    else if (searches() && !there_.plan.structure.empty())
      try_plan(true, [&] { return with_its_degrees(); });
    else if (searches())
      for (const bool again : {true, false})
        if (again || may_keep()) try_plan(true, [&] { return with_its_parameters(again); });
    if (!best_) throw error("{}", why_);
    return *std::move(best_);
  }

 private:
  /// Whether anybody searched for the plan that there is.
  bool searches() const {
    return request_.parallel == Parallel::auto_parallel && !there_.is_given && request_.devices > 1 &&
           !there_.plan.search.empty();
  }

  /// Whether what is computed again there, which nobody asked for, may be kept.
  bool may_keep() const {
    const Constraints& asked = request_.constraints;
    return there_.plan.settings.recompute != Recompute{} && !asked.recompute && asked.recomputed.empty();
  }

  template <class Make>
  void try_plan(bool is_own, const Make& make) {
    std::string why;
    auto made = attempt(why, [&] {
      PlannedAlike out{.plan = make(), .is_own = is_own};
      out.graph = step_(out.plan.settings.pipelining.batch_parts());
      const Pipeline program =
          compile_pipeline(out.graph, out.plan, {.formats = request_.formats, .verifies = false});
      check_shares(there_.program, program);
      out.evaluation =
          evaluate(program, out.plan.cluster,
                   {.memory_cap = request_.options.memory_cap, .framework = out.plan.settings.framework});
      return out;
    });
    if (!why.empty()) why_ = why;  // of the last, which is not held to names
    if (!made || (best_ && !is_better(made->evaluation, best_->evaluation))) return;
    if (best_) made->carried = best_->carried;
    best_ = std::move(made);
  }

  Plan carried() const {
    Plan out = there_.plan;
    out.model = request_.model;
    out.fingerprint = fingerprint_of(step_(out.settings.pipelining.batch_parts()));
    return out;
  }

  /// Stages are cut for time, and weights lie where they are cut: as they are.
  PlanRequest cut_as_there(PlanRequest request) const {
    if (there_.plan.stages.size() > 1) request.constraints.stages = stages_of(there_.plan);
    return request;
  }

  Plan with_its_degrees() const {
    const Constraints there = said_by(there_.plan);
    PlanRequest asked = request_;
    asked.constraints.degrees = there.degrees;
    asked.constraints.zero = there.zero.value_or(0);
    const bool has_stages = there_.plan.stages.size() > 1;
    if (has_stages) asked.constraints.schedule = there_.plan.settings.pipelining.schedule;
    Plan found = make_plan(step_, asked);
    if (!has_stages) return found;
    asked.constraints = merged(std::move(asked.constraints), said_by(found));
    asked.is_set = true;
    Plan out = make_plan(step_, cut_as_there(std::move(asked)));
    out.structure = found.structure;
    return out;
  }

  Plan with_its_parameters(bool again) const {
    PlanRequest asked = request_;
    const Searcher& search = find_search(there_.plan.search);
    asked.search = search.plan ? splitting_search().name : search.name;
    asked.constraints = merged(std::move(asked.constraints), constraints_of(there_.plan.settings));
    if (!again) {
      asked.constraints.recompute = RecomputeMode::none;
      asked.constraints.recomputed.clear();
    }
    for (auto& [name, lies] : parameters_of(there_)) asked.constraints.tensors.emplace(name, std::move(lies));
    return make_plan(step_(there_.plan.settings.pipelining.batch_parts()), cut_as_there(std::move(asked)));
  }

  const PlanThere& there_;
  const StepOf& step_;
  PlanRequest request_;
  std::optional<PlannedAlike> best_;
  std::string why_;
};

/// What nobody says is said as it is.
Constraints with_usual(Constraints c) {
  c.interleave = c.interleave.value_or(1);
  c.micro_batches = c.micro_batches.value_or(1);
  c.zero = c.zero.value_or(0);
  c.sequence_parallel = c.sequence_parallel.value_or(false);
  c.overlap_tensor = c.overlap_tensor.value_or(false);
  if (!c.offload) c.offload = Offload{};
  if (!c.schedule) c.schedule = Schedule{};
  return c;
}

int splits_that_differ(const Plan& plan, const Plan& other) {
  std::map<std::string, const PlannedOperator*> theirs;
  for (const StagePlan& stage : plan.stages)
    for (const PlannedOperator& op : stage.operators) theirs.emplace(op.name, &op);
  int out = 0;
  for (const StagePlan& stage : other.stages)
    for (const PlannedOperator& op : stage.operators) {
      const auto it = theirs.find(op.name);
      out += it != theirs.end() && (it->second->strategy != op.strategy || it->second->cuts != op.cuts);
    }
  return out;
}

}  // namespace

PlanThere plan_there(Graph graph, Plan plan, const FormatsOf& formats, bool is_given) {
  Pipeline program = compile_pipeline(graph, plan, {.formats = formats, .verifies = false});
  return {std::move(graph), std::move(plan), std::move(program), is_given};
}

PlanRequest on_devices(PlanRequest request) {
  if (!request.constraints.offload) request.constraints.offload = Offload{};
  return request;
}

PlannedAlike plan_alike(const PlanThere& there, const StepOf& step, const PlanRequest& request) {
  return Alike(there, step, request).run();
}

std::string difference_text(const Plan& plan, const Plan& other) {
  const Constraints before = said_by(plan), now = said_by(other);
  std::vector<std::string> out;
  for (const ConstraintWord& word : constraint_words()) {
    const auto text = [&](const Constraints& c) { return word.print(with_usual(c), word.name); };
    if (word.name != "recompute" && text(before) != text(now))
      out.push_back(fmt::format("{}={} instead of {}", word.name, text(now), text(before)));
  }
  const std::string again = to_text(other.settings.recompute), was = to_text(plan.settings.recompute);
  if (again != was) out.push_back(fmt::format("recompute={} instead of {}", again, was));
  if (const int differ = splits_that_differ(plan, other); differ > 0)
    out.push_back(fmt::format("{} operators split otherwise", differ));
  return out.empty() ? "in nothing that is said" : join(out, ", ");
}

}  // namespace shardwright
