#include "shardwright/search/planning/batch_shares.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "shardwright/base/index.h"
#include "shardwright/cost/compute.h"
#include "shardwright/cost/kernel_work.h"
#include "shardwright/cost/mixed_cluster.h"
#include "shardwright/layout/mesh.h"
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

/// Numbers that are to each other as `samples`, nearly, and no larger than shares may be.
std::vector<int> as_shares(const std::vector<std::int64_t>& samples) {
  const std::int64_t times = (std::ranges::max(samples) + Axis::most_share - 1) / Axis::most_share;
  std::vector<int> out;
  for (const std::int64_t n : samples) out.push_back(static_cast<int>(std::max<std::int64_t>(1, n / times)));
  return out;
}

/// What each replica has by its speed, at least one, rounded down; then samples one after the other to whoever would be done with it
/// first.
std::vector<int> shared_out(std::int64_t samples, const std::vector<double>& speeds) {
  const double all = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  std::vector<std::int64_t> out;
  for (const double speed : speeds)
    out.push_back(
        std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(samples) * speed / all)));
  if (std::accumulate(out.begin(), out.end(), std::int64_t{0}) > samples) out.assign(speeds.size(), 1);
  using End = std::pair<double, std::size_t>;  // of one sample more, and whose
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  const auto end = [&](std::size_t r) { return static_cast<double>(out[r] + 1) / speeds[r]; };
  for (std::size_t r = 0; r < out.size(); ++r) ends.emplace(end(r), r);
  for (auto left = samples - std::accumulate(out.begin(), out.end(), std::int64_t{0}); left > 0; --left) {
    const std::size_t first = ends.top().second;
    ends.pop();
    ++out[first];
    ends.emplace(end(first), first);
  }
  return as_shares(out);
}

}  // namespace

Constraints with_numbered_shares(Constraints c, const Graph& graph, const Calls& calls,
                                 const Cluster& devices) {
  if (!c.batch_shares || !c.batch_shares->empty()) return c;
  c.batch_shares.reset();
  const int replicas = c.degrees.sharing(Sharing::batch);
  const std::int64_t samples = samples_of(graph).value_or(0);
  if (devices.kinds.empty() || replicas < 2 || samples <= replicas) return c;
  std::vector<int> shares = shared_out(samples, speeds_of(graph, calls, devices, replicas));
  if (std::ranges::max(shares) > std::ranges::min(shares)) c.batch_shares = std::move(shares);
  return c;
}

}  // namespace shardwright
