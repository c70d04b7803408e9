#include "bench/harness/stages.h"

#include <algorithm>

#include "bench/harness/measure.h"
#include "shardwright/base/random.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/lower/spmd.h"
#include "shardwright/passes/optimize.h"
#include "shardwright/plan/complete.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/runtime/communicator/threads.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {

Stages compile_in_stages(const Graph& graph, const Plan& plan, const std::vector<std::string>& without) {
  Stages out;
  const auto timed = [&](const std::string& name, auto stage) {
    const double start = seconds_now();
    stage();
    out.seconds.emplace_back(name, seconds_now() - start);
  };
  PlannedGraph planned;
  timed("apply", [&] { planned = std::move(apply(plan, graph).stages[0]); });
  const Cluster cluster = plan.cluster;
  std::vector<MeshCost> costs;
  for (const Mesh& mesh : planned.graph.meshes) costs.push_back(mesh_cost(cluster, mesh));
  Redistributor redistributor(planned.graph.meshes, costs, {.even_only = true});
  timed("complete", [&] { complete(planned.graph, redistributor, planned.update_layouts); });
  timed("lower", [&] { out.program = lower(planned.graph, redistributor); });
  for (const Pass& pass : all_passes())
    if (std::find(without.begin(), without.end(), pass.name) == without.end())
      timed(pass.name, [&] { out.program = pass.run(std::move(out.program), {redistributor}); });
  return out;
}

Plan stand_alone_plan(const Graph& graph) {
  return make_plan(graph, {.devices = 1, .parallel = Parallel::stand_alone});
}

Alone::Alone(Program program)
    : pipeline_(std::move(program)),
      backend_(cpu_backend()),
      communicator_(std::move(thread_communicators(1).front())),
      executor_(pipeline_, *backend_, *communicator_) {
  backend_->enter_thread();
  const RandomStream random(1, "parameters");
  for (const Node& node : pipeline_.stage(0).graph.nodes) {
    if (node.op->kind != OpKind::parameter) continue;
    std::uint64_t next = 0;
    const TensorView view = executor_.view(0, node.results[0]);
    Tensor values({view.dtype, view.shape});
    for (float& e : values.as<float>()) e = static_cast<float>(4 * random.uniform(next++) - 2);
    backend_->write(view.data, values.bytes());
  }
}

}  // namespace shardwright
