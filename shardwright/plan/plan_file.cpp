// Plans as JSON. Keys of the format stand in the order in which a person reads them.

#include <set>

#include "shardwright/base/file.h"
#include "shardwright/base/quantity.h"
#include "shardwright/base/text.h"
#include "shardwright/cost/cluster_file.h"
#include "shardwright/plan/json_fields.h"
#include "shardwright/plan/json_text.h"
#include "shardwright/plan/operator_json.h"
#include "shardwright/plan/origin_json.h"
#include "shardwright/plan/plan.h"
#include "shardwright/plan/plan_json.h"
#include "shardwright/plan/recompute_json.h"

namespace shardwright {
namespace {

/// Files of format 1, too, are read: of a cluster's file they have the path alone, and stages have heads of their own.
constexpr int format_version = 2;

Json mesh_json(const Mesh& mesh) {
  Json out = Json::object();
  for (const Axis& a : mesh.axes) out[a.name] = a.shares.empty() ? Json(a.size) : Json(a.shares);
  return out;
}

/// Of a list of shares.
Axis shared_axis(const std::string& name, const Json& shares) {
  Axis out{name, axis_size(name, static_cast<std::int64_t>(shares.size()))};
  for (const Json& share : shares) {
    const auto n = integer_in(share);
    if (!n || *n < 1 || *n > Axis::most_share)
      throw kind_error(
          name,
          fmt::format("the size of an axis, or a share from 1 to {} for each along it", Axis::most_share),
          shares);
    out.shares.push_back(static_cast<int>(*n));
  }
  return out;
}

Mesh mesh_of(const Json& json, const char* key) {
  if (!json.is_object()) throw kind_error(key, "an object of axis names and sizes", json);
  Mesh mesh;
  for (const auto& [name, size] : json.items()) {
    if (size.is_array()) {
      mesh.axes.push_back(shared_axis(name, size));
      continue;
    }
    const auto n = integer_in(size);
    if (!n) throw kind_error(name, "the integer size of an axis", size);
    mesh.axes.push_back({name, axis_size(name, *n)});
  }
  check(mesh);
  return mesh;
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

/// Of a stage; files of format 1 also tell here what the head does.
std::vector<std::string> stage_keys(bool is_old) {
  std::vector<std::string> out{"devices", "mesh", "more_meshes", "layouts"};
  if (is_old)
    for (const char* key : {"fingerprint", "cluster", "parallel", "search", "status", "search_seconds"})
      out.emplace_back(key);
  return out;
}

/// Of a whole plan: what is read, and what `--json` tells of it besides (docs/plan-format.md).
const std::vector<std::string>& plan_keys() {
  static const std::vector<std::string> keys = [] {
    const auto words = split(
        "format model made_from fingerprint devices cluster cluster_text memory_margin routing_imbalance "
        "parallel search status search_seconds "
        "mesh more_meshes schedule micro_batches micro_batch_interleave stage_plans zero zero_threshold "
        "zero_group comm_fusion "
        "recompute offload overlap_tensor framework "
        "operators layouts step_seconds compute_seconds communication_seconds exposed_communication_seconds "
        "tokens_per_second recompute_seconds mfu hfu lower_bound_seconds gap stages bubble_seconds "
        "bubble_fraction "
        "memory_bytes by_stage fits "
        "collectives_per_step bytes_communicated_per_step host_bytes_per_step host_copy_seconds binding "
        "binding_by alternatives dropped request",
        ' ');
    return std::vector<std::string>(words.begin(), words.end());
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

int devices_of(const Json& json) { return integer_of(member(json, "devices"), "devices", 1, most_devices); }

double margin_of(const Json& json) {
  const std::string text = text_or(json, "memory_margin", "");
  const auto share = to_share(text);
  if (!share) throw error("\"memory_margin\" '{}' {}", text, what_shares_are);
  return *share;
}

double imbalance_of(const Json& json) {
  if (!json.contains("routing_imbalance")) return 1;
  const Json& said = json.at("routing_imbalance");
  if (!said.is_number() || said.get<double>() < 1)
    throw kind_error("routing_imbalance", "a number of at least 1", said);
  return said.get<double>();
}

/// A name says all of a preset but the margin and the imbalance; what was a file stands in the plan, as lines of it.
Cluster cluster_of(const Json& json, int devices) {
  const std::string name = text_or(json, "cluster", host_cluster(devices).name);
  if (!json.contains("cluster_text")) {
    Cluster out = cluster_called(name);
    if (json.contains("memory_margin")) out.memory_margin = margin_of(json);
    out.routing_imbalance = imbalance_of(json);
    return out;
  }
  const auto lines =
      member_or(json, "cluster_text", "a list of lines of a cluster file", std::vector<std::string>{});
  Cluster out = parse_cluster(join(lines, "\n"), "\"cluster_text\"");
  out.name = name;
  member(json, "cluster");  // what it is called
  return out;
}

void set_cluster(Json& json, const Cluster& cluster) {
  json["cluster"] = cluster.name;
  if (is_preset(cluster)) {
    if (cluster.memory_margin) json["memory_margin"] = share_text(*cluster.memory_margin);
    if (cluster.routing_imbalance != 1) json["routing_imbalance"] = cluster.routing_imbalance;
    return;
  }
  const std::string text = to_text(cluster);
  json["cluster_text"] = split(trim(text), '\n');
}

/// All of the plan but its stages.
Plan head_of(const Json& json) {
  Plan plan{.model = text_or(json, "model", "")};
  if (json.contains("made_from")) plan.origin = origin_of(json.at("made_from"));
  plan.fingerprint = text_or(json, "fingerprint", "");
  member(json, "fingerprint");
  const int devices = devices_of(json);
  plan.cluster = cluster_of(json, devices);
  if (plan.devices() != devices)
    throw error("\"cluster\" {} has {} devices but \"devices\" is {}", plan.cluster.name, plan.devices(),
                devices);
  plan.parallel = name_of(parallel_called(text_or(json, "parallel", "auto_parallel")));
  plan.search = text_or(json, "search", "");
  plan.status = status_of(json);
  plan.search_seconds = number_or(json, "search_seconds", 0.0);
  plan.settings.pipelining.micro_batches =
      integer_of(json.value("micro_batches", Json(1)), "micro_batches", 1, most_micro_batches);
  plan.settings.pipelining.interleave = integer_of(json.value("micro_batch_interleave", Json(1)),
                                                   "micro_batch_interleave", 1, most_micro_batches);
  if (json.contains("schedule") && !json.at("schedule").is_null()) {
    if (!json.contains("stage_plans"))
      throw error("\"schedule\" is {} but there are no \"stage_plans\"", short_text(json.at("schedule")));
    plan.settings.pipelining.schedule = schedule_called(text_or(json, "schedule", ""));
  }
  plan.settings.optimizer_parallel = optimizer_parallel_of(json);
  if (json.contains("comm_fusion")) plan.settings.comm_fusion = fusion_of(json.at("comm_fusion"));
  if (json.contains("framework"))
    plan.settings.framework = framework_called(text_or(json, "framework", "")).name;
  if (json.contains("recompute")) plan.settings.recompute = recompute_of(json.at("recompute"));
  plan.settings.overlap_tensor = member_or(json, "overlap_tensor", "true or false", false);
  if (json.contains("offload")) plan.settings.offload = parse_offload(text_or(json, "offload", ""));
  return plan;
}

/// The plan of a stage without its operators, which say themselves where they belong.
StagePlan stage_of(const Json& json) {
  const int devices = devices_of(json);
  StagePlan out{.meshes = {mesh_of(member(json, "mesh"), "mesh")}};
  if (json.contains("more_meshes"))
    for (const Json& mesh : list_of(json.at("more_meshes"), "more_meshes"))
      out.meshes.push_back(mesh_of(mesh, "more_meshes"));
  for (const Mesh& mesh : out.meshes)
    if (mesh.size() != devices)
      throw error("{} has {} ranks but \"devices\" is {}", to_text(mesh), mesh.size(), devices);
  out.layouts = member_or(json, "layouts", "an object of names and layouts", out.layouts);
  return out;
}

/// Throws: Error unless chunks of the same devices say so, and all devices have a stage.
void check_devices(const Plan& plan) {
  const Pipelining& p = plan.settings.pipelining;
  std::int64_t devices = 0;
  for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s) {
    const auto group = static_cast<std::size_t>(p.stage_of(s));
    const int here = plan.stages[static_cast<std::size_t>(s)].devices(), first = plan.stages[group].devices();
    if (here != first)
      throw error("stages {} and {} run on the same devices, but one has {} and the other {}", group, s,
                  first, here);
    if (s < p.stages) devices += here;
  }
  if (devices != plan.devices())
    throw error("the stages have {} devices but \"devices\" is {}", devices, plan.devices());
}

std::vector<StagePlan> stages_of(const Json& json, bool is_old) {
  std::vector<StagePlan> out;
  for (const char* key : {"mesh", "more_meshes", "layouts"})
    if (json.contains(key) && !json.at(key).empty())
      throw error("\"{}\" and \"stage_plans\" exclude each other: each stage has its own", key);
  for (const Json& stage : list_of(json.at("stage_plans"), "stage_plans")) try {
      if (!stage.is_object()) throw error("should be an object, not {}", short_text(stage));
      check_keys(stage, stage_keys(is_old));
      out.push_back(stage_of(stage));
    } catch (const Error& e) {
      throw with_context(e, fmt::format("stage {}", out.size()));
    }
  if (out.size() < 2) throw error("\"stage_plans\" should hold a plan for each of several stages");
  return out;
}

void read_operators(Plan& plan, const Json& json) {
  std::set<std::pair<int, std::string>> names;  // stages may have constants in common
  const int last = static_cast<int>(plan.stages.size()) - 1;
  for (const Json& op : list_of(json, "operators")) {
    const bool has_stage = op.is_object() && op.contains("stage");
    if (has_stage && last == 0)
      throw error("an operator has the \"stage\" {} but there are no \"stage_plans\"",
                  short_text(op.at("stage")));
    const int stage =
        last == 0 ? 0 : integer_of(has_stage ? op.at("stage") : Json("missing"), "stage", 0, last);
    auto& operators = plan.stages[static_cast<std::size_t>(stage)].operators;
    operators.push_back(operator_of(op));
    const std::string& name = operators.back().name;
    if (!names.emplace(stage, name).second) throw error("operator {} stands twice", name);
  }
}

void set_meshes(Json& json, const StagePlan& stage) {
  json["mesh"] = mesh_json(stage.meshes.front());
  for (std::size_t m = 1; m < stage.meshes.size(); ++m)
    json["more_meshes"].push_back(mesh_json(stage.meshes[m]));
}

Json stage_json(const StagePlan& stage) {
  Json out{{"devices", stage.devices()}};
  set_meshes(out, stage);
  out["layouts"] = stage.layouts;
  return out;
}

}  // namespace

Json json_of(const Plan& plan) {
  const bool is_whole = plan.stages.size() == 1;
  Json out{{"format", format_version},
           {"model", plan.model},
           {"made_from", origin_json(plan.origin)},
           {"fingerprint", plan.fingerprint},
           {"devices", plan.devices()}};
  set_cluster(out, plan.cluster);
  out["parallel"] = plan.parallel;
  out["search"] = plan.search;
  out["status"] = plan.status;
  out["search_seconds"] = plan.search_seconds;
  if (is_whole) set_meshes(out, plan.stages.front());
  if (plan.settings.pipelining.micro_batches > 1)
    out["micro_batches"] = plan.settings.pipelining.micro_batches;
  if (plan.settings.pipelining.interleave > 1)
    out["micro_batch_interleave"] = plan.settings.pipelining.interleave;
  if (!is_whole) {
    out["schedule"] = to_text(plan.settings.pipelining.schedule);
    for (const StagePlan& stage : plan.stages) out["stage_plans"].push_back(stage_json(stage));
  }
  const OptimizerParallel& zero = plan.settings.optimizer_parallel;
  out["zero"] = zero.level;
  if (zero.level > 0) out["zero_threshold"] = zero.threshold;
  if (zero.level > 0 && zero.group > 0) out["zero_group"] = zero.group;
  out["comm_fusion"] = fusion_json(plan.settings.comm_fusion);
  out["recompute"] = recompute_json(plan.settings.recompute);
  if (plan.settings.offload.is_on()) out["offload"] = to_text(plan.settings.offload);
  if (plan.settings.overlap_tensor) out["overlap_tensor"] = true;
  if (plan.settings.framework != own_framework) out["framework"] = plan.settings.framework;
  out["operators"] = Json::array();
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (const PlannedOperator& op : plan.stages[s].operators) {
      out["operators"].push_back(operator_json(op));
      if (!is_whole) out["operators"].back()["stage"] = s;
    }
  if (is_whole) out["layouts"] = plan.stages.front().layouts;
  return out;
}

std::string to_json(const Plan& plan) { return json_of(plan).dump(1); }

Plan parse_plan(std::string_view text, std::string_view where) try {
  const Json json = parse_json(text);
  if (!json.is_object() || !json.contains("format")) throw error("is no plan: it has no \"format\"");
  const bool is_old = json.at("format") == 1;
  if (!is_old && json.at("format") != format_version)
    throw error("has plan format {} but this version reads 1 and {}; plan again",
                short_text(json.at("format")), format_version);
  check_keys(json, plan_keys());
  Plan plan = head_of(json);
  plan.stages = json.contains("stage_plans") ? stages_of(json, is_old) : std::vector{stage_of(json)};
  Pipelining& p = plan.settings.pipelining;
  const int parts = static_cast<int>(plan.stages.size());
  p.stages = parts / p.schedule.chunks;
  if (parts != p.parts() || (parts > 1 && p.stages < 2))
    throw error("\"schedule\" {} of several stages does not go with {} \"stage_plans\"", name_of(p.schedule),
                parts);
  if (const std::string why = refusal_of(p); parts > 1 && !why.empty()) throw error("{}", why);
  check_devices(plan);
  if (json.contains("stages") && json.at("stages") != p.stages)
    throw error(
        "\"stages\" is {} but {}", short_text(json.at("stages")),
        parts == 1 ? "there are no \"stage_plans\"" : fmt::format("\"stage_plans\" holds {} plans", parts));
  read_operators(plan, member(json, "operators"));
  return plan;
} catch (const Error& e) {
  throw with_context(e, where);
}

Plan load_plan(const std::string& path) { return parse_plan(read_text(path), path); }

void save_plan(const Plan& plan, const std::string& path) { write_file(path, to_json(plan) + "\n"); }

}  // namespace shardwright
