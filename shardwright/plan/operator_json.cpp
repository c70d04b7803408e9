#include "shardwright/plan/operator_json.h"

#include <algorithm>

#include "shardwright/base/text.h"
#include "shardwright/plan/json_fields.h"

namespace shardwright {
namespace {

/// Parts of each dim of each input.
std::vector<std::vector<std::int64_t>> splits_of(const Json& json, const char* key) {
  const auto lists = [&](bool ok) {
    if (!ok) throw kind_error(key, "a list of integers for each input", json);
  };
  std::vector<std::vector<std::int64_t>> out;
  lists(json.is_array());
  for (const Json& input : json) {
    lists(input.is_array());
    out.emplace_back();
    for (const Json& parts : input) {
      lists(integer_in(parts).has_value());
      out.back().push_back(*integer_in(parts));
    }
  }
  return out;
}

/// Of loop dims that the strategy splits.
std::map<std::string, std::int64_t> grains_of(const Json& json, const PlannedOperator& op) {
  constexpr std::int64_t most = std::int64_t{1} << 53;
  if (!json.is_object()) throw kind_error("grains", "an object of loop dims", json);
  std::map<std::string, std::int64_t> out;
  for (const auto& [loop, grain] : json.items()) {
    if (std::ranges::find(op.strategy, loop, &std::pair<std::string, std::vector<std::string>>::first) ==
        op.strategy.end())
      throw error("\"grains\": the strategy does not split '{}'", loop);
    out[loop] = long_of(grain, loop.c_str(), 1, most);
  }
  return out;
}

}  // namespace

Json operator_json(const PlannedOperator& op) {
  Json out{{"name", op.name}, {"kind", op.kind}};
  Json strategy = Json::object();
  for (const auto& [loop, axes] : op.strategy) strategy[loop] = axes;
  out["strategy"] = strategy;
  for (const auto& [loop, grain] : op.grains) out["grains"][loop] = grain;
  if (op.mesh > 0) out["mesh"] = op.mesh;
  out["in"] = op.in;
  if (!op.out.empty()) out["out"] = op.out;
  if (op.is_fixed) out["fixed"] = true;
  out["reason"] = to_text(op.reason);
  return out;
}

PlannedOperator operator_of(const Json& json) {
  if (!json.is_object()) throw error("{} in \"operators\" should be an object", short_text(json));
  PlannedOperator op{.name = member(json, "name").is_string() ? json.at("name").get<std::string>() : ""};
  if (op.name.empty()) throw kind_error("name", "the name of an operator", json.at("name"));
  try {
    check_keys(json, {"name", "kind", "strategy", "grains", "mesh", "in", "out", "fixed", "reason", "stage"});
    op.kind = text_or(json, "kind", "");
    if (!member(json, "strategy").is_object())
      throw kind_error("strategy", "an object of loop dims", json.at("strategy"));
    for (const auto& [loop, unused] : json.at("strategy").items())
      op.strategy.emplace_back(loop, member_or(json.at("strategy"), loop.c_str(), "a list of axis names",
                                               std::vector<std::string>{}));
    if (json.contains("grains")) op.grains = grains_of(json.at("grains"), op);
    if (json.contains("mesh")) op.mesh = integer_of(json.at("mesh"), "mesh", 0, 100);
    if (json.contains("in")) op.in = splits_of(json.at("in"), "in");
    op.out = text_or(json, "out", "");
    op.is_fixed = member_or(json, "fixed", "true or false", false);
    op.reason = parse_reason(text_or(json, "reason", ""));
  } catch (const Error& e) {
    throw with_context(e, op.name);
  }
  return op;
}

}  // namespace shardwright
