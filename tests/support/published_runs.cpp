#include "tests/support/published_runs.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "shardwright/base/text.h"

namespace shardwright {
namespace {

using Json = nlohmann::json;

std::string text(const Json& row, const char* key) {
  const auto it = row.find(key);
  return it != row.end() && it->is_string() ? it->get<std::string>() : "";
}
double number(const Json& row, const char* key) {
  const auto it = row.find(key);
  return it != row.end() && it->is_number() ? it->get<double>() : 0;
}
std::int64_t integer(const Json& row, const char* key) { return static_cast<std::int64_t>(number(row, key)); }
bool is_on(const Json& row, const char* key) {
  const auto it = row.find(key);
  return it != row.end() && it->is_boolean() && it->get<bool>();
}
bool has(const std::string& text, const char* part) { return text.find(part) != text.npos; }

/// Rows that are left out.
bool is_left_out(const Json& row) {
  const std::string id = text(row, "id"), model = text(row, "model");
  for (const char* key : {"layers", "hidden", "heads", "seq", "vocab", "dp", "tp", "pp"})
    if (integer(row, key) == 0) return true;
  for (const char* word : {"lora", "moe", "mixtral", "deepseek-v2", "deepseek_v2", "deepseekv2"})
    if (has(id, word) || has(model, word)) return true;
  if (integer(row, "ep") > 1 || integer(row, "cp") > 1 || has(text(row, "precision"), "fp8")) return true;
  if (has(text(row, "certainty"), "IMPLAUSIBLE")) return true;
  // "depth was tweaked": 80 layers of 14400 are no 20 billion parameters.
  if (text(row, "group") == "bigscience_a100_tuning" && has(model, "20B")) return true;
  return row.contains("recompute") && row["recompute"].is_array();
}

/// The kind of machine, with the sources' words for it.
std::string cluster_of(const Json& row) {
  const std::string hardware = text(row, "hardware");
  const std::vector<std::pair<const char*, const char*>> kinds{{"V100-16GB JeanZay", "jeanzay-v100-16g"},
                                                               {"V100-32GB JeanZay", "jeanzay-v100-32g"},
                                                               {"JeanZay", "jeanzay-a100-80g"},
                                                               {"a100_40gb", "a100-40g"},
                                                               {"H100 96GB HBM2e", "h100-96g"},
                                                               {"H200", "h200"},
                                                               {"Atlas 900 A2 PoDc", "ascend910b-podc"},
                                                               {"910B", "ascend910b"},
                                                               {"h100", "h100"},
                                                               {"H100", "h100"},
                                                               {"a100_80gb", "a100-80g"},
                                                               {"A100", "a100-80g"}};
  for (const auto& [word, kind] : kinds)
    if (has(hardware, word)) return kind;
  return "";
}

/// Families of the zoo. Where a source gives no inner width, it follows from its rule.
std::string model_of(const Json& row) {
  const std::string name = text(row, "model"), arch = text(row, "arch");
  std::string family = "llama";
  if (has(arch, "gpt") || has(name, "gpt2")) family = "gpt";
  if (has(name, "pangualpha")) family = "pangualpha-13b";
  if (has(name, "baichuan2_13b") || has(name, "baichuan2-13b")) family = "baichuan2-13b";
  if (has(name, "wen")) family = "qwen-7b";
  const std::int64_t tp = integer(row, "tp"), hidden = integer(row, "hidden");
  std::int64_t vocabulary = integer(row, "vocab"), ffn = integer(row, "ffn");
  const bool is_megatron = has(text(row, "group"), "megatron") || has(text(row, "group"), "bigscience");
  const std::int64_t padded = 128 * tp;  // --make-vocab-size-divisible-by
  if (is_megatron) vocabulary = (vocabulary + padded - 1) / padded * padded;
  if (ffn == 0 && (family == "gpt" || family == "pangualpha-13b")) ffn = 4 * hidden;
  if (ffn == 0) {
    const std::int64_t multiple = std::max<std::int64_t>(1, integer(row, "multiple_of"));
    const double wider = number(row, "ffn_dim_multiplier");
    const auto width =
        static_cast<std::int64_t>((wider > 0 ? wider : 1) * static_cast<double>(8 * hidden / 3));
    ffn = (width + multiple - 1) / multiple * multiple;
  }
  std::string out =
      fmt::format("{}:layers={},hidden={},heads={},ffn={},vocab={},seq={}", family, integer(row, "layers"),
                  hidden, integer(row, "heads"), ffn, vocabulary, integer(row, "seq"));
  const std::int64_t kv_heads = integer(row, "kv_heads");
  if (kv_heads > 0 && family != "gpt" && family != "pangualpha-13b")
    out += fmt::format(",kv_heads={}", kv_heads);
  return out;
}

std::string framework_of(const std::string& group) {
  if (group == "llm_foundry_fsdp") return "fsdp2";
  if (group == "torchtitan_benchmarks") return "torchtitan";
  if (group == "mindformers_ascend") return "mindformers";
  return has(group, "bigscience") ? "megatron-deepspeed" : "megatron-lm";
}

/// Megatron's runs before 2023 and what MindFormers says of itself are without; all else has flash attention.
bool has_flash(const Json& row, const std::string& group) {
  if (row.contains("flash_attention") && row["flash_attention"].is_boolean())
    return is_on(row, "flash_attention");
  if (group == "mindformers_ascend") return false;
  return group == "llm_foundry_fsdp" || group == "torchtitan_benchmarks" ||
         group == "megatron_core_h100_weak";
}

std::string recompute_of(const Json& row) {
  const std::string said = text(row, "activation_recompute"), mode = text(row, "recompute_mode");
  if (has(said, "full") || mode == "full" || is_on(row, "recompute")) return "full";
  const bool is_selected = has(said, "selective") || has(mode, "sel") || is_on(row, "select_recompute");
  return is_selected ? "selected" : "none";
}

std::string schedule_of(const Json& row) {
  const std::int64_t pp = integer(row, "pp"), layers = integer(row, "layers");
  std::int64_t chunks = std::max<std::int64_t>(1, integer(row, "interleave"));
  // Where the degree is not listed: the least that divides the layers of a stage.
  if (has(text(row, "schedule"), "nterleaved") && chunks == 1)
    for (chunks = 2; chunks < layers / pp && layers % (pp * chunks) != 0;) ++chunks;
  return pp > 1 && chunks > 1 && layers % (pp * chunks) == 0 ? fmt::format("interleaved:{}", chunks) : "1f1b";
}

bool has_sequence_parallel(const Json& row, const std::string& group) {
  if (row.contains("sequence_parallel")) return is_on(row, "sequence_parallel");
  const bool is_usual = group == "torchtitan_benchmarks" || group == "megatron_core_h100_weak";
  return (is_usual || text(row, "recompute_mode") == "seqsel") && integer(row, "tp") > 1;
}

int zero_of(const Json& row, const std::string& group) {
  if (row.contains("zero_stage")) return static_cast<int>(integer(row, "zero_stage"));
  if (is_on(row, "optimizer_parallel")) return 2;  // MindSpore's level 1 scatters gradients, too
  return group == "megatron_core_h100_weak" ? 1
                                            : 0;  // --overlap-param-gather is of the distributed optimizer
}

struct Batch {
  std::int64_t micro = 1, global = 1;
};
Batch batch_of(const Json& row) {
  const std::int64_t dp = integer(row, "dp");
  std::int64_t micro = integer(row, "micro_batch"), global = integer(row, "global_batch");
  if (micro == 0)
    micro = integer(row, "local_batch") > 0 && integer(row, "pp") == 1 ? integer(row, "local_batch") : 1;
  if (global == 0) global = dp * std::max(micro, integer(row, "local_batch"));
  return {micro, global};
}

/// As the source measures it: seconds, tokens, or the flops of its formula.
std::optional<double> seconds_of(const Json& row, const std::string& group, double tokens) {
  const double devices = number(row, "gpus");
  if (number(row, "iter_time_s") > 0) return number(row, "iter_time_s");
  if (number(row, "tokens_per_s_per_gpu") > 0) return tokens / number(row, "tokens_per_s_per_gpu") / devices;
  if (number(row, "tflops_per_gpu") == 0) return std::nullopt;
  const double l = number(row, "layers"), h = number(row, "hidden"), s = number(row, "seq"),
               v = number(row, "vocab");
  const bool is_hardware = group == "megatron_sc21_table1";  // full recompute counted
  const double flops = is_hardware ? 96 * tokens * l * h * h * (1 + s / (6 * h) + v / (16 * l * h))
                                   : 72 * tokens * l * h * h * (1 + s / (6 * h) + v / (12 * l * h));
  return flops / (number(row, "tflops_per_gpu") * 1e12 * devices);
}

int year_of(const std::string& group) {
  const std::vector<std::pair<const char*, int>> years{{"megatron_sc21", 2021},   {"bigscience_v100", 2021},
                                                       {"bigscience_a100", 2022}, {"korthikanti", 2022},
                                                       {"llm_foundry", 2023},     {"torchtitan", 2024}};
  for (const auto& [name, year] : years)
    if (has(group, name)) return year;
  return 2024;  // megatron_core_h100_weak, mindformers_ascend
}

PublishedRun run_of(const Json& row) {
  const std::string group = text(row, "group"), precision = text(row, "precision");
  const Batch batch = batch_of(row);
  constexpr double gib = 1 << 30;
  PublishedRun out{.id = text(row, "id"), .source = group + ", " + cluster_of(row)};
  out.devices = static_cast<int>(integer(row, "dp") * integer(row, "tp") * integer(row, "pp"));
  out.tokens = static_cast<double>(batch.global) * number(row, "seq");
  out.year = year_of(group);
  out.seconds = seconds_of(row, group, out.tokens);
  out.ran_out_of_memory = is_on(row, "oom");
  out.is_reserved = group == "torchtitan_benchmarks";  // that is what it logs
  if (number(row, "peak_mem_GB") > 0) out.memory_bytes = number(row, "peak_mem_GB") * gib;
  if (number(row, "memory_params_opt_GiB") > 0)
    out.memory_bytes = (number(row, "memory_params_opt_GiB") + number(row, "memory_activations_GiB")) * gib;
  const bool is_half = has(precision, "fp16") || precision == "float16" || precision.empty();
  out.command = {
      "estimate",
      model_of(row),
      "--cluster",
      cluster_of(row),
      "--set",
      fmt::format("dp={},tp={},pp={},micro_batch={},global_batch={},zero={},recompute={},schedule={},"
                  "sequence_parallel={}",
                  integer(row, "dp"), integer(row, "tp"), integer(row, "pp"), batch.micro, batch.global,
                  zero_of(row, group), recompute_of(row), schedule_of(row),
                  has_sequence_parallel(row, group) ? 1 : 0),
      "--precision",
      is_half ? "fp16" : "bf16",
      "--optimizer",
      "adamw",
      "--attention",
      has_flash(row, group) ? "flash" : "explicit",
      "--framework",
      framework_of(group),
      "--memory-margin",  // who tunes a run leaves none
      "0",
      "--json"};
  const bool is_short = text(row, "mp_mode") == "PURE" || has(text(row, "param_dtype"), "float16");
  if (is_short && batch.global == batch.micro * integer(row, "dp")) {
    out.command.emplace_back("--reduce-precision");
    out.command.emplace_back("short");
  }
  return out;
}

/// A row that says its call itself (tests/outside/published_2026.py has written it).
PublishedRun said_run(const Json& row) {
  PublishedRun out{
      .id = text(row, "id"), .source = text(row, "source"), .year = static_cast<int>(integer(row, "year"))};
  const std::string command = text(row, "command");
  for (std::string_view word : split(command, ' ')) out.command.emplace_back(word);
  out.devices = static_cast<int>(integer(row, "devices"));
  out.tokens = number(row, "tokens");
  const auto said = [&](const char* key) {
    return number(row, key) > 0 ? std::optional(number(row, key)) : std::nullopt;
  };
  out.seconds = said("seconds"), out.memory_bytes = said("memory_bytes"),
  out.state_bytes = said("state_bytes");
  out.is_last_stage = is_on(row, "is_last_stage"), out.is_host_bound = is_on(row, "is_host_bound");
  out.is_reserved = is_on(row, "is_reserved"), out.ran_out_of_memory = is_on(row, "ran_out_of_memory");
  return out;
}

}  // namespace

std::vector<PublishedRun> published_runs() {
  const Json all = Json::parse(std::ifstream("tests/reference/published_runs.json"));
  std::vector<PublishedRun> out;
  for (const Json& row : all["rows"])
    if (!is_left_out(row)) out.push_back(run_of(row));
  const Json later = Json::parse(std::ifstream("tests/reference/published_2026.json"));
  for (const Json& row : later["rows"]) out.push_back(said_run(row));
  return out;
}

}  // namespace shardwright
