// Passes: program -> program, one function a file; `optimize` is the ordered list of them.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "shardwright/layout/redistribution.h"
#include "shardwright/lower/program.h"

namespace shardwright {

struct PassContext {
  Redistributor& redistributor;
};

struct Pass {
  std::string name;
  Program (*run)(Program, const PassContext&);
};

/// Merges nodes that compute the same from the same operands.
Program merge_common_subexpressions(Program program, const PassContext& context);
/// A step that leads back to a layout in which the value already exists is replaced by that.
Program cancel_steps(Program program, const PassContext& context);
/// A chain of steps, seen by nobody in between, is replaced by the cheapest redistribution between its ends.
Program merge_steps(Program program, const PassContext& context);
/// Drops nodes that nothing needs.
Program drop_dead_nodes(Program program, const PassContext& context);
/// Gives every value its place in the arena.
Program assign_buffers(Program program, const PassContext& context);

/// All passes, in their order.
std::span<const Pass> all_passes();

/// Runs all passes; the graph is verified after each. `after` (if any) sees the program after each pass.
Program optimize(Program program, const PassContext& context,
                 const std::function<void(const Pass&, const Program&)>& after = {});

}  // namespace shardwright
