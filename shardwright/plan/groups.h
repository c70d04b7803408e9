// Groups of optimizer parallelism: where only some replicas of a weight share its state, the axes along which it is
// repeated may have to be cut in two, `dp=4` for groups of two into `dp0=2, dp1=2`. States then lie over the minor
// part and are repeated along the major one; what lay over `dp` lies over `dp0.dp1`, as it did.
#pragma once

#include <span>
#include <vector>

#include "shardwright/plan/leaves.h"

namespace shardwright {

/// Meshes in which some axes are cut, and what became of each axis.
struct CutMeshes {
  std::vector<Mesh> meshes;
  std::vector<std::vector<Axes>> axes_of;  // [mesh][its axis] -> axes of the mesh with the same number
};

/// `meshes` with axes cut so that `axes_that_share` finds the group of every weight, where that can be. `weights`:
/// layouts of those that are shared. Names are numbered from the major end.
CutMeshes cut_for_groups(std::span<const Mesh> meshes, std::span<const Layout> weights, int group);

/// The same strategy in the axes of the cut meshes.
Strategy translate(const Strategy& strategy, const CutMeshes& cut);

/// Throws: Error naming `weight` if no whole axes are as many as its groups should be.
void check_group(const Layout& layout, const Mesh& mesh, int group, std::string_view weight);

}  // namespace shardwright
