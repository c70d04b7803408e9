#include "shardwright/runtime/backend/cpu/blocked.h"

namespace shardwright::cpu {

std::vector<Format> image_formats() { return {parse_format("aBcd16b"), parse_format("aBcd8b")}; }

int lanes_of(const Format& format) {
  for (const Format& f : image_formats())
    if (f == format) return static_cast<int>(f.block_of(1));
  return 0;
}

}  // namespace shardwright::cpu
