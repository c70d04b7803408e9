#include "shardwright/passes/optimize.h"

#include <array>
#include <chrono>

#include "shardwright/graph/verify.h"

namespace shardwright {
namespace {

void verify_after(const Pass& pass, const Graph& graph) {
  try {
    verify(graph);
  } catch (const Error& e) {
    throw InternalError(fmt::format("after pass {}: {}", pass.name, e.what()));
  }
}

}  // namespace

std::span<const Pass> all_passes() {
  static const std::array<Pass, 15> passes{{
      {"drop_identities", drop_identities},
      {"merge_common_subexpressions", merge_common_subexpressions},
      {"cancel_steps", cancel_steps},
      {"merge_steps", merge_steps},
      {"drop_dead_nodes", drop_dead_nodes},
      {"bypass_steps", bypass_steps},
      {"route_rows", route_rows},
      {"choose_formats", choose_formats},
      {"fuse_pointwise", fuse_pointwise},
      {"fuse_collectives", fuse_collectives},
      {"interleave_parts", interleave_parts},
      {"offload", offload},
      {"prefetch_gathers", prefetch_gathers},
      {"assign_buffers", assign_buffers},
      {"start_transfers", start_transfers},
  }};
  return passes;
}

Program optimize(Program program, const PassContext& context, const OptimizeOptions& options) {
  for (const Pass& pass : all_passes()) {
    const auto start = std::chrono::steady_clock::now();
    program = pass.run(std::move(program), context);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (options.verifies) verify_after(pass, program.graph);
    if (options.after) options.after(pass, program, taken.count());
  }
  return program;
}

}  // namespace shardwright
