// Adapters as Hugging Face's PEFT keeps them: adapter_config.json and adapter_model.safetensors, whose tensors are called
//
//   base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight   [rank, in]
//   base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight   [out, rank]
//
// Where several weights of ours are parts of one tensor there (gpt2's c_attn), it has one adapter of the sum of their ranks: A's stand one
// below the other, and B is zero outside of each part's rows and columns. Scales are the same, as alpha grows with the rank.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <utility>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/base/index.h"
#include "shardwright/frontend/model_folder.h"
#include "shardwright/plan/json_fields.h"
#include "shardwright/plan/json_text.h"
#include "shardwright/runtime/safetensors.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

/// A module of theirs with an adapter.
struct Adapted {
  std::string name;
  bool is_transposed = false;         // its weight is (out, in)
  std::vector<const Adapter*> parts;  // of which it has that of each
  std::vector<TensorPiece> pieces;
  std::int64_t in = 0, out = 0;
};

std::string without_weight(const std::string& name) { return name.substr(0, name.rfind('.')); }
std::string last_word(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::vector<Adapted> adapted_modules(const ModelFolder& model) {
  std::vector<Adapted> out;
  for (const auto& [file, tensors] : model.files)
    for (const FolderTensor& t : tensors) {
      Adapted made;
      for (const TensorPiece& piece : t.pieces)
        for (const Adapter& one : model.adapters->all)
          if (one.weight == piece.parameter) {
            if (std::ranges::find(made.parts, &one) == made.parts.end()) made.parts.push_back(&one);
            made.pieces.push_back(piece);
          }
      if (made.parts.empty()) continue;
      made.name = without_weight(model.in_network(t.name));
      made.is_transposed = made.pieces.front().is_transposed;
      made.in = t.type.shape[made.is_transposed ? 1 : 0], made.out = t.type.shape[made.is_transposed ? 0 : 1];
      out.push_back(std::move(made));
    }
  return out;
}

std::string key_of(const Adapted& module, char which) {
  return fmt::format("base_model.model.{}.lora_{}.weight", module.name, which);
}

std::int64_t rank_of(const ModelFolder& model, const Adapted& module) {
  return model.adapters->options.rank * std::ssize(module.parts);
}

/// Their A and B in f64 beside ours: `use(theirs, ours, which of parts, their place, our place)` for each element that both have.
template <class F>
void for_each_element(const ModelFolder& model, const Adapted& module, F use) {
  const std::int64_t rank = model.adapters->options.rank, theirs = rank_of(model, module);
  for (std::size_t i = 0; i < module.parts.size(); ++i)
    for (std::int64_t j = 0; j < rank; ++j)
      for (std::int64_t c = 0; c < module.in; ++c)
        use('A', i, (static_cast<std::int64_t>(i) * rank + j) * module.in + c, c * rank + j);
  for (const TensorPiece& piece : module.pieces) {
    const auto found = std::ranges::find(module.parts, piece.parameter, &Adapter::weight);
    const std::int64_t part = found - module.parts.begin();
    const std::size_t features = piece.is_transposed ? 0 : 1;
    const std::int64_t own = model.adapters->columns.at(piece.parameter);
    for (std::int64_t r = 0; r < piece.theirs.extent[features]; ++r)
      for (std::int64_t j = 0; j < rank; ++j)
        use('B', at(part), (piece.theirs.offset[features] + r) * theirs + part * rank + j,
            j * own + piece.ours.offset.back() + r);
  }
}

/// Last words of their names, where all modules of such names have adapters; else whole names.
Json target_modules(const ModelFolder& model, const std::vector<Adapted>& modules) {
  std::set<std::string> adapted, words, others;
  for (const Adapted& m : modules) adapted.insert(m.name), words.insert(last_word(m.name));
  for (const auto& [file, tensors] : model.files)
    for (const FolderTensor& t : tensors) {
      const std::string name = without_weight(model.in_network(t.name));
      if (t.type.shape.size() == 2 && !adapted.contains(name)) others.insert(last_word(name));
    }
  const bool are_all = std::ranges::none_of(words, [&](const std::string& w) { return others.contains(w); });
  return are_all ? Json(words) : Json(adapted);
}

Json config_of(const ModelFolder& model, const std::vector<Adapted>& modules) {
  const AdapterOptions& o = model.adapters->options;
  Json ranks = Json::object(), alphas = Json::object();
  for (const Adapted& m : modules) {
    const auto parts = std::ssize(m.parts);
    if (parts == 1) continue;
    ranks[last_word(m.name)] = o.rank * parts;
    alphas[last_word(m.name)] = o.alpha * static_cast<double>(parts);
  }
  return {{"peft_type", "LORA"},
          {"base_model_name_or_path", fs::absolute(model.path).lexically_normal().string()},
          {"r", o.rank},
          {"lora_alpha", o.alpha},
          {"rank_pattern", ranks},
          {"alpha_pattern", alphas},
          {"target_modules", target_modules(model, modules)},
          {"fan_in_fan_out", std::ranges::any_of(modules, [](const Adapted& m) { return !m.is_transposed; })},
          {"lora_dropout", 0.0},
          {"bias", "none"},
          {"inference_mode", true},
          {"init_lora_weights", true},
          {"modules_to_save", nullptr},
          {"task_type", nullptr},
          {"use_dora", false},
          {"use_rslora", false}};
}

constexpr const char* weights_file = "adapter_model.safetensors";

constexpr std::string_view key_begins = "base_model.model.";

/// Throws: Error if what stands beside the weights says that they mean another sum.
void check_config(const ModelFolder& model, const std::vector<Adapted>& modules, const std::string& weights) {
  const std::string path = (fs::path(weights).parent_path() / "adapter_config.json").string();
  std::error_code none;
  if (!fs::exists(path, none)) return;
  try {
    const Json json = parse_json(read_text(path, most_settings_bytes)), own = config_of(model, modules);
    if (text_or(json, "peft_type", "LORA") != "LORA")
      throw error("\"peft_type\" is {}, not LORA", json["peft_type"].dump());
    for (const char* key : {"use_dora", "use_rslora"})
      if (const auto said = json.find(key); said != json.end() && *said == true)
        throw error("\"{}\" changes what adapters compute and is not supported", key);
    if (const std::string bias = text_or(json, "bias", "none"); bias != "none")
      throw error("\"bias\" is {}: only adapters are trained here", bias);
    const double scale = number_or(json, "lora_alpha", 8) / number_or(json, "r", 8);
    if (std::abs(scale - model.adapters->scale()) > 1e-12 * scale)
      throw error("\"lora_alpha\" by \"r\" is {}, but alpha by rank is {} here", scale,
                  model.adapters->scale());
  } catch (const Error& e) {
    throw with_context(e, path);
  }
}

}  // namespace

