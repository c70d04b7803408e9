// Megatron-Bridge: a recipe, a function in Python that returns a ConfigContainer; its members are Megatron-Core's fields.
// Source: src/megatron/bridge/recipes, src/megatron/bridge/training/config.py.

#include "shardwright/exchange/megatron_settings.h"
#include "shardwright/exchange/plan_format.h"
#include "shardwright/exchange/python/text.h"

namespace shardwright::formats {
namespace {

/// What a provider of a model calls a field of an architecture, and how it says it; empty: it follows from another.
std::string argument_of(const MegatronField& field) {
  const std::string& name = field.name;
  if (name == "max_position_embeddings" || name == "group_query_attention") return "";
  if (name == "swiglu") return "gated_linear_unit=True, activation_func=F.silu";
  if (name == "untie_embeddings_and_output_weights") return "share_embeddings_and_output_weights=False";
  if (name == "disable_bias_linear") return "add_bias_linear=False";
  return name + "=" + python_text(field.value);
}

std::string member_of(const MegatronField& field) {
  if (field.name == "bf16" || field.name == "fp16")
    return fmt::format("cfg.mixed_precision = \"{}_mixed\"", field.name);
  const bool is_virtual = field.name == "num_virtual_stages_per_pipeline_rank";
  return fmt::format("cfg.{}.{} = {}", field.of,
                     is_virtual ? "virtual_pipeline_model_parallel_size" : field.name,
                     python_text(field.value));
}

Exported write(const WrittenPlan& plan) {
  WordsLeft left(plan);
  std::string provider, members;
  for (const MegatronField& f : megatron_fields(plan, left)) {
    if (f.of != "architecture")
      members += "    " + member_of(f) + "\n";
    else if (const std::string argument = argument_of(f); !argument.empty())
      provider += "        " + argument + ",\n";
    if (f.name == "seq_length") members += fmt::format("    cfg.dataset.seq_length = {}\n", f.value.dump());
  }
  const std::vector<std::string> lines = left.lines();
  Exported out{.text = head_text(plan, "Megatron-Bridge", lines), .not_carried = lines};
  out.text +=
      "import torch.nn.functional as F\n"
      "from megatron.bridge.models.gpt_provider import GPTModelProvider\n"
      "from megatron.bridge.recipes.common import _pretrain_common\n"
      "from megatron.bridge.training.config import ConfigContainer\n\n\n"
      "def recipe() -> ConfigContainer:\n"
      "    cfg = _pretrain_common()\n";
  out.text += provider.empty() ? "    # cfg.model is the provider of the network.\n"
                               : "    cfg.model = GPTModelProvider(\n" + provider + "    )\n";
  out.text += members + "    return cfg\n";
  return out;
}

}  // namespace

std::vector<PlanFormat> megatron_bridge() {
  return {{.name = "megatron-bridge",
           .doc = "a recipe of Megatron-Bridge, a function in Python",
           .write = write}};
}

}  // namespace shardwright::formats
