#include "shardwright/plan/recompute_json.h"

#include <algorithm>

#include "shardwright/base/text.h"

namespace shardwright {
namespace {

bool flag_or(const Json& json, const char* key, bool otherwise) {
  const auto it = json.find(key);
  if (it == json.end()) return otherwise;
  if (!it->is_boolean())
    throw error("\"recompute\": \"{}\" should be true or false, not {}", key, short_text(*it));
  return it->get<bool>();
}

std::string name_or(const Json& json, const char* key, std::string otherwise) {
  const auto it = json.find(key);
  if (it == json.end()) return otherwise;
  if (!it->is_string() || it->get<std::string>().empty())
    throw error("\"recompute\": \"{}\" should be a name, not {}", key, short_text(*it));
  return it->get<std::string>();
}

RecomputeOptions options_of(const Json& json, RecomputeOptions options) {
  options.communication = flag_or(json, "communication", options.communication);
  options.shard_kept = flag_or(json, "shard_kept", options.shard_kept);
  return options;
}

/// What differs from `usual`.
void add_options(Json& json, const RecomputeOptions& options, const RecomputeOptions& usual) {
  if (options.communication != usual.communication) json["communication"] = options.communication;
  if (options.shard_kept != usual.shard_kept) json["shard_kept"] = options.shard_kept;
}

Json module_json(const RecomputedModule& module) {
  Json out{{"module", module.module}};
  if (!module.nodes.empty()) out["nodes"] = module.nodes;
  add_options(out, module.options, {});
  if (!module.is_on) out["on"] = false;
  return out.size() == 1 ? Json(module.module) : out;
}

RecomputedModule module_of(const Json& json) {
  if (json.is_string()) return {.module = json.get<std::string>(), .nodes = {}};
  if (!json.is_object() || !json.contains("module"))
    throw error("\"recompute\": {} should be a module's name, or an object with \"module\"",
                short_text(json));
  check_keys(json, "recompute", {"module", "nodes", "communication", "shard_kept", "on"});
  RecomputedModule out{.module = name_or(json, "module", ""), .nodes = {}, .options = options_of(json, {})};
  out.is_on = flag_or(json, "on", true);
  try {
    if (json.contains("nodes")) out.nodes = json.at("nodes").get<std::vector<std::string>>();
  } catch (const Json::exception&) {
    throw error("\"recompute\": \"nodes\" should be a list of names, not {}", short_text(json.at("nodes")));
  }
  return out;
}

std::vector<RecomputedModule> modules_of(const Json& json) {
  if (!json.is_array()) throw error("\"recompute\": \"modules\" should be a list, not {}", short_text(json));
  std::vector<RecomputedModule> out;
  for (const Json& module : json) out.push_back(module_of(module));
  return out;
}

}  // namespace

Json recompute_json(const Recompute& recompute) {
  Json modules = Json::array();
  for (const RecomputedModule& module : recompute.modules) modules.push_back(module_json(module));
  Json out{{"mode", name_of(recompute.mode)}};
  add_options(out, recompute.options, default_options(recompute.mode));
  if (!modules.empty()) out["modules"] = modules;
  if (out.size() == 1) return std::string(name_of(recompute.mode));
  return recompute.mode == RecomputeMode::none ? modules : out;
}

Recompute recompute_of(const Json& json) {
  if (json.is_array()) return {.modules = modules_of(json)};
  if (json.is_string()) return parse_recompute(json.get<std::string>());
  if (!json.is_object())
    throw error("\"recompute\" should be none, selected, full or a list of modules, not {}",
                short_text(json));
  check_keys(json, "recompute", {"mode", "communication", "shard_kept", "modules"});
  Recompute out = parse_recompute(name_or(json, "mode", "none"));
  if (!out.modules.empty())
    throw error("\"recompute\": \"mode\" {} should be none, selected or full", short_text(json.at("mode")));
  out.options = options_of(json, out.options);
  if (json.contains("modules")) out.modules = modules_of(json.at("modules"));
  return out;
}

RecomputedModule recomputed_module(const std::string& name, const Json& json) {
  RecomputedModule out{.module = name, .nodes = {}};
  if (json.is_boolean()) {
    out.is_on = json.get<bool>();
    return out;
  }
  if (!json.is_object())
    throw error("\"recompute\" should be true, false or an object of options, not {}", short_text(json));
  check_keys(json, "recompute", {"communication", "shard_kept"});
  out.options = options_of(json, {});
  return out;
}

}  // namespace shardwright
