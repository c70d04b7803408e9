// What the plan keeps in memory of the host goes there, and comes from there (lower/offload.h): when the order of all else
// stands, so that fetches are ahead of it.

#include "shardwright/lower/offload.h"

#include <string>
#include <utility>
#include <vector>

#include "shardwright/cost/kernel_work.h"
#include "shardwright/passes/optimize.h"

namespace shardwright {

namespace {

/// Of the forward, by the prices of the cluster.
CopyPace pace_of(const Graph& graph, const Cluster& cluster) {
  CopyPace out{.seconds_per_byte = 1 / cluster.host.bytes_per_second};
  double now = 0;
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::forward) now += kernel_seconds(graph, node, cluster);
    out.made_at.push_back(now);
  }
  return out;
}

}  // namespace

Program offload(Program program, const PassContext& context) {
  std::vector<std::pair<std::string, std::string>> names;  // of parts: their values become others
  for (const PartValue& p : program.parts)
    names.emplace_back(program.graph.value(p.of).name, program.graph.value(p.value).name);
  const bool is_asked = context.cluster && context.offload.activations > 0;
  const CopyPace pace = is_asked ? pace_of(program.graph, *context.cluster) : CopyPace{};
  Program out = with_offload(std::move(program), context.offload, pace);
  for (std::size_t p = 0; p < names.size(); ++p) {
    out.parts[p].of = out.graph.find(names[p].first);
    out.parts[p].value = out.graph.find(names[p].second);
  }
  return out;
}

}  // namespace shardwright
