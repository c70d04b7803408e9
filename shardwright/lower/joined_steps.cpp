#include "shardwright/lower/joined_steps.h"

namespace shardwright {

JoinedBytes joined_bytes(const Graph& graph, const Node& node, Redistributor& redistributor) {
  return {redistribution_of(graph, node, redistributor).bytes, bytes_held(graph, node)};
}

JoinedPrice joined_price(Step step, const JoinedBytes& all, const Redistributor& redistributor) {
  step.bytes = all.received;
  JoinedPrice out{.starting = redistributor.latency(step, static_cast<double>(all.held))};
  for (const LinkUse& use : redistributor.link_uses(step)) out.moving += use.seconds;
  return out;
}

}  // namespace shardwright