bool has_peft_names(const std::string& path) {
  const std::vector<std::string> names = SafetensorsFile::open(path).names();
  return std::ranges::any_of(names, [](const std::string& name) { return name.starts_with(key_begins); });
}

std::map<std::string, Tensor> read_adapters(const ModelFolder& model, const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  const std::vector<Adapted> modules = adapted_modules(model);
  check_config(model, modules, path);
  std::map<std::string, Tensor> out;
  std::set<std::string> known;
  for (const Adapted& m : modules) {
    const std::int64_t rank = model.adapters->options.rank, theirs = rank_of(model, m);
    std::map<char, Tensor> whole;
    for (const auto& [which, shape] : {std::pair('A', Shape{theirs, m.in}), {'B', Shape{m.out, theirs}}}) {
      const std::string key = key_of(m, which);
      known.insert(key);
      if (!file.has(key)) throw io_error("{}: has no '{}'", path, key);
      if (file.type(key).shape != shape)
        throw error("{}: '{}' is {} but {} here{}", path, key, to_text(file.type(key).shape), to_text(shape),
                    m.parts.size() > 1 ? fmt::format(", of {} adapters of one tensor", m.parts.size()) : "");
      whole.emplace(which, convert(file.read(key), DType::f64));
    }
    std::vector<Tensor*> a, b;
    for (const Adapter* one : m.parts) {
      a.push_back(&out.emplace(one->a, Tensor({DType::f64, {m.in, rank}})).first->second);
      b.push_back(&out.emplace(one->b, Tensor({DType::f64, {rank, model.adapters->columns.at(one->weight)}}))
                       .first->second);
    }
    for_each_element(model, m,
                     [&](char which, std::size_t part, std::int64_t at_theirs, std::int64_t at_ours) {
                       double& from = whole.at(which).as<double>()[at(at_theirs)];
                       (which == 'A' ? a : b)[part]->as<double>()[at(at_ours)] = std::exchange(from, 0);
                     });
    if (std::ranges::any_of(whole.at('B').as<double>(), [](double left) { return left != 0; }))
      throw error("{}: '{}' joins parts that have adapters of their own here", path, key_of(m, 'B'));
  }
  for (const std::string& name : file.names())
    if (!known.contains(name))
      throw io_error("{}: has '{}', which is no adapter of these targets", path, name);
  return out;
}

void save_adapters(const ModelFolder& model, const ReadParameter& read, const std::string& folder) {
  const std::vector<Adapted> modules = adapted_modules(model);
  std::map<std::string, Tensor> tensors;
  for (const Adapted& m : modules) {
    std::vector<Tensor> ours_a, ours_b;
    DType dtype{};
    for (const Adapter* one : m.parts) {
      const std::int64_t rank = model.adapters->options.rank, out = model.adapters->columns.at(one->weight);
      Tensor a = read(one->a, whole_box({m.in, rank})), b = read(one->b, whole_box({rank, out}));
      dtype = a.dtype();
      ours_a.push_back(convert(a, DType::f64)), ours_b.push_back(convert(b, DType::f64));
    }
    const std::int64_t rank = rank_of(model, m);
    Tensor a({DType::f64, {rank, m.in}}), b({DType::f64, {m.out, rank}});
    for_each_element(model, m, [&](char which, std::size_t part, std::int64_t theirs, std::int64_t ours) {
      (which == 'A' ? a : b).as<double>()[at(theirs)] =
          (which == 'A' ? ours_a : ours_b)[part].as<double>()[at(ours)];
    });
    tensors.emplace(key_of(m, 'A'), convert(a, dtype));
    tensors.emplace(key_of(m, 'B'), convert(b, dtype));
  }
  if (folder.empty()) return;
  write_safetensors(folder + "/" + weights_file, tensors, {{"format", "pt"}});
  write_file(folder + "/adapter_config.json", config_of(model, modules).dump(2) + "\n");
}

}  // namespace shardwright
