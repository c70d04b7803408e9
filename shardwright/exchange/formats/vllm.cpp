// vLLM: the YAML of `vllm serve --config`, for a network that is asked, not trained. Source: vllm/config/parallel.py.

#include "shardwright/exchange/plan_format.h"
#include "shardwright/exchange/words_left.h"

namespace shardwright::formats {
namespace {

/// Each replica takes requests of its own, and holds what tp and stages leave of the weights.
Exported write(const WrittenPlan& plan) {
  const Grid& grid = plan.grid_for("vLLM");
  WordsLeft left(plan);
  std::string body =
      fmt::format("tensor-parallel-size: {}\npipeline-parallel-size: {}\ndata-parallel-size: {}\n",
                  grid.of("tp"), grid.of("pp"), grid.of("dp"));
  const DType kept = plan.plan.origin.precision.compute;
  if (kept == DType::bf16 || kept == DType::f16 || kept == DType::f32) {
    body += fmt::format("dtype: {}\n", kept == DType::bf16  ? "bfloat16"
                                       : kept == DType::f16 ? "float16"
                                                            : "float32");
    left.take({"precision"});
  }
  if (const std::int64_t length = plan.what.sizes.of("seq"); length > 0)
    body += fmt::format("max-model-len: {}\n", length);
  left.take({"dp", "tp", "pp"});
  left.leave({"optimizer", "clip_norm", "loss_scale", "reduce_precision", "zero", "zero_group", "recompute",
              "schedule", "micro_batches", "micro_batch_interleave", "global_batch", "comm_fusion"},
             "is of training, and vLLM serves");
  left.leave({"sequence_parallel"}, "vLLM decides it by itself");
  left.leave({"offload"}, "cpu-offload-gb counts bytes of weights");
  left.leave({"operators split otherwise"}, "vLLM splits as --set with these degrees does");
  left.leave({"layers by stage", "layers cut"}, "vLLM cuts between layers, evenly");
  const std::vector<std::string> lines = left.lines();
  return {.text = head_text(plan, "vLLM", lines) + body, .not_carried = lines};
}

}  // namespace

std::vector<PlanFormat> vllm() {
  return {{.name = "vllm", .doc = "the YAML of vllm serve, to ask the network", .write = write}};
}

}  // namespace shardwright::formats
