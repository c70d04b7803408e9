#include "shardwright/cli/meanings.h"

#include <algorithm>
#include <array>
#include <vector>

#include "shardwright/base/text.h"
#include "shardwright/base/unknown.h"
#include "shardwright/cli/verb.h"
#include "shardwright/plan/constraints.h"

namespace shardwright {
namespace {

/// `{}` stands for the value.
struct Meaning {
  std::string_view words;  // without hyphens in front, with them between
  std::string_view here;
};

// Megatron-LM, DeepSpeed, torchrun, torchtitan, Hugging Face, MindFormers and msrun say so.
constexpr std::array meanings{
    Meaning{
        "gpus num-gpus ngpus n-gpus ngpu nproc nproc-per-node world-size num-devices device-num worker-num",
        "--devices {}"},
    Meaning{"nodes nnodes num-nodes", "--cluster PRESET:{}xPER_NODE"},
    Meaning{"gpu gpu-type accelerator hardware machine", "--cluster {}"},
    Meaning{"dtype torch-dtype params-dtype mixed-precision amp compute-dtype", "--precision {}"},
    Meaning{"bf16 bfloat16", "--precision bf16"},
    Meaning{"fp16 half float16", "--precision fp16"},
    Meaning{"fp32 float32", "--precision f32"},
    Meaning{"learning-rate lr-rate rate", "--lr {}"},
    Meaning{"batch bs train-batch-size minibatch-size batchsize", "--global-batch {}"},
    Meaning{"micro-batch micro-batch-size train-micro-batch-size-per-gpu per-device-train-batch-size mbs",
            "--fix micro_batch={}"},
    Meaning{"gradient-accumulation-steps gradient-accumulation grad-accum num-microbatches num-micro-batches "
            "micro-batch-num",
            "--micro-batches {}"},
    Meaning{"tensor-model-parallel-size tensor-parallel-size tensor-parallel-degree tensor-parallel "
            "model-parallel model-parallel-size tp-size",
            "--fix tp={}"},
    Meaning{"pipeline-model-parallel-size pipeline-parallel-size pipeline-parallel-degree pipeline-parallel "
            "pipeline-stage pipeline-stages pp-size",
            "--fix pp={}"},
    Meaning{"data-parallel-size data-parallel data-parallel-degree dp-size", "--fix dp={}"},
    Meaning{"context-parallel context-parallel-size context-parallel-degree cp-size", "--fix cp={}"},
    Meaning{"expert-parallel expert-parallel-size expert-model-parallel-size ep-size", "--fix ep={}"},
    Meaning{"num-virtual-stages-per-pipeline-rank virtual-stages pp-interleave-num",
            "--schedule interleaved:{}"},
    Meaning{"zero-stage zero-optimization optimizer-level", "--optimizer-parallel {}"},
    Meaning{"use-distributed-optimizer enable-parallel-optimizer", "--optimizer-parallel 1"},
    Meaning{"fsdp fully-shard use-megatron-fsdp", "--optimizer-parallel 3"},
    Meaning{"sequence-parallel enable-sequence-parallel use-seq-parallel", "--fix sequence_parallel=1"},
    Meaning{"gradient-checkpointing activation-checkpointing checkpoint-activations ac", "--recompute full"},
    Meaning{"recompute-granularity recompute-method", "--recompute selected, or full"},
    Meaning{"seq seq-len seq-length sequence-length max-seq-len max-seq-length block-size", "MODEL:seq={}"},
    Meaning{"layers num-layers n-layers num-hidden-layers", "MODEL:layers={}"},
    Meaning{"hidden hidden-size d-model", "MODEL:hidden={}"},
    Meaning{"heads num-heads num-attention-heads", "MODEL:heads={}"},
    Meaning{"vocab vocab-size", "MODEL:vocab={}"},
    Meaning{"model model-name model-name-or-path", "{} without a flag"},
    Meaning{"max-steps train-iters iters iterations num-steps train-steps", "--steps {}"},
    Meaning{"num-epochs num-train-epochs epoch epoch-num", "--epochs {}"},
    Meaning{"save-dir output-dir ckpt-dir checkpoint-dir", "--save {}"},
    Meaning{"save-interval save-steps", "--save-every {}"},
    Meaning{"load resume-from resume-from-checkpoint load-checkpoint", "--resume {}"},
    Meaning{"data-path data-dir dataset dataset-path train-data", "--data {}"},
    Meaning{"eval-interval eval-steps", "--eval-every {}"},
    Meaning{"log-interval logging-steps", "--log-every {}"},
    Meaning{"memory mem gpu-memory max-memory max-device-memory", "--memory-cap {}"},
    Meaning{"wd", "--weight-decay {}"},
    Meaning{"clip clip-grad grad-clip max-grad-norm gradient-clip", "--clip-norm {}"},
    Meaning{"optim optimizer-name", "--optimizer {}"},
    Meaning{"warmup-steps lr-warmup-steps lr-warmup-iters", "--warmup {}"},
    Meaning{"lr-decay-style lr-scheduler-type scheduler", "--lr-schedule {}"},
    Meaning{"out output output-file", "-o {}"},
    Meaning{"config-file yaml conf", "--config {}"},
    Meaning{"strategy-file strategy-ckpt-load-file", "--strategy {}"},
    Meaning{"strategy-ckpt-save-file", "--save-strategy {}"},
    Meaning{"time-limit timeout max-search-time", "--search-time {}"},
    Meaning{"v verbose debug", "--log-search"},
};

/// `tensor-model-parallel-size`, however it is written.
std::string plain(std::string_view flag) {
  std::string out = lower(flag.substr(std::min(flag.find_first_not_of('-'), flag.size())));
  std::ranges::replace(out, '_', '-');
  return out;
}

bool has_flag(const Verb& verb, std::string_view name) {
  return std::ranges::any_of(verb.flags, [&](const Flag& f) { return f.name == name || f.alias == name; });
}

/// Where there is no --fix, as another flag that takes its words says it.
std::string in_words_of(const Verb& verb, std::string text) {
  if (!text.starts_with("--fix ")) return text;
  for (std::string_view flag : {"--fix", "--set", "--why-not"})
    if (has_flag(verb, flag)) return std::string(flag) + text.substr(5);
  return "";
}

/// Nothing if the verb has no such flag, or takes no model.
std::string said(const Verb& verb, std::string_view here, std::string_view value) {
  std::string text(here);
  if (const std::size_t at = text.find("{}"); at != text.npos)
    text.replace(at, 2, value.empty() ? ".." : value);
  text = in_words_of(verb, std::move(text));
  if (text.starts_with('-')) return has_flag(verb, text.substr(0, text.find(' '))) ? text : "";
  const bool takes_model =
      !verb.positionals.empty() && verb.positionals[0].find("MODEL") != std::string::npos;
  return takes_model ? text : "";
}

std::string by_meaning(std::string_view word, std::string_view value, const Verb& verb) {
  for (const Meaning& m : meanings)
    for (std::string_view known : split(m.words, ' '))
      if (known == word) return said(verb, m.here, value);
  std::string key(word);
  std::ranges::replace(key, '-', '_');
  if (std::ranges::find(constraint_words(), key, &ConstraintWord::name) == constraint_words().end())
    return "";
  return said(verb, "--fix " + key + "={}", value);
}

}  // namespace

std::string meant_by(std::string_view flag, std::string_view value, const Verb& verb) {
  std::vector<std::string> known, longer;
  for (const Flag& f : verb.flags) {
    known.push_back(f.name);
    if (f.name.starts_with(flag)) longer.push_back(f.name);
  }
  const std::string meant = by_meaning(plain(flag), value, verb);
  if (meant.empty()) return near_names(flag, known);
  std::erase(longer, meant.substr(0, meant.find(' ')));
  if (longer.empty()) return fmt::format(" (did you mean {}?)", meant);
  return fmt::format(" (did you mean {} or {}?)", longer.front(), meant);
}

}  // namespace shardwright
