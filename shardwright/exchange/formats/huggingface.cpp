// Hugging Face transformers: how each module of a model is split over devices, `base_model_tp_plan`, and what its parts
// hand on, `base_model_pp_plan`, as attributes of its configuration; and `_tp_plan` of the class with the head.
// Source: transformers/integrations/tensor_parallel.py.

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/base/name_pattern.h"
#include "shardwright/base/text.h"
#include "shardwright/base/unknown.h"
#include "shardwright/exchange/plan_format.h"
#include "shardwright/exchange/recipe_words.h"
#include "shardwright/exchange/words_left.h"
#include "shardwright/plan/decided.h"
#include "shardwright/plan/json_text.h"

namespace shardwright::formats {
namespace {

/// A module as we call it, and as its models do. Weights of dense modules are (in, out) here.
struct Module {
  std::string_view ours, theirs;
};
constexpr std::array modules{Module{"embedding", "embed_tokens"},
                             Module{"layers.*.norm1", "layers.*.input_layernorm"},
                             Module{"layers.*.attention.q", "layers.*.self_attn.q_proj"},
                             Module{"layers.*.attention.k", "layers.*.self_attn.k_proj"},
                             Module{"layers.*.attention.v", "layers.*.self_attn.v_proj"},
                             Module{"layers.*.attention.o", "layers.*.self_attn.o_proj"},
                             Module{"layers.*.norm2", "layers.*.post_attention_layernorm"},
                             Module{"layers.*.ffn.gate", "layers.*.mlp.gate_proj"},
                             Module{"layers.*.ffn.up", "layers.*.mlp.up_proj"},
                             Module{"layers.*.ffn.down", "layers.*.mlp.down_proj"},
                             Module{"norm", "norm"},
                             Module{"head", "lm_head"}};

bool is_norm(std::string_view ours) { return ours.find("norm") != ours.npos; }

/// Along tp.
bool is_cut(const Axes& axes, const Mesh& mesh) {
  return std::ranges::any_of(axes, [&](int a) { return degree_of_axis(mesh.axes[at(a)].name) == "tp"; });
}

class Writer {
 public:
  explicit Writer(const WrittenPlan& plan) : plan_(plan), grid_(plan.grid_for("huggingface")), left_(plan) {
    for (const PlacedPart& part : plan.parts)
      for (const PlacedTensor& t : part.parameters)
        if (t.name.ends_with(".weight")) add(t, part);
  }

  Exported run() {
    Json base = Json::object(), head = Json::object();
    for (const Module& m : modules) {
      const auto it = styles_.find(m.ours);
      if (it == styles_.end()) continue;
      std::string style = it->second;
      if (is_norm(m.ours)) style = grid_.by_sequence() ? "sequence_parallel" : "";
      if (m.ours == "head" && style == "colwise") style = "colwise_gather_output";
      if (!style.empty()) (m.ours == "head" ? head : base)[std::string(m.theirs)] = style;
    }
    Json out{{"base_model_tp_plan", base}, {"base_model_pp_plan", stages()}, {"_tp_plan", head}};
    leave_words();
    const std::vector<std::string> lines = left_.lines();
    out["shardwright"] = {{"model", plan_.what.model}, {"tp_size", grid_.of("tp")}, {"not_carried", lines}};
    return {.text = out.dump(2) + "\n", .not_carried = lines};
  }

 private:
  /// One style for a module of all layers.
  void add(const PlacedTensor& t, const PlacedPart& part) {
    const std::string name = t.name.substr(0, t.name.size() - std::string_view(".weight").size());
    const auto m =
        std::ranges::find_if(modules, [&](const Module& known) { return matches(known.ours, name); });
    if (m == modules.end())
      return left_.add(fmt::format("{}: Hugging Face's models have none by this name", name));
    const Mesh& mesh = part.meshes[at(t.read.mesh)];
    std::string style;
    if (t.read.dims.size() == 2 && is_cut(t.read.dims[0], mesh))
      style = name == "embedding" ? "embedding_rowwise" : "rowwise";
    else if (t.read.dims.size() == 2 && is_cut(t.read.dims[1], mesh))
      style = "colwise";
    const auto [it, is_new] = styles_.emplace(m->ours, style);
    if (!is_new && it->second != style)
      throw error(
          "huggingface: {} is split otherwise in different layers ({} and {}); a plan has one word for all",
          m->ours, it->second.empty() ? "whole" : it->second, style.empty() ? "whole" : style);
  }

  Json stages() const {
    if (grid_.of("pp") == 1) return Json::object();
    const auto io = [](std::vector<const char*> in, std::vector<const char*> out) { return Json{in, out}; };
    return {{"embed_tokens", io({"input_ids"}, {"inputs_embeds"})},
            {"layers", io({"hidden_states", "attention_mask"}, {"hidden_states"})},
            {"norm", io({"hidden_states"}, {"hidden_states"})}};
  }

  void leave_words() {
    left_.take({"tp", "sequence_parallel"});
    if (grid_.of("pp") > 1) {
      left_.take({"pp"});
      left_.add(fmt::format("pp={}: which layers each stage has", grid_.of("pp")));
    }
    left_.leave({"dp", "zero", "zero_group"}, "accelerate says it: export --to accelerate");
    left_.leave({"schedule", "micro_batches"}, "the program runs the stages");
    left_.leave({"operators split otherwise"},
                "what is between the modules is split as it follows from them");
  }

