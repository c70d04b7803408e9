#include "shardwright/cost/framework.h"

#include <algorithm>
#include <vector>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/base/unknown.h"

namespace shardwright {

std::span<const Framework> frameworks() {
  constexpr std::int64_t megabyte = 1'000'000;
  static const std::vector<Framework> all{
      {.name = std::string(own_framework), .doc = "the planned arena is all there is"},
      {.name = "megatron",
       .doc = "Megatron-LM and Megatron-DeepSpeed",
       .fixed_bytes = 2500 * megabyte,
       .group_bytes = 500 * megabyte,
       .bf16_gradient = 8,
       .f16_gradient = 4,
       .score_bytes = 5,
       .slack = 0.2},
      {.name = "fsdp", .doc = "PyTorch FSDP", .group_bytes = 500 * megabyte, .slack = 0.05},
      {.name = "mindspore", .doc = "MindSpore", .group_bytes = 400 * megabyte, .slack = 0.02}};
  return all;
}

const Framework& framework_called(std::string_view name) {
  std::vector<std::string> known;
  for (const Framework& f : frameworks()) {
    if (f.name == name) return f;
    known.push_back(f.name);
  }
  throw unknown("framework", name, known);
}

}  // namespace shardwright
