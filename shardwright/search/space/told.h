// What a search has decided of the parts of a network, told as what planning gets: strategies of all operators on a mesh
// of few, named axes, each with a reason.
#pragma once

#include <functional>
#include <vector>

#include "shardwright/search/space/axes.h"
#include "shardwright/search/space/cuts.h"

namespace shardwright::space {

/// Per part why it is as it is, in terms of the axes that are left.
using ReasonsOn = std::function<std::vector<Reason>(const JoinedMesh&)>;

/// `decided`: with the strategies of all parts, on the meshes of `fixed`. Axes that nobody has named are called `dp` and
/// `tp` after what they split.
SearchResult told(const Problem& problem, const CutProblem& decided, const FixedChoices& fixed,
                  const ReasonsOn& reasons_on);

}  // namespace shardwright::space
