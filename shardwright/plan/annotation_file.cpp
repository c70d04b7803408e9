// Annotations as JSON (commands.md): the keys are node names and "dataset".

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shardwright/base/text.h"
#include "shardwright/plan/annotations.h"

namespace shardwright {
namespace {

using Json = nlohmann::json;

std::vector<std::string> axes_of(const Json& dim) {
  std::vector<std::string> axes;
  if (dim.is_string()) {
    if (dim != "None") axes.push_back(dim);
  } else if (dim.is_array()) {
    for (const Json& a : dim) {
      if (!a.is_string()) throw error("{} should be axis names", dim.dump());
      axes.push_back(a);
    }
  } else {
    throw error("{} should be an axis name, a list of them, or \"None\"", dim.dump());
  }
  return axes;
}

TensorSplit split_of(const Json& json) {
  TensorSplit out;
  if (!json.is_array()) throw error("{} should be a list with one entry per dim", json.dump());
  for (const Json& dim : json) {
    const bool is_by_axes = !dim.is_number();
    if (&dim != &json.front() && is_by_axes != out.is_by_axes)
      throw error("{} mixes integers and axis names; use one kind", json.dump());
    out.is_by_axes = is_by_axes;
    if (is_by_axes)
      out.axes.push_back(axes_of(dim));
    else if (dim.is_number_integer())
      out.parts.push_back(dim);
    else
      throw error("{}: the number of parts should be an integer, not {}", json.dump(), dim.dump());
  }
  return out;
}

std::vector<TensorSplit> splits_of(const Json& json, std::string_view key) {
  if (!json.is_array())
    throw error("\"{}\" should be a list with one entry per tensor, not {}", key, json.dump());
  std::vector<TensorSplit> out;
  for (const Json& tensor : json) {
    out.push_back(split_of(tensor));
    if (!tensor.empty() && out.back().is_by_axes != out.front().is_by_axes && !out.front().parts.empty())
      throw error("\"{}\" mixes integers and axis names; use one kind", key);
  }
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
    throw error("\"device_matrix\" {} and \"names\" {} should be lists of one length", sizes.dump(),
                names.dump());
  Mesh mesh;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (!sizes[i].is_number_integer() || !names[i].is_string())
      throw error("\"device_matrix\" should hold integers and \"names\" words");
    mesh.axes.push_back({names[i], sizes[i]});
  }
  check(mesh);
  return mesh;
}

Annotation annotation_of(const Json& json) {
  if (!json.is_object()) throw error("should be an object with \"in\", not {}", json.dump());
  Annotation out;
  for (const auto& [key, value] : json.items()) {
    if (key == "in")
      out.in = splits_of(value, key);
    else if (key == "out")
      out.out = splits_of(value, key);
    else if (key == "stage" && value != 0)
      throw error("\"stage\" {}: pipeline stages are not available yet; leave it out", value.dump());
    else if (key != "device_matrix" && key != "names" && key != "stage")
      throw error("key \"{}\" is unknown; there are in, out, device_matrix, names, stage", key);
  }
  out.device_matrix = device_matrix_of(json);
  if (!out.out.empty() && out.in.empty()) throw error("\"out\" needs \"in\" beside it");
  return out;
}

}  // namespace

Annotations parse_annotations(std::string_view text, std::string_view where) try {
  Annotations out;
  const Json json = Json::parse(text);
  if (!json.is_object()) throw error("should be an object of node names");
  for (const auto& [name, value] : json.items()) {
    try {
      if (name == "dataset" && value.is_string())
        set_dataset_strategy(out, value);
      else if (name == "dataset" && value.is_array())
        out.dataset = Annotation{std::nullopt, splits_of(value, name), {}};
      else if (name == "dataset")
        out.dataset = annotation_of(value);
      else
        out.nodes[name] = annotation_of(value);
    } catch (const Error& e) {
      throw with_context(e, name);
    }
  }
  return out;
} catch (const Json::exception& e) {
  throw error("{}: not valid JSON: {}", where, e.what());
} catch (const Error& e) {
  throw with_context(e, where);
}

Annotations load_annotations(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw io_error("{}: cannot be read", path);
  std::ostringstream text;
  text << in.rdbuf();
  return parse_annotations(text.str(), path);
}

void set_dataset_strategy(Annotations& annotations, const std::string& text) {
  if (text == "full_batch" || text == "data_parallel") {
    annotations.dataset_word = text;
    annotations.dataset.reset();
    return;
  }
  Annotation splits;
  Scanner in(text, "dataset strategy");
  const auto open = [&] { return in.accept("(") || in.accept("["); };
  const auto close = [&] { return in.accept(")") || in.accept("]"); };
  if (!open())
    throw error("dataset strategy '{}' should be full_batch, data_parallel or splits such as ((4,1),(4,))",
                text);
  while (!close()) {
    if (!open()) in.fail("'(' of one input's split");
    TensorSplit split;
    while (!close()) {
      split.parts.push_back(in.integer("a number of parts"));
      in.accept(",");
    }
    splits.in.push_back(std::move(split));
    in.accept(",");
  }
  annotations.dataset = std::move(splits);
  annotations.dataset_word.clear();
}

}  // namespace shardwright
