// Models by name: `ffn`, `matmul_chain:batch=8192,widths=4096-1`. What is of no other source is a name.

#include <filesystem>

#include "shardwright/base/text.h"
#include "shardwright/base/unknown.h"
#include "shardwright/frontend/model_keys.h"
#include "shardwright/frontend/source.h"

namespace shardwright::sources {
namespace {

/// What a name with an ending, or a folder, may be meant for; empty: it looks like a model's name.
std::string_view file_meant_by(std::string_view name) {
  constexpr std::string_view readable =
      "networks are read from .onnx and .graph files, and from folders with config.json";
  std::error_code none;
  if (std::filesystem::is_directory(name, none)) return "it is a folder without config.json";
  if (name.ends_with(".json")) return "a plan is given by --plan, strategies by --annotate or --strategy";
  if (name.ends_with(".yaml") || name.ends_with(".yml")) return "a configuration is given by --config";
  for (std::string_view ending : {".pt", ".pth", ".bin", ".safetensors", ".py", ".ckpt", ".pb", ".h5"})
    if (name.ends_with(ending)) return readable;
  return name.find('/') == name.npos ? "" : readable;
}

const ModelDef& find_model(std::string_view name) {
  std::vector<std::string> known;
  for (const ModelDef& m : all_models()) {
    if (m.name == name) return m;
    known.push_back(m.name);
  }
  if (const auto hint = file_meant_by(name); !hint.empty()) throw error("is no model; {}", hint);
  throw unknown("model", name, known);
}

Model load(const std::string& spec, const ModelOptions& options, std::string_view) {
  const ModelDef& def = find_model(without_keys(spec));
  ModelArguments arguments = arguments_of(spec, options);
  std::vector<std::string> known;
  for (const auto& [key, value] : def.keys) known.push_back(key);
  arguments.check_keys(known);
  if (options.global_batch) arguments.keys["batch"] = std::to_string(*options.global_batch);
  return def.build(arguments);
}

/// Of a model that has the key.
std::string asked(const std::string& spec) {
  auto keys = keys_of(spec);
  if (find_model(without_keys(spec)).keys.contains("labels")) keys.try_emplace("labels", "asked");
  return with_keys(spec, keys);
}

/// Places that are learned are those of the longest.
std::string of_length(const std::string& spec, std::int64_t length, std::int64_t longest) {
  const ModelDef& def = find_model(without_keys(spec));
  if (!def.keys.contains("seq")) throw error("{} has no sequences", def.name);
  auto keys = keys_of(spec);
  keys["seq"] = std::to_string(length);
  const auto positions = keys.find("positions");
  const bool are_usual = positions == keys.end() || positions->second == def.keys.at("positions");
  if (def.keys.contains("places") && are_usual) keys.try_emplace("places", std::to_string(longest));
  return with_keys(spec, keys);
}

}  // namespace

std::vector<Source> names() {
  return {{.name = "names", .load = load, .asked = asked, .of_length = of_length}};
}

}  // namespace shardwright::sources
