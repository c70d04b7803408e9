// Plans as JSON. Keys of the format stand in the order in which a person reads them.

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shardwright/plan/plan.h"

namespace shardwright {
namespace {

using Json = nlohmann::ordered_json;

constexpr int format_version = 1;

Json mesh_json(const Mesh& mesh) {
  Json out = Json::object();
  for (const Axis& a : mesh.axes) out[a.name] = a.size;
  return out;
}

Mesh mesh_of(const Json& json) {
  Mesh mesh;
  for (const auto& [name, size] : json.items()) mesh.axes.push_back({name, size.get<int>()});
  check(mesh);
  return mesh;
}

Json operator_json(const PlannedOperator& op) {
  Json out{{"name", op.name}, {"kind", op.kind}};
  Json strategy = Json::object();
  for (const auto& [loop, axes] : op.strategy) strategy[loop] = axes;
  out["strategy"] = strategy;
  if (op.mesh > 0) out["mesh"] = op.mesh;
  out["in"] = op.in;
  if (!op.out.empty()) out["out"] = op.out;
  out["reason"] = op.reason;
  return out;
}

PlannedOperator operator_of(const Json& json) {
  PlannedOperator op{.name = json.at("name"), .kind = json.value("kind", "")};
  for (const auto& [loop, axes] : json.at("strategy").items())
    op.strategy.emplace_back(loop, axes.get<std::vector<std::string>>());
  op.mesh = json.value("mesh", 0);
  if (json.contains("in")) op.in = json.at("in").get<std::vector<std::vector<std::int64_t>>>();
  op.out = json.value("out", "");
  op.reason = json.value("reason", "");
  return op;
}

}  // namespace

std::string to_json(const Plan& plan) {
  Json out{{"format", format_version},
           {"model", plan.model},
           {"fingerprint", plan.fingerprint},
           {"devices", plan.devices},
           {"cluster", plan.cluster},
           {"parallel", plan.parallel},
           {"search", plan.search},
           {"status", plan.status},
           {"search_seconds", plan.search_seconds},
           {"mesh", mesh_json(plan.meshes.front())}};
  Json more = Json::array();
  for (std::size_t m = 1; m < plan.meshes.size(); ++m) more.push_back(mesh_json(plan.meshes[m]));
  if (!more.empty()) out["more_meshes"] = more;
  out["zero"] = plan.optimizer_parallel;
  out["operators"] = Json::array();
  for (const PlannedOperator& op : plan.operators) out["operators"].push_back(operator_json(op));
  out["layouts"] = plan.layouts;
  return out.dump(1);
}

Plan parse_plan(std::string_view text, std::string_view where) try {
  const Json json = Json::parse(text);
  if (!json.is_object() || !json.contains("format")) throw error("is no plan: it has no \"format\"");
  if (json.at("format") != format_version)
    throw error("has plan format {} but this version reads {}; plan again", json.at("format").dump(),
                format_version);
  Plan plan{
      .model = json.value("model", ""), .fingerprint = json.at("fingerprint"), .devices = json.at("devices")};
  plan.cluster = json.value("cluster", "");
  plan.parallel = json.value("parallel", "auto_parallel");
  plan.search = json.value("search", "");
  plan.status = json.value("status", "feasible");
  plan.search_seconds = json.value("search_seconds", 0.0);
  plan.meshes.push_back(mesh_of(json.at("mesh")));
  if (json.contains("more_meshes"))
    for (const Json& mesh : json.at("more_meshes")) plan.meshes.push_back(mesh_of(mesh));
  for (const Mesh& mesh : plan.meshes)
    if (mesh.size() != plan.devices)
      throw error("{} has {} ranks but \"devices\" is {}", to_text(mesh), mesh.size(), plan.devices);
  plan.optimizer_parallel = json.value("zero", 0);
  for (const Json& op : json.at("operators")) plan.operators.push_back(operator_of(op));
  plan.layouts = json.at("layouts").get<std::map<std::string, std::string>>();
  return plan;
} catch (const nlohmann::json::exception& e) {
  throw error("{}: not a valid plan: {}", where, e.what());
} catch (const Error& e) {
  throw with_context(e, where);
}

Plan load_plan(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw io_error("{}: cannot be read", path);
  std::ostringstream text;
  text << in.rdbuf();
  return parse_plan(text.str(), path);
}

void save_plan(const Plan& plan, const std::string& path) {
  std::ofstream out(path);
  out << to_json(plan) << "\n";
  if (!out) throw io_error("{}: cannot be written", path);
}

}  // namespace shardwright
