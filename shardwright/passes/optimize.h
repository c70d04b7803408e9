// Passes: program -> program, one function a file; `optimize` is the ordered list of them.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "shardwright/cost/cluster.h"
#include "shardwright/layout/redistribution.h"
#include "shardwright/lower/program.h"
#include "shardwright/passes/formats.h"
#include "shardwright/plan/comm_fusion.h"
#include "shardwright/plan/offload.h"

namespace shardwright {

struct PassContext {
  Redistributor& redistributor;
  FormatsOf formats = {};  // of the backend that the program is for; none: everything is row-major
  CommFusion fusion = {};
  Offload offload = {};
  const Cluster* cluster =
      nullptr;            // by whose prices parts of micro-batches take turns; none: all takes the same
  bool is_piece = false;  // of a step without stages, whatever it receives and sends
};

struct Pass {
  std::string name;
  Program (*run)(Program, const PassContext&);
};

/// Takes out nodes whose result is their operand.
Program drop_identities(Program program, const PassContext& context);
/// Merges nodes that compute the same from the same operands.
Program merge_common_subexpressions(Program program, const PassContext& context);
/// A step that leads back to a layout in which the value already exists is replaced by that.
Program cancel_steps(Program program, const PassContext& context);
/// A chain of steps, seen by nobody in between, is replaced by the cheapest redistribution between its ends.
Program merge_steps(Program program, const PassContext& context);
/// Drops nodes that nothing needs.
Program drop_dead_nodes(Program program, const PassContext& context);
/// A step that only other steps read is left out where these cost less from its operand.
Program bypass_steps(Program program, const PassContext& context);
/// Lets steps move of rows that go to few of many experts only those that are read.
Program route_rows(Program program, const PassContext& context);
/// Lets values lie in the memory formats that the backend's kernels like.
Program choose_formats(Program program, const PassContext& context);
/// Lets chains of point-wise nodes run together, also behind a node that makes its result by rows.
Program fuse_pointwise(Program program, const PassContext& context);
/// Lets collectives over the same axes run as one: sums of gradients, and gathers.
Program fuse_collectives(Program program, const PassContext& context);
/// Cuts micro-batches into parts, which take turns where they communicate.
Program interleave_parts(Program program, const PassContext& context);
/// Puts what the plan keeps on the host there.
Program offload(Program program, const PassContext& context);
/// Lets gathers of weights, and fetches, start ahead of their use.
Program prefetch_gathers(Program program, const PassContext& context);
/// Gives every value that lies in memory its place in the arena.
Program assign_buffers(Program program, const PassContext& context);
/// Lets transfers start before the nodes that wait for them.
Program start_transfers(Program program, const PassContext& context);

/// All passes, in their order.
std::span<const Pass> all_passes();

/// Sees the program after a pass, and how long that took.
using AfterPass = std::function<void(const Pass&, const Program&, double seconds)>;

struct OptimizeOptions {
  AfterPass after = {};
  bool verifies = true;  // the graph after each pass; a third of the time
};

/// Runs all passes. Throws: InternalError if one leaves a graph that is none.
Program optimize(Program program, const PassContext& context, const OptimizeOptions& options = {});

}  // namespace shardwright
