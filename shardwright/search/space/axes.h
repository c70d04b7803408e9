// The axes that a search decides one after the other, and the mesh that is left of them.
//
// A cluster is cut from its slowest link inwards, into prime parts or several of them at once: 2 nodes of 12 devices
// are 2, 3, 2, 2. Once all is
// decided, neighbouring axes that always occur together become one, and axes are named after what they do: `dp`
// shards the batch, `tp` weights.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "shardwright/cost/cluster.h"
#include "shardwright/search/planning/problem.h"

namespace shardwright::space {

/// Something is fixed in terms of mesh 0.
bool names_axes(const FixedChoices& fixed);

/// The sequences of axes along which `cluster` may be cut, those of fewer axes first: its link levels as they are
/// (2 nodes of 8 are 2, 8), one of them in two (the innermost in at most `ways` ways, an outer one in
/// half as many), and all in prime parts as far as a mesh should have
/// so many axes.
std::vector<std::vector<int>> ladders_of(const Cluster& cluster, std::size_t ways);

/// What is fixed, on the meshes that a search in seconds tries: of whoever names axes these, and all in their prime parts;
/// else of `cluster`, in so many `ways`.
std::vector<FixedChoices> on_ladders(const FixedChoices& asked, const Cluster& cluster, std::size_t ways);

/// An axis per link level of `cluster`, the slowest outermost.
Mesh link_mesh(const Cluster& cluster);

/// `fixed` on a finer mesh 0: of every axis its prime parts, outermost first, as far as a mesh has room for
/// them, or, if it has not, the axis. The parts of axis x are called `x/0`, `x/1`.
FixedChoices on_finer_mesh(const FixedChoices& fixed, const Mesh& mesh);

/// Prime numbers whose product is `n`, the largest first.
std::vector<int> primes_of(int n);

/// What a search decided, on few axes.
struct JoinedMesh {
  Mesh mesh;
  std::vector<int> axis_of;  // per axis before, the one that it is a part of now
};

/// Joins axes of `mesh` that all of `lists` have together, side by side, or not at all. Parts of one axis are named
/// `x/0`, `x/1`: those of different axes stay apart, and x whole is `x` again.
JoinedMesh joined_axes(const Mesh& mesh, std::span<const Axes> lists);

/// `axes` on the joined mesh.
Axes joined(const Axes& axes, const JoinedMesh& mesh);

}  // namespace shardwright::space
