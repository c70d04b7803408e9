#include "shardwright/cost/framework.h"

#include <algorithm>
#include <vector>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/base/unknown.h"

namespace shardwright {
namespace {

constexpr std::int64_t megabyte = 1'000'000, mebibyte = 1 << 20;

/// `f` under another name.
Framework called(Framework f, std::string name, std::string doc) {
  f.name = std::move(name);
  f.doc = std::move(doc);
  return f;
}

std::vector<Framework> table() {
  const Framework buckets{.name = "megatron",
                          .doc = "Megatron-LM until 2022 and Megatron-DeepSpeed",
                          .fixed_bytes = 2500 * megabyte,
                          .group_bytes = 500 * megabyte,
                          .gradient = {.bf16 = 8, .f16 = 4},
                          .score_bytes = 5,
                          .slack = 0.2};
  const Framework core{.name = "megatron-lm",
                       .doc = "Megatron-LM with Megatron Core",
                       .fixed_bytes = 84 * mebibyte,
                       .gradient = {.bf16 = 4, .f16 = 2, .f32 = 4},
                       .update_gradient = {.f16 = 4},
                       .keeps_gradients = true,
                       .copies_shared_parameters = true,
                       .vocabulary_multiple = 128,
                       .score_bytes = 2,
                       .mask_bytes = 1,
                       .reserve = 0.07};
  Framework short_moments =
      called(core, "megatron-bridge",
             "Megatron Core with its precision-aware optimizer, as Megatron-Bridge trains experts: "
             "gradients and moments in bf16");
  short_moments.gradient.bf16 = 2, short_moments.moment_bytes = 2;
  Framework fused_loss =
      called(core, "megatron-lm-fused-loss", "megatron-lm with --cross-entropy-loss-fusion");
  fused_loss.score_bytes = 6;
  const Framework shards{.name = "fsdp2",
                         .doc = "PyTorch FSDP with f32 masters in shards, gradients reduced in f32",
                         .fixed_bytes = 84 * mebibyte,
                         .gradient = {.bf16 = 4, .f16 = 4, .f32 = 4},
                         .keeps_gradients = true,
                         .keeps_short_weights = false,
                         .reserve = 0.07};
  Framework titan = called(shards, "torchtitan", "torchtitan: fsdp2, and casts that its layers keep");
  titan.slack = 0.09;
  const Framework ascend{
      .name = "mindspore", .doc = "MindSpore", .group_bytes = 400 * megabyte, .slack = 0.02};
  return {{.name = std::string(own_framework),
           .doc = "the planned arena is all there is",
           .keeps_routed_rows = false},
          core,
          short_moments,
          fused_loss,
          called(buckets, "megatron-deepspeed", "Megatron-DeepSpeed, as BigScience ran it"),
          {.name = "deepspeed",
           .doc = "DeepSpeed ZeRO",
           .fixed_bytes = 2500 * megabyte,
           .group_bytes = 500 * megabyte,
           .gradient = {.bf16 = 8, .f16 = 4},
           .slack = 0.2},
          shards,
          titan,
          called(ascend, "mindformers", "MindFormers, which is MindSpore"),
          buckets,
          {.name = "fsdp", .doc = "PyTorch FSDP", .group_bytes = 500 * megabyte, .slack = 0.05},
          ascend};
}

}  // namespace

std::span<const Framework> frameworks() {
  static const std::vector<Framework> all = table();
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
