#include "shardwright/search/planning/batch_shares.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "shardwright/base/index.h"
#include "shardwright/cost/compute.h"
#include "shardwright/cost/kernel_work.h"
#include "shardwright/cost/mixed_cluster.h"
#include "shardwright/plan/batch.h"

namespace shardwright {
namespace {

/// Of all kernels of `graph`, whole; of calls that are alike once.
double kernel_seconds(const Graph& graph, const Calls& calls, const Cluster& device) {
  std::vector<double> of_call(at(calls.size()), -1);
  double out = 0;
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.op->kind != OpKind::compute || node.op->is_alias || node.phase == Phase::update) continue;
    double& seconds = of_call[at(calls.of(id))];
    if (seconds < 0) seconds = compute_seconds(kernel_work(graph, node, calls.rule(id)), device);
    out += seconds;
  }
  return out;
}

std::int64_t samples_of(const Graph& graph) {
  for (const Node& node : graph.nodes)
    if (const auto dims = batch_dims_of_leaf(graph, node); !dims.empty())
      return graph.value(node.results.front()).type.shape[dims.front()];
  return 0;
}

/// Per replica, whose devices stand next to each other: steps of a sample in a second, of its slowest device.
std::vector<double> speeds_of(const Graph& graph, const Calls& calls, const Cluster& devices, int replicas) {
  std::vector<double> of_device, out;
  for (const Cluster& kind : kinds_of(devices))
    of_device.insert(of_device.end(), at(kind.devices()), 1 / kernel_seconds(graph, calls, kind));
  const std::size_t size = of_device.size() / at(replicas);
  for (std::size_t r = 0; r < at(replicas); ++r)
    out.push_back(*std::min_element(of_device.begin() + std::ptrdiff_t(r * size),
                                    of_device.begin() + std::ptrdiff_t((r + 1) * size)));
  return out;
}

/// Samples one after the other to the replica that would be done with it first.
std::vector<int> shared_out(std::int64_t samples, const std::vector<double>& speeds) {
  std::vector<int> out(speeds.size(), 1);
  using End = std::pair<double, std::size_t>;  // of one sample more, and whose
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  for (std::size_t r = 0; r < out.size(); ++r) ends.emplace(2 / speeds[r], r);
  for (auto left = samples - std::ssize(out); left > 0; --left) {
    const std::size_t first = ends.top().second;
    ends.pop();
    ends.emplace((++out[first] + 1) / speeds[first], first);
  }
  return out;
}

}  // namespace

Constraints with_numbered_shares(Constraints c, const Graph& graph, const Calls& calls,
                                 const Cluster& devices) {
  if (!c.batch_shares || !c.batch_shares->empty()) return c;
  c.batch_shares.reset();
  const int replicas = c.degrees.sharing(Sharing::batch);
  const std::int64_t samples = samples_of(graph);
  if (devices.kinds.empty() || replicas < 2 || samples <= replicas) return c;
  std::vector<int> shares = shared_out(samples, speeds_of(graph, calls, devices, replicas));
  if (std::ranges::max(shares) > std::ranges::min(shares)) c.batch_shares = std::move(shares);
  return c;
}

}  // namespace shardwright
