#include "shardwright/graph/rewrite.h"
#include "shardwright/passes/optimize.h"

namespace shardwright {

Program drop_dead_nodes(Program program, const PassContext&) {
  program.graph = without_dead_nodes(std::move(program.graph));
  return program;
}

}  // namespace shardwright
