// Lowering: a planned graph becomes the program that every rank runs. The only place where communication is
// born: wherever the layout a value has is not the one its user needs, redistribution steps are inserted.
//
// All layouts in which a value already exists are kept, and a redistribution starts from the cheapest. What
// was reduced or gathered once is shared by all later users, except a gathered parameter, which is shared
// within a phase only (its storage is split to save memory; the backward gathers it again).
#pragma once

#include "shardwright/graph/graph.h"
#include "shardwright/layout/redistribution.h"
#include "shardwright/lower/program.h"

namespace shardwright {

/// Of what the forward has gathered the backward finds the part that a rank had, unless it is so little that starting
/// takes longer than moving it. Weights are gathered again in any case, and what goes round does so again.
bool is_gathered_again(const Step& step, const Type& type, Redistributor& redistributor);

/// Lowers a graph whose compute nodes all have strategies and whose leaves have layouts (plan/complete.h).
/// A compute value with a layout of its own is brought into it before anybody uses it (out_strategy,
/// outputs). `redistributor` must be made for `graph.meshes` with `even_only`. Throws: Error naming the node
/// if a strategy or layout does not fit. `order`: in how many blocks its sequence stands (sequence_order.h).
Program lower(const Graph& graph, Redistributor& redistributor, std::int64_t order = 0);

}  // namespace shardwright
