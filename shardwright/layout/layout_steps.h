// The layouts next to a layout: one step away, one kind of step per function. The search for a cheapest path
// (redistribution.cpp) knows nothing of what they do.
#pragma once

#include <vector>

#include "shardwright/layout/redistribution.h"

namespace shardwright {

/// Bytes that the busiest rank receives, and from how many others, when each rank fills its box of `to` from
/// boxes of `from`. Exact for any boxes.
struct ExchangeTraffic {
  std::int64_t bytes = 0;
  int peers = 0;
};

ExchangeTraffic exchange_traffic(const Mesh& from_mesh, const Layout& from, const Mesh& to_mesh,
                                 const Layout& to, const Type& type);

/// Seconds of a step over `axes` of which a rank holds `bytes`.
double step_seconds(StepKind kind, double bytes, const Axes& axes, const Mesh& mesh, const MeshCost& cost);
/// Of these what it takes beside moving the bytes: by how many there are the algorithm is chosen.
double starting_seconds(StepKind kind, double bytes, const Axes& axes, const Mesh& mesh,
                        const MeshCost& cost);
/// The same as step_seconds of `step`, which has a routing.
double routed_seconds(const Step& step, const Mesh& mesh, const MeshCost& cost);
/// How long `step`, which is neither local nor an exchange, moves its bytes on the links.
std::vector<LinkUse> step_uses(const Step& step, const Mesh& mesh, const MeshCost& cost);

/// Every step that leads from `from` to another layout of the same mesh, priced. Slices only over axes that `target`
/// uses; with `even_only` to layouts that cut evenly where `target` does.
std::vector<Step> steps_from(const Layout& from, const Layout& target, const Mesh& mesh, const MeshCost& cost,
                             const Type& type, bool even_only);

}  // namespace shardwright
