// Annotations as JSON (commands.md): the keys are names of operators, parameters and modules,
// and "dataset".

#include <algorithm>

#include "shardwright/annotations/annotations.h"
#include "shardwright/base/file.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/plan/comm_fusion.h"
#include "shardwright/plan/json_text.h"
#include "shardwright/plan/recompute_json.h"

namespace shardwright {
namespace {

std::vector<std::string> axes_of(const Json& dim) {
  std::vector<std::string> axes;
  if (dim.is_string()) {
    if (dim != "None") axes.push_back(dim);
  } else if (dim.is_array()) {
    for (const Json& a : dim) {
      if (!a.is_string()) throw error("{} should be axis names", short_text(dim));
      axes.push_back(a);
    }
  } else {
    throw error("{} should be an axis name, a list of them, or \"None\"", short_text(dim));
  }
  return axes;
}

TensorSplit split_of(const Json& json) {
  TensorSplit out;
  if (!json.is_array()) throw error("{} should be a list with one entry per dim", short_text(json));
  for (const Json& dim : json) {
    const bool is_by_axes = !dim.is_number();
    if (&dim != &json.front() && is_by_axes != out.is_by_axes)
      throw error("{} mixes integers and axis names; use one kind", short_text(json));
    out.is_by_axes = is_by_axes;
    if (is_by_axes)
      out.axes.push_back(axes_of(dim));
    else if (const auto parts = integer_in(dim))
      out.parts.push_back(*parts);
    else
      throw error("{}: the number of parts should be an integer, not {}", short_text(json), short_text(dim));
  }
  return out;
}

std::vector<TensorSplit> splits_of(const Json& json, std::string_view key) {
  if (!json.is_array())
    throw error("\"{}\" should be a list with one entry per tensor, not {}", key, short_text(json));
  std::vector<TensorSplit> out;
  for (const Json& tensor : json) out.push_back(split_of(tensor));
  if (out.empty()) throw error("\"{}\" is empty; it should have one entry per tensor", key);
  return out;
}

std::optional<Mesh> device_matrix_of(const Json& json) {
  if (!json.contains("device_matrix")) {
    if (json.contains("names")) throw error("\"names\" needs a \"device_matrix\" beside it");
    return std::nullopt;
  }
  const Json& sizes = json.at("device_matrix");
  const Json names = json.value("names", Json::array());
  if (!sizes.is_array() || !names.is_array() || sizes.size() != names.size())
    throw error("\"device_matrix\" {} and \"names\" {} should be lists of one length", short_text(sizes),
                short_text(names));
  Mesh mesh;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto size = integer_in(sizes[i]);
    if (!size || !names[i].is_string())
      throw error("\"device_matrix\" should hold integers and \"names\" words");
    mesh.axes.push_back({names[i], axis_size(names[i].get<std::string>(), *size)});
  }
  check(mesh);
  return mesh;
}

/// `matrix` is that of the file, for axis names where an entry has none of its own.
Annotation annotation_of(const Json& json, const std::vector<std::string>& keys,
                         const std::optional<Mesh>& matrix) {
  if (!json.is_object()) throw error("should be an object with \"in\", not {}", short_text(json));
  Annotation out;
  check_keys(json, keys);
  for (const auto& [key, value] : json.items()) {
    if (key == "in") out.in = splits_of(value, key);
    if (key == "out") out.out = splits_of(value, key);
  }
  out.device_matrix = device_matrix_of(json);
  if (!out.device_matrix && uses_axes(out)) out.device_matrix = matrix;
  if (out.in.empty() && out.out.empty() && (json.empty() || out.device_matrix))
    throw error("needs \"in\", or \"out\" if it is a parameter");
  check_one_kind(out);
  return out;
}

int fusion_number_of(const Json& json) {
  const auto number = integer_in(json);
  if (!number || *number < 0 || *number > most_fusion_number)
    throw error("\"comm_fusion\" {} should be an integer from 0 to {}; 0 is never with others",
                short_text(json), most_fusion_number);
  return static_cast<int>(*number);
}

int stage_of(const Json& json) {
  const auto stage = integer_in(json);
  if (!stage || *stage < 0 || *stage >= most_devices)
    throw error("\"stage\" {} should be an integer from 0 to {}", short_text(json), most_devices - 1);
  return static_cast<int>(*stage);
}

/// What is said of the node, operator, parameter or module called `name`.
void add_named(Constraints& out, const std::string& name, Json json, const std::optional<Mesh>& matrix) {
  if (json.is_object() && json.contains("comm_fusion")) {
    out.fusion_numbers[name] = fusion_number_of(json.at("comm_fusion"));
    json.erase("comm_fusion");
    if (json.empty()) return;
  }
  if (json.is_object() && json.contains("stage")) {
    out.stages[name] = stage_of(json.at("stage"));
    json.erase("stage");
    if (json.empty()) return;
  }
  if (json.is_object() && json.contains("host")) {
    if (!json.at("host").is_boolean())
      throw error("\"host\" {} should be true or false", short_text(json.at("host")));
    if (json.at("host").get<bool>()) out.hosted.insert(name);
    json.erase("host");
    if (json.empty()) return;
  }
  if (json.is_object() && json.contains("recompute")) {
    out.recomputed.push_back(recomputed_module(name, json.at("recompute")));
    json.erase("recompute");
    if (json.empty()) return;
  }
  out.tensors[name] = annotation_of(
      json, {"in", "out", "device_matrix", "names", "stage", "comm_fusion", "recompute", "host"}, matrix);
}

}  // namespace

Constraints parse_annotations(std::string_view text, std::string_view where) try {
  Constraints out;
  const Json json = parse_json(text);
  if (!json.is_object()) throw error("should be an object of node names");
  const std::optional<Mesh> matrix = device_matrix_of(json);
  for (const auto& [name, value] : json.items()) {
    if (name == "device_matrix" || name == "names") continue;
    try {
      if (name == "dataset" && value.is_string())
        out.dataset = parse_dataset(value);
      else if (name == "dataset" && value.is_array())
        out.dataset = DataSplit{.splits = annotation_of(Json{{"in", value}}, {"in"}, matrix)};
      else if (name == "dataset")
        out.dataset = DataSplit{.splits = annotation_of(value, {"in", "device_matrix", "names"}, matrix)};
      else
        add_named(out, name, value, matrix);
    } catch (const Error& e) {
      throw with_context(e, name);
    }
  }
  return out;
} catch (const Error& e) {
  throw with_context(e, where);
}

Constraints load_annotations(const std::string& path) { return parse_annotations(read_text(path), path); }

}  // namespace shardwright
