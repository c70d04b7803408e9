#include "shardwright/simulate/work_json.h"

namespace shardwright {

Json work_json(const Work& work) {
  if (work.flops == 0 && work.bytes == 0) return {};
  return {{"kind", name_of(work.kind)}, {"type", name_of(work.dtype)},   {"flops", work.flops},
          {"bytes", work.bytes},        {"is_ordered", work.is_ordered}, {"cached_bytes", work.cached}};
}

}  // namespace shardwright
