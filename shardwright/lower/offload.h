// Memory of the host: what of a program lies there and what runs there, and the copies between it and the device.
//
// Parameters, states and activations that a plan keeps on the host are brought to the device for those who read them, by a
// `fetch` for each phase, and back by an `evict`. What runs on the host (Node::space) gets its operands by an evict and
// gives its results by a fetch. Both are steps as others are: they start early and are waited for late, so that what lies
// between hides them.
#pragma once

#include "shardwright/lower/program.h"
#include "shardwright/plan/offload.h"

namespace shardwright {

/// A planned graph whose nodes of the operators that `offload` names run on the host, with the backward, the parameters and
/// the updates that belong to them (Node::owner). Operators of other stages are passed over.
Graph with_hosted(Graph graph, const Offload& offload);

/// The program with what `offload` keeps on the host there. The order of its nodes stays.
Program with_offload(Program program, const Offload& offload);

}  // namespace shardwright
