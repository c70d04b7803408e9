// Rows that go to few of many experts are not brought to all devices that share these (lower/routed_rows.h).

#include "shardwright/lower/routed_rows.h"
#include "shardwright/passes/optimize.h"

namespace shardwright {

Program route_rows(Program program, const PassContext&) {
  program.graph = with_routed_rows(std::move(program.graph));
  return program;
}

}  // namespace shardwright
