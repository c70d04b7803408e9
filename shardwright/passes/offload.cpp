// What the plan keeps in memory of the host goes there, and comes from there (lower/offload.h): when the order of all else
// stands, so that fetches are ahead of it.

#include "shardwright/lower/offload.h"

#include "shardwright/passes/optimize.h"

namespace shardwright {

Program offload(Program program, const PassContext& context) {
  return with_offload(std::move(program), context.offload);
}

}  // namespace shardwright
