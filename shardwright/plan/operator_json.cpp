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

void check_is_split(const char* key, const std::string& loop, const PlannedOperator& op) {
  const auto name = &std::pair<std::string, std::vector<std::string>>::first;
  if (std::ranges::find(op.strategy, loop, name) == op.strategy.end())
    throw error("\"{}\": the strategy does not split '{}'", key, loop);
}

/// Of loop dims that the strategy splits.
std::map<std::string, UnevenCut> cuts_of(const Json& json, const PlannedOperator& op) {
  constexpr std::int64_t most = std::int64_t{1} << 53;
  std::map<std::string, UnevenCut> out;
  if (json.contains("grains")) {
    if (!json.at("grains").is_object())
      throw kind_error("grains", "an object of loop dims", json.at("grains"));
    for (const auto& [loop, grain] : json.at("grains").items()) {
      check_is_split("grains", loop, op);
      out[loop].grain = long_of(grain, loop.c_str(), 1, most);
    }
  }
  for (const std::string& loop :
       member_or(json, "by_shares", "a list of loop dims", std::vector<std::string>{})) {
    check_is_split("by_shares", loop, op);
    out[loop].is_by_shares = true;
  }
  return out;
}

}  // namespace

Json operator_json(const PlannedOperator& op) {
  Json out{{"name", op.name}, {"kind", op.kind}};
  Json strategy = Json::object();
  for (const auto& [loop, axes] : op.strategy) strategy[loop] = axes;
  out["strategy"] = strategy;
  for (const auto& [loop, cut] : op.cuts) {
    out["grains"][loop] = cut.grain;
    if (cut.is_by_shares) out["by_shares"].push_back(loop);
  }
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
    check_keys(json, {"name", "kind", "strategy", "grains", "by_shares", "mesh", "in", "out", "fixed",
                      "reason", "stage"});
    op.kind = text_or(json, "kind", "");
    if (!member(json, "strategy").is_object())
      throw kind_error("strategy", "an object of loop dims", json.at("strategy"));
    for (const auto& [loop, unused] : json.at("strategy").items())
      op.strategy.emplace_back(loop, member_or(json.at("strategy"), loop.c_str(), "a list of axis names",
                                               std::vector<std::string>{}));
    op.cuts = cuts_of(json, op);
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