  const WrittenPlan& plan_;
  const Grid& grid_;
  WordsLeft left_;
  std::map<std::string_view, std::string> styles_;  // of modules; empty: whole
};

Exported write(const WrittenPlan& plan) { return Writer(plan).run(); }

// ---- reading ----

const std::vector<std::string> styles{
    "colwise",           "colwise_rep",       "colwise_gather_output",
    "rowwise",           "rowwise_rep",       "rowwise_split_input",
    "embedding_rowwise", "sequence_parallel", "replicated_with_grad_allreduce",
    "replicate"};

class Reader {
 public:
  explicit Reader(const RecipeFile& file) : file_(file), all_(parse_json(file.text)) {}

  /// All devices share one copy, as `from_pretrained(tp_plan="auto")` has it.
  Recipe run() {
    if (!all_.is_object() || !all_.contains("base_model_tp_plan")) throw error("has no base_model_tp_plan");
    const Json own = all_.value("shardwright", Json::object());
    const std::int64_t tensor =
        own.contains("tp_size") ? integer_in(own["tp_size"]).value_or(1) : file_.devices;
    set_.add("dp", data_degree(file_.devices, {{"tp_size", tensor}}));
    set_.add("tp", tensor);
    for (const char* key : {"base_model_tp_plan", "_tp_plan"})
      if (all_.contains(key)) read_plan(all_[key], key);
    for (const Module& m : modules)
      if (!said_.contains(m.ours) && !is_norm(m.ours)) whole_.emplace_back(m.ours);
    if (by_sequence_) set_.add("sequence_parallel", 1);
    if (!whole_.empty())
      out_.not_heeded.push_back(fmt::format(
          "{}: no style is said, which is whole; tp splits them as Megatron does", some_of(whole_)));
    if (all_.contains("base_model_pp_plan") && !all_["base_model_pp_plan"].empty())
      out_.not_heeded.push_back("base_model_pp_plan: how many stages there are is not said; there is 1");
    read_sizes();
    out_.say("--set", set_.text(), "base_model_tp_plan");
    return std::move(out_);
  }

 private:
  void read_plan(const Json& plan, const char* key) {
    if (!plan.is_object()) throw error("\"{}\" should be an object of modules and their styles", key);
    std::vector<std::string> known;
    for (const Module& m : modules) known.emplace_back(m.theirs);
    for (const auto& [theirs, value] : plan.items()) {
      const std::string name = theirs.starts_with("model.") ? theirs.substr(6) : theirs;
      const auto m = std::ranges::find(modules, name, &Module::theirs);
      if (m == modules.end())
        throw error("{}.{}: is no module of our decoders{}", key, theirs, near_names(name, known));
      const std::string style = value.is_string() ? value.get<std::string>() : value.dump();
      if (std::ranges::find(styles, style) == styles.end()) throw unknown("style", style, styles);
      said_.insert(m->ours);
      check(*m, style, theirs);
    }
  }

  /// What tp makes of a module is what its style says, or the file is refused.
  void check(const Module& m, const std::string& style, const std::string& theirs) {
    const bool is_row = m.ours.ends_with(".o") || m.ours.ends_with(".down");
    const bool is_whole = style.starts_with("replicate");
    if (is_norm(m.ours)) {
      by_sequence_ = by_sequence_ || style == "sequence_parallel";
      return;
    }
    const bool fits = m.ours == "embedding" ? style == "embedding_rowwise"
                      : is_row              ? style.starts_with("rowwise")
                                            : style.starts_with("colwise");
    if (!fits && !is_whole)
      throw error("{}: {} is not how such a module can be split here; {} is", theirs, style,
                  m.ours == "embedding" ? "embedding_rowwise"
                  : is_row              ? "rowwise"
                                        : "colwise");
    if (is_whole) whole_.emplace_back(m.ours);
  }

  /// Of a config.json that has a plan beside its sizes.
  void read_sizes() {
    for (const auto& [theirs, ours] : std::map<std::string, std::string>{{"num_hidden_layers", "layers"},
                                                                         {"hidden_size", "hidden"},
                                                                         {"num_attention_heads", "heads"},
                                                                         {"num_key_value_heads", "kv_heads"},
                                                                         {"intermediate_size", "ffn"},
                                                                         {"vocab_size", "vocab"}})
      if (all_.contains(theirs))
        if (const auto n = integer_in(all_[theirs])) out_.sizes.push_back({ours, *n, theirs});
  }

  const RecipeFile& file_;
  Json all_;
  Recipe out_;
  SetWords set_;
  std::set<std::string_view> said_;
  std::vector<std::string> whole_;
  bool by_sequence_ = false;
};

Recipe read(const RecipeFile& file) { return Reader(file).run(); }

bool is_one(const RecipeFile& file) { return file.text.find("\"base_model_tp_plan\"") != file.text.npos; }

}  // namespace

std::vector<PlanFormat> huggingface() {
  return {{.name = "huggingface",
           .doc = "base_model_tp_plan and base_model_pp_plan of transformers, as JSON",
           .write = write,
           .read = read,
           .is_one = is_one}};
}

}  // namespace shardwright::formats
