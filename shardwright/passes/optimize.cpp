#include "shardwright/passes/optimize.h"

#include <array>

#include "shardwright/graph/verify.h"

namespace shardwright {

std::span<const Pass> all_passes() {
  static const std::array<Pass, 5> passes{{
      {"merge_common_subexpressions", merge_common_subexpressions},
      {"cancel_steps", cancel_steps},
      {"merge_steps", merge_steps},
      {"drop_dead_nodes", drop_dead_nodes},
      {"assign_buffers", assign_buffers},
  }};
  return passes;
}

Program optimize(Program program, const PassContext& context,
                 const std::function<void(const Pass&, const Program&)>& after) {
  for (const Pass& pass : all_passes()) {
    program = pass.run(std::move(program), context);
    try {
      verify(program.graph);
    } catch (const Error& e) {
      throw InternalError(fmt::format("after pass {}: {}", pass.name, e.what()));
    }
    if (after) after(pass, program);
  }
  return program;
}

}  // namespace shardwright
