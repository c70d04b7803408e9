// Experts over the devices of a stage. They are shared by the same devices as all else of it, counted anew: attention is on
// dp x cp x tp of them, experts on edp x ep x etp, whose last degree is the innermost, too.
//
//   dp=4, tp=2                    devices  (dp tp)
//   ep=4                                   (edp ep etp)     edp=1: etp is tp; the axes are dp and tp
//   ep=4, etp=1                                             edp=2: dp becomes dp0=2, dp1=2, and ep is dp1 and tp
#pragma once

#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/graph/graph.h"
#include "shardwright/layout/mesh.h"
#include "shardwright/plan/constraints.h"

namespace shardwright {

/// How dp, tp and cp are cut into axes, outer ones first: dp and tp so that ep and etp are whole axes.
struct DegreeParts {
  std::vector<int> data, tensor, context = {1};
};
/// Why ep and etp cannot be so many of the devices of a stage; empty if they can.
std::string refusal_of_experts(const Degrees& degrees);
/// For ep and etp. Throws: Error if there is a refusal.
DegreeParts expert_parts(const Degrees& degrees);

/// Gives `mesh` the parts of a degree as its innermost axes: `dp`, or `dp0`, `dp1`.
Axes add_axes(Mesh& mesh, const char* degree, const std::vector<int>& parts);

/// Axes of a mesh of such parts, or of parts of those.
struct ExpertAxes {
  Axes experts, features;

  Axes all() const;
};
ExpertAxes expert_axes(const Mesh& mesh, const Degrees& degrees);

/// What loop dims of `node`, a routed operator of `rule`, are split over: experts and their features, and of the dims of its rows
/// what these leave of `of_rows`.
std::vector<std::pair<int, Axes>> expert_loops(const Node& node, const Rule& rule, const ExpertAxes& axes,
                                               std::span<const Axes> of_rows);

/// Forward operators that make of rows which experts they go to, and how much each counts: from the product on that a weight of
/// the network has a part in.
std::set<NodeId> routing_nodes(const Graph& graph);

/// What divides the experts of each layer that has some; 0: there are none.
std::int64_t experts_of(const Graph& graph);

/// Throws: Error if `constraints` say how experts are shared, and `graph` has none.
void check_experts(const Graph& graph, const Constraints& constraints);

}  // namespace shardwright
