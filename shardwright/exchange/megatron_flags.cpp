#include "shardwright/exchange/megatron_flags.h"

#include <algorithm>
#include <array>

#include "shardwright/base/given.h"
#include "shardwright/base/text.h"
#include "shardwright/exchange/command_text.h"

namespace shardwright {
namespace {

/// Flags that say something of a plan. Switches take no value.
constexpr std::array megatron_values{"tensor-model-parallel-size",
                                     "pipeline-model-parallel-size",
                                     "context-parallel-size",
                                     "cp-comm-type",
                                     "hierarchical-context-parallel-sizes",
                                     "expert-model-parallel-size",
                                     "expert-tensor-parallel-size",
                                     "num-layers-per-virtual-pipeline-stage",
                                     "num-virtual-stages-per-pipeline-rank",
                                     "pipeline-model-parallel-layout",
                                     "decoder-first-pipeline-num-layers",
                                     "decoder-last-pipeline-num-layers",
                                     "micro-batch-size",
                                     "global-batch-size",
                                     "num-distributed-optimizer-instances",
                                     "data-parallel-sharding-strategy",
                                     "recompute-granularity",
                                     "recompute-method",
                                     "recompute-num-layers",
                                     "recompute-modules",
                                     "optimizer-offload-fraction",
                                     "num-layers",
                                     "hidden-size",
                                     "num-attention-heads",
                                     "num-query-groups",
                                     "ffn-hidden-size",
                                     "seq-length",
                                     "max-position-embeddings",
                                     "vocab-size",
                                     "padded-vocab-size",
                                     "position-embedding-type",
                                     "normalization",
                                     "optimizer",
                                     "lr",
                                     "weight-decay",
                                     "adam-beta1",
                                     "adam-beta2",
                                     "adam-eps",
                                     "exp-avg-dtype",
                                     "exp-avg-sq-dtype",
                                     "main-grads-dtype",
                                     "sgd-momentum",
                                     "clip-grad",
                                     "loss-scale",
                                     "initial-loss-scale",
                                     "loss-scale-window"};
constexpr std::array megatron_switches{"sequence-parallel",
                                       "tp-comm-overlap",
                                       "use-distributed-optimizer",
                                       "use-precision-aware-optimizer",
                                       "cross-entropy-loss-fusion",
                                       "use-megatron-fsdp",
                                       "account-for-embedding-in-pipeline-split",
                                       "account-for-loss-in-pipeline-split",
                                       "recompute-activations",
                                       "optimizer-cpu-offload",
                                       "bf16",
                                       "fp16",
                                       "group-query-attention",
                                       "swiglu",
                                       "disable-bias-linear",
                                       "add-qkv-bias",
                                       "untie-embeddings-and-output-weights",
                                       "grad-reduce-in-bf16",
                                       "accumulate-allreduce-grads-in-fp32"};
/// They ask for what there is not here, or what is so anyway.
constexpr std::array megatron_others{"hybrid-context-parallel",
                                     "max-seqlen-per-dp-cp-rank",
                                     "microbatch-group-size-per-vp-stage",
                                     "outer-dp-sharding-strategy",
                                     "overlap-grad-reduce",
                                     "overlap-param-gather",
                                     "overlap-p2p-communication",
                                     "main-params-dtype",
                                     "cpu-offloading",
                                     "cpu-offloading-num-layers",
                                     "overlap-cpu-optimizer-d2h-h2d",
                                     "fine-grained-activation-offloading",
                                     "offload-modules",
                                     "activation-offload-fraction",
                                     "delta-offload-bytes-across-pp-ranks",
                                     "overlap-moe-expert-parallel-comm",
                                     "delay-wgrad-compute",
                                     "fake-process-group",
                                     "use-mcore-models",
                                     "transformer-impl",
                                     "use-flash-attn",
                                     "attention-backend",
                                     "no-gradient-accumulation-fusion",
                                     "no-async-tensor-model-parallel-allreduce",
                                     "hidden-dropout",
                                     "attention-dropout",
                                     "init-method-std",
                                     "norm-epsilon",
                                     "layernorm-epsilon",
                                     "rotary-base",
                                     "rotary-percent",
                                     "use-rotary-position-embeddings",
                                     "use-rope-scaling",
                                     "no-rope-fusion",
                                     "make-vocab-size-divisible-by",
                                     "kv-channels",
                                     "num-experts",
                                     "train-iters",
                                     "train-samples",
                                     "rampup-batch-size",
                                     "seed",
                                     "split",
                                     "exit-interval",
                                     "distributed-backend",
                                     "distributed-timeout-minutes",
                                     "mock-data",
                                     "vocab-file",
                                     "merge-file",
                                     "no-masked-softmax-fusion",
                                     "no-bias-swiglu-fusion",
                                     "no-bias-gelu-fusion",
                                     "manual-gc",
                                     "use-legacy-models",
                                     "no-create-attention-mask-in-dataloader",
                                     "nproc-per-node",
                                     "nnodes",
                                     "node-rank",
                                     "master-addr",
                                     "master-port",
                                     "rdzv-id",
                                     "rdzv-backend",
                                     "rdzv-endpoint",
                                     "apply-layernorm-1p",
                                     "squared-relu",
                                     "enable-cuda-graph",
                                     "calculate-per-token-loss",
                                     "ddp-bucket-size",
                                     "ddp-num-buckets",
                                     "no-check-for-nan-in-loss-and-grad",
                                     "override-opt-param-scheduler",
                                     "use-checkpoint-args",
                                     "no-initialization",
                                     "qk-layernorm",
                                     "num-workers",
                                     "dataloader-type",
                                     "reset-position-ids",
                                     "reset-attention-mask",
                                     "eod-mask-loss",
                                     "sgd-dampening",
                                     "no-rope-freq",
                                     "min-loss-scale",
                                     "hysteresis",
                                     "no-gradient-reduce-div-fusion"};
constexpr std::array megatron_families{"data-",
                                       "log-",
                                       "tensorboard-",
                                       "wandb-",
                                       "save",
                                       "load",
                                       "ckpt-",
                                       "no-load-",
                                       "no-save-",
                                       "tokenizer-",
                                       "eval-",
                                       "exit-",
                                       "timing-",
                                       "profile",
                                       "lr-",
                                       "min-lr",
                                       "moe-",
                                       "mtp-",
                                       "use-dist-ckpt",
                                       "fp8-",
                                       "fp4-",
                                       "non-persistent-",
                                       "train-data-",
                                       "valid-data-",
                                       "test-data-",
                                       "dist-ckpt-",
                                       "rerun-",
                                       "inference-",
                                       "use-pytorch-profiler",
                                       "high-priority-",
                                       "start-weight-decay",
                                       "end-weight-decay",
                                       "weight-decay-incr-style",
                                       "cuda-graph-",
                                       "context-parallel-",
                                       "async-save"};

template <std::size_t n>
bool is_among(const std::array<const char*, n>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_of_no_plan(const std::string& name) {
  return is_among(megatron_others, name) ||
         std::ranges::any_of(megatron_families, [&](const char* f) { return name.starts_with(f); });
}

std::vector<std::string> heeded_flags() {
  std::vector<std::string> out;
  for (const char* name : megatron_values) out.emplace_back(name);
  for (const char* name : megatron_switches) out.emplace_back(name);
  return out;
}

void check_value(const CommandFlag& flag) {
  if (flag.values.empty()) throw error("--{}: its value is missing", flag.name);
  if (flag.values.front().find('$') != std::string::npos)
    throw error("--{} {}: the file does not say what that is; write a value", flag.name, flag.values.front());
}

}  // namespace

MegatronFlags::MegatronFlags(const std::string& text) {
  const std::vector<std::string> known = heeded_flags();
  for (CommandFlag& flag : flags_in(text)) {
    if (std::ranges::find(known, flag.name) == known.end()) {
      if (!is_of_no_plan(flag.name))
        throw error("--{}: is no flag of Megatron-LM that is known here{}", flag.name,
                    near_names(flag.name, known));
      if (std::ranges::find(idle_, "--" + flag.name) == idle_.end()) idle_.push_back("--" + flag.name);
      continue;
    }
    const bool takes_value = is_among(megatron_values, flag.name);
    if (takes_value) check_value(flag);
    const auto it = flags_.find(flag.name);
    if (it != flags_.end() && takes_value && it->second.front() != flag.values.front())
      throw error("--{} is said twice, {} and {}", flag.name, it->second.front(), flag.values.front());
    flags_[flag.name] = std::move(flag.values);
  }
}

bool MegatronFlags::is_on(const std::string& name) const {
  return has(name) && text(name) != "false" && text(name) != "0";
}

std::string MegatronFlags::text(const std::string& name) const {
  const auto it = flags_.find(name);
  return it == flags_.end() || it->second.empty() ? "" : it->second.front();
}

Keyed MegatronFlags::count(const std::string& name, std::int64_t otherwise) const {
  if (!has(name)) return {"--" + name, otherwise};
  return {"--" + name, Given{"--" + name, text(name)}.integer()};
}

}  // namespace shardwright
