// What the plain way from one layout to another costs, without a search for a cheaper one (redistribution.h):
//
//   slice; reduce, scattering what the target shards; move axes between dims; gather the rest; put parts in order
//
// each over all its axes at once. So searches price hundreds of thousands of pairs of layouts; what a plan becomes is told by
// the redistributions that are found for it.
#pragma once

#include "shardwright/layout/redistribution.h"

namespace shardwright {

/// Seconds, of layouts of `mesh` without halos or partial(max): of eight pairs in ten on two axes, and six in ten on
/// three, within a tenth of the cheapest way; 0.5 to 3 times that (tests/layout/plain_way_test.cpp). Allocates nothing. Cost: O(dims * axes).
double plain_seconds(const Layout& from, const Layout& to, const Type& type, const Mesh& mesh,
                     const MeshCost& cost);

}  // namespace shardwright
