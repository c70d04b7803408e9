// Plans as JSON. Keys of the format stand in the order in which a person reads them.

#include <set>

#include "shardwright/base/file.h"
#include "shardwright/base/text.h"
#include "shardwright/cost/cluster_file.h"
#include "shardwright/plan/json_fields.h"
#include "shardwright/plan/json_text.h"
#include "shardwright/plan/origin_json.h"
#include "shardwright/plan/plan.h"
#include "shardwright/plan/recompute_json.h"

namespace shardwright {
namespace {

/// Files of format 1, too, are read: they hold no cluster but a name or path.
constexpr int format_version = 2;

Json mesh_json(const Mesh& mesh) {
  Json out = Json::object();
  for (const Axis& a : mesh.axes) out[a.name] = a.size;
  return out;
}

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

Mesh mesh_of(const Json& json, const char* key) {
  if (!json.is_object()) throw kind_error(key, "an object of axis names and sizes", json);
  Mesh mesh;
  for (const auto& [name, size] : json.items()) {
    const auto n = integer_in(size);
    if (!n) throw kind_error(name, "the integer size of an axis", size);
    mesh.axes.push_back({name, axis_size(name, *n)});
  }
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
  if (op.is_fixed) out["fixed"] = true;
  out["reason"] = to_text(op.reason);
  return out;
}

PlannedOperator operator_of(const Json& json) {
  if (!json.is_object()) throw error("{} in \"operators\" should be an object", short_text(json));
  PlannedOperator op{.name = member(json, "name").is_string() ? json.at("name").get<std::string>() : ""};
  if (op.name.empty()) throw kind_error("name", "the name of an operator", json.at("name"));
  try {
    check_keys(json, {"name", "kind", "strategy", "mesh", "in", "out", "fixed", "reason", "stage"});
    op.kind = text_or(json, "kind", "");
    if (!member(json, "strategy").is_object())
      throw kind_error("strategy", "an object of loop dims", json.at("strategy"));
    for (const auto& [loop, unused] : json.at("strategy").items())
      op.strategy.emplace_back(loop, member_or(json.at("strategy"), loop.c_str(), "a list of axis names",
                                               std::vector<std::string>{}));
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

/// Without a threshold every parameter is large enough: so were plans made before there was one.
OptimizerParallel optimizer_parallel_of(const Json& json) {
  OptimizerParallel out;
  if (json.contains("zero")) out.level = integer_of(json.at("zero"), "zero", 0, 3);
  if (out.level > 0) out.threshold = 0;
  for (const char* key : {"zero_threshold", "zero_group"})
    if (out.level == 0 && json.contains(key)) throw error("\"{}\" needs a \"zero\" from 1 on", key);
  if (json.contains("zero_threshold"))
    out.threshold = long_of(json.at("zero_threshold"), "zero_threshold", 0, most_of_all);
  if (json.contains("zero_group"))
    out.group = integer_of(json.at("zero_group"), "zero_group", 0, most_devices);
  return out;
}

Json fusion_json(const CommFusion& fusion) {
  if (fusion.parameters.empty()) return to_text(fusion);
  return {{"limits", to_text(fusion)}, {"parameters", fusion.parameters}};
}

CommFusion fusion_of(const Json& json) {
  if (json.is_string()) return parse_comm_fusion(json.get<std::string>());
  if (!json.is_object()) throw kind_error("comm_fusion", "a text such as auto, or an object", json);
  check_keys(json, "comm_fusion", {"limits", "parameters"});
  CommFusion out = parse_comm_fusion(text_or(json, "limits", "auto"));
  if (json.contains("parameters") && !json.at("parameters").is_object())
    throw kind_error("parameters", "an object of parameters and integers", json.at("parameters"));
  if (json.contains("parameters"))
    for (const auto& [name, number] : json.at("parameters").items())
      out.parameters[name] = integer_of(number, name.c_str(), 0, most_fusion_number);
  return out;
}

const Json& list_of(const Json& json, const char* key) {
  if (!json.is_array()) throw kind_error(key, "a list", json);
  return json;
}

const std::vector<std::string>& stage_keys() {
  static const std::vector<std::string> keys{"fingerprint", "devices",       "cluster", "parallel",
                                             "search",      "status",        "mesh",    "more_meshes",
                                             "layouts",     "search_seconds"};
  return keys;
}

/// Of a whole plan: what is read, and what `--json` tells of it besides (docs/plan-format.md).
const std::vector<std::string>& plan_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> out{"format",
                                 "model",
                                 "cluster_text",
                                 "made_from",
                                 "schedule",
                                 "micro_batches",
                                 "stage_plans",
                                 "zero",
                                 "zero_threshold",
                                 "zero_group",
                                 "comm_fusion",
                                 "recompute",
                                 "operators",
                                 "step_seconds",
                                 "compute_seconds",
                                 "communication_seconds",
                                 "exposed_communication_seconds",
                                 "tokens_per_second",
                                 "mfu",
                                 "lower_bound_seconds",
                                 "gap",
                                 "stages",
                                 "bubble_fraction",
                                 "memory_bytes",
                                 "fits",
                                 "collectives_per_step",
                                 "bytes_communicated_per_step"};
    out.insert(out.end(), stage_keys().begin(), stage_keys().end());
    return out;
  }();
  return keys;
}

std::string status_of(const Json& json) {
  const std::string status = text_or(json, "status", std::string(name_of(SearchStatus::feasible)));
  for (const SearchStatus s :
       {SearchStatus::optimal, SearchStatus::feasible, SearchStatus::infeasible, SearchStatus::timeout})
    if (status == name_of(s)) return status;
  throw kind_error("status", "optimal, feasible, infeasible or timeout", json.at("status"));
}

/// A name says all of a preset; what was a file stands in the plan, as lines of it.
Cluster cluster_of(const Json& json, int devices) {
  const std::string name = text_or(json, "cluster", host_cluster(devices).name);
  if (!json.contains("cluster_text")) return cluster_called(name);
  const auto lines =
      member_or(json, "cluster_text", "a list of lines of a cluster file", std::vector<std::string>{});
  Cluster out = parse_cluster(join(lines, "\n"), "\"cluster_text\"");
  out.name = name;
  return out;
}

void set_cluster(Json& json, const Cluster& cluster) {
  json["cluster"] = cluster.name;
  if (is_preset(cluster)) return;
  const std::string text = to_text(cluster);
  json["cluster_text"] = split(trim(text), '\n');
}

/// All of the plan but its operators and layouts.
Plan head_of(const Json& json) {
  Plan plan{.model = text_or(json, "model", "")};
  if (json.contains("made_from")) plan.origin = origin_of(json.at("made_from"));
  plan.fingerprint = text_or(json, "fingerprint", "");
  member(json, "fingerprint");
  plan.devices = integer_of(member(json, "devices"), "devices", 1, most_devices);
  plan.cluster = cluster_of(json, plan.devices);
  if (const int n = plan.cluster.devices(); n != plan.devices)
    throw error("\"cluster\" {} has {} devices but \"devices\" is {}", plan.cluster.name, n, plan.devices);
  plan.parallel = name_of(parallel_called(text_or(json, "parallel", "auto_parallel")));
  plan.search = text_or(json, "search", "");
  plan.status = status_of(json);
  plan.search_seconds = number_or(json, "search_seconds", 0.0);
  plan.settings.pipelining.micro_batches =
      integer_of(json.value("micro_batches", Json(1)), "micro_batches", 1, most_micro_batches);
  if (json.contains("schedule") && !json.at("schedule").is_null()) {
    if (!json.contains("stage_plans"))
      throw error("\"schedule\" is {} but there are no \"stage_plans\"", short_text(json.at("schedule")));
    plan.settings.pipelining.schedule = schedule_called(text_or(json, "schedule", ""));
  }
  plan.settings.optimizer_parallel = optimizer_parallel_of(json);
  if (json.contains("comm_fusion")) plan.settings.comm_fusion = fusion_of(json.at("comm_fusion"));
  if (json.contains("recompute")) plan.settings.recompute = recompute_of(json.at("recompute"));
  if (json.contains("stage_plans")) {  // they say which meshes there are
    for (const char* key : {"mesh", "more_meshes"})
      if (json.contains(key))
        throw error("\"{}\" and \"stage_plans\" exclude each other: each stage has its own", key);
    return plan;
  }
  plan.meshes.push_back(mesh_of(member(json, "mesh"), "mesh"));
  if (json.contains("more_meshes"))
    for (const Json& mesh : list_of(json.at("more_meshes"), "more_meshes"))
      plan.meshes.push_back(mesh_of(mesh, "more_meshes"));
  for (const Mesh& mesh : plan.meshes)
    if (mesh.size() != plan.devices)
      throw error("{} has {} ranks but \"devices\" is {}", to_text(mesh), mesh.size(), plan.devices);
  return plan;
}

/// The plans of stages, without their operators, which say themselves where they belong.
void read_stages(Plan& plan, const Json& json) {
  std::int64_t devices = 0;
  int number = 0;
  for (const Json& stage : list_of(json.at("stage_plans"), "stage_plans")) try {
      if (!stage.is_object()) throw error("should be an object, not {}", short_text(stage));
      check_keys(stage, stage_keys());
      Json head = stage;
      head.erase("cluster");  // files of format 1 name a part of the plan's
      plan.stages.push_back(head_of(head));
      Plan& of_stage = plan.stages.back();
      of_stage.layouts = member_or(stage, "layouts", "an object of names and layouts", of_stage.layouts);
      of_stage.settings = plan.settings;
      of_stage.settings.pipelining = {};
      devices += of_stage.devices;
      ++number;
    } catch (const Error& e) {
      throw with_context(e, fmt::format("stage {}", number));
    }
  if (plan.stages.size() < 2) throw error("\"stage_plans\" should hold a plan for each of several stages");
  const int parts = static_cast<int>(plan.stages.size()), chunks = plan.settings.pipelining.schedule.chunks;
  if (parts % chunks || parts / chunks < 2)
    throw error("\"schedule\" {} of several stages does not go with {} \"stage_plans\"",
                name_of(plan.settings.pipelining.schedule), parts);
  plan.settings.pipelining.stages = parts / chunks;
  for (int s = plan.settings.pipelining.stages; s < parts; ++s) {
    const Plan &here = plan.stages[static_cast<std::size_t>(s)],
               &first = plan.stages[static_cast<std::size_t>(s % plan.settings.pipelining.stages)];
    if (here.devices != first.devices)
      throw error("stages {} and {} run on the same devices, but one has {} and the other {}",
                  s % plan.settings.pipelining.stages, s, first.devices, here.devices);
  }
  for (int s = 0, first = 0; s < parts; ++s) {
    Plan& stage = plan.stages[static_cast<std::size_t>(s)];
    if (s % plan.settings.pipelining.stages == 0) first = 0;
    if (first + stage.devices <= plan.devices) stage.cluster = plan.cluster.part(first, stage.devices);
    first += stage.devices;
  }
  devices /= chunks;
  if (devices != plan.devices)
    throw error("the stages have {} devices but \"devices\" is {}", devices, plan.devices);
}

Plan& stage_of(Plan& plan, const Json& op) {
  const Json stage = op.is_object() && op.contains("stage") ? op.at("stage") : Json("missing");
  return plan
      .stages[static_cast<std::size_t>(integer_of(stage, "stage", 0, plan.settings.pipelining.parts() - 1))];
}

/// All of the plan but its operators, layouts and stages.
Json head_json(const Plan& plan, bool is_whole) {
  Json out{{"fingerprint", plan.fingerprint}, {"devices", plan.devices}};
  if (is_whole) set_cluster(out, plan.cluster);
  out["parallel"] = plan.parallel;
  out["search"] = plan.search;
  out["status"] = plan.status;
  out["search_seconds"] = plan.search_seconds;
  if (plan.meshes.empty()) return out;
  out["mesh"] = mesh_json(plan.meshes.front());
  Json more = Json::array();
  for (std::size_t m = 1; m < plan.meshes.size(); ++m) more.push_back(mesh_json(plan.meshes[m]));
  if (!more.empty()) out["more_meshes"] = more;
  return out;
}

Json stage_json(const Plan& stage) {
  Json out = head_json(stage, false);
  out["layouts"] = stage.layouts;
  return out;
}

}  // namespace

std::string to_json(const Plan& plan) {
  Json out{{"format", format_version}, {"model", plan.model}, {"made_from", origin_json(plan.origin)}};
  out.update(head_json(plan, true));
  if (plan.settings.pipelining.micro_batches > 1)
    out["micro_batches"] = plan.settings.pipelining.micro_batches;
  if (!plan.stages.empty()) {
    out["schedule"] = name_of(plan.settings.pipelining.schedule);
    out["stage_plans"] = Json::array();
    for (const Plan& stage : plan.stages) out["stage_plans"].push_back(stage_json(stage));
  }
  out["zero"] = plan.settings.optimizer_parallel.level;
  if (plan.settings.optimizer_parallel.level > 0) {
    out["zero_threshold"] = plan.settings.optimizer_parallel.threshold;
    if (plan.settings.optimizer_parallel.group > 0)
      out["zero_group"] = plan.settings.optimizer_parallel.group;
  }
  out["comm_fusion"] = fusion_json(plan.settings.comm_fusion);
  out["recompute"] = recompute_json(plan.settings.recompute);
  out["operators"] = Json::array();
  for (const PlannedOperator& op : plan.operators) out["operators"].push_back(operator_json(op));
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (const PlannedOperator& op : plan.stages[s].operators) {
      out["operators"].push_back(operator_json(op));
      out["operators"].back()["stage"] = s;
    }
  out["layouts"] = plan.layouts;
  return out.dump(1);
}

Plan parse_plan(std::string_view text, std::string_view where) try {
  const Json json = parse_json(text);
  if (!json.is_object() || !json.contains("format")) throw error("is no plan: it has no \"format\"");
  if (json.at("format") != 1 && json.at("format") != format_version)
    throw error("has plan format {} but this version reads 1 and {}; plan again",
                short_text(json.at("format")), format_version);
  check_keys(json, plan_keys());
  Plan plan = head_of(json);
  if (json.contains("stage_plans")) read_stages(plan, json);
  if (json.contains("stages") && json.at("stages") != plan.settings.pipelining.stages)
    throw error("\"stages\" is {} but {}", short_text(json.at("stages")),
                plan.stages.empty() ? "there are no \"stage_plans\""
                                    : fmt::format("\"stage_plans\" holds {} plans", plan.stages.size()));
  std::set<std::pair<const Plan*, std::string>> names;  // stages may have constants in common
  for (const Json& op : list_of(member(json, "operators"), "operators")) {
    if (op.is_object() && op.contains("stage") && plan.stages.empty())
      throw error("an operator has the \"stage\" {} but there are no \"stage_plans\"",
                  short_text(op.at("stage")));
    Plan& of = plan.stages.empty() ? plan : stage_of(plan, op);
    of.operators.push_back(operator_of(op));
    const std::string& name = of.operators.back().name;
    if (!names.emplace(&of, name).second) throw error("operator {} stands twice", name);
  }
  plan.layouts = member_or(json, "layouts", "an object of names and layouts", plan.layouts);
  if (!plan.stages.empty() && !plan.layouts.empty())
    throw error("\"layouts\" of {} stands beside \"stage_plans\"; it should stand in that of its stage",
                plan.layouts.begin()->first);
  return plan;
} catch (const Error& e) {
  throw with_context(e, where);
}

Plan load_plan(const std::string& path) { return parse_plan(read_file(path), path); }

void save_plan(const Plan& plan, const std::string& path) { write_file(path, to_json(plan) + "\n"); }

}  // namespace shardwright
