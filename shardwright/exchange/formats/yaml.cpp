// Ours: a whole plan file as YAML, for who keeps his configurations so. Nothing of it is lost, either way.

#include "shardwright/cost/yaml_text.h"
#include "shardwright/exchange/plan_format.h"
#include "shardwright/exchange/words_left.h"
#include "shardwright/plan/json_text.h"

namespace shardwright::formats {
namespace {

/// Everything up to a line's length stands on it.
bool is_short(const Json& value) {
  constexpr std::size_t most = 100;
  return !value.is_structured() || value.empty() || value.dump().size() <= most;
}

std::string block(const Json& value, const std::string& indent) {
  std::string out;
  for (const auto& [key, part] : value.items()) {
    out += indent + (value.is_object() ? Json(key).dump() + ":" : "-");
    out += is_short(part) ? " " + part.dump() + "\n" : "\n" + block(part, indent + "  ");
  }
  return out;
}

Exported write(const WrittenPlan& plan) {
  return {.text = "# A plan of shardwright: import FILE --cluster C -o plan.json reads it.\n" +
                  block(parse_json(to_json(plan.plan)), "")};
}

Json json_of(const YAML::Node& node) {
  if (node.IsMap()) {
    Json out = Json::object();
    for (const auto& part : node) out[part.first.Scalar()] = json_of(part.second);
    return out;
  }
  if (node.IsSequence()) {
    Json out = Json::array();
    for (const YAML::Node& part : node) out.push_back(json_of(part));
    return out;
  }
  if (!node.IsDefined() || node.IsNull()) return nullptr;
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;  // in quotes
  const Json value = Json::parse(text, nullptr, false);
  return value.is_discarded() || value.is_structured() ? Json(text) : value;
}

Recipe read(const RecipeFile& file) {
  Recipe out;
  out.plan = parse_plan(json_of(parse_yaml(file.text)).dump(), file.path);
  if (const int devices = out.plan->devices(); devices != file.devices)
    throw error("the plan is for {} devices, but the cluster has {}", devices, file.devices);
  return out;
}

bool is_one(const RecipeFile& file) {
  return file.text.find("\"fingerprint\":") != file.text.npos &&
         file.text.find("\"operators\":") != file.text.npos && !file.text.starts_with('{');
}

}  // namespace

std::vector<PlanFormat> yaml() {
  return {
      {.name = "yaml", .doc = "our own plan file, as YAML", .write = write, .read = read, .is_one = is_one}};
}

}  // namespace shardwright::formats
