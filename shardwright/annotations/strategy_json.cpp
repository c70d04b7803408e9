// Strategy files as JSON: the keys are those of strategy_file.h.
#include <iterator>

#include "shardwright/annotations/strategy_formats.h"
#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/plan/json_fields.h"
#include "shardwright/plan/json_text.h"

namespace shardwright::strategy_formats {
namespace {

using Numbers = std::vector<std::int64_t>;

const Json& object_in(const Json& json) {
  if (!json.is_object()) throw error("{} stands where an object should be", short_text(json));
  return json;
}

/// A member that may be missing, or null.
const Json& objects_of(const Json& json, const char* key) {
  static const Json none = Json::object();
  const auto it = json.find(key);
  return it == json.end() || it->is_null() ? none : object_in(*it);
}

std::int64_t number_in_file(const Json& json) {
  const auto number = integer_in(json);
  if (!number) throw error("{} stands where a whole number should be", short_text(json));
  return *number;
}

std::int64_t number_of(const Json& json, const char* key, std::int64_t otherwise) {
  const auto it = json.find(key);
  return it == json.end() ? otherwise : number_in_file(*it);
}

Numbers numbers_in(const Json& json) {
  if (!json.is_array()) throw error("{} stands where a list of whole numbers should be", short_text(json));
  check_count(json.size(), most_dims, "dims or axes");
  Numbers out;
  for (const Json& n : json) out.push_back(number_in_file(n));
  return out;
}

const Json& list_of(const Json& json, const char* key) {
  const auto it = json.find(key);
  if (it == json.end() || !it->is_array()) throw error("it has no {}", key);
  return *it;
}

std::vector<std::string> names_of(const Json& json) {
  return member_or(json, "alias_name", "a list of names", std::vector<std::string>{});
}

MatrixLayout layout_in(const Json& json) {
  object_in(json);
  std::vector<Numbers> map;
  const Json& matrix = list_of(json, "dev_matrix");
  check_count(list_of(json, "tensor_map").size(), most_dims, "dims");
  for (const Json& dim : list_of(json, "tensor_map"))
    map.push_back(dim.is_array() ? numbers_in(dim) : Numbers{number_in_file(dim)});
  const auto interleaved = json.find("interleaved_parallel");
  if (interleaved != json.end() && !interleaved->is_null() && *interleaved != false && *interleaved != 0)
    throw error("interleaved_parallel is {}, which is not supported", short_text(*interleaved));
  return matrix_layout(numbers_in(matrix), names_of(json), map);
}

FileOperator operator_in(const std::string& name, const Json& json) {
  FileOperator out{.name = name};
  object_in(json);
  check_count(list_of(json, "parallel_strategy").size(), most_inputs, "inputs");
  for (const Json& parts : list_of(json, "parallel_strategy")) out.parts.push_back(numbers_in(parts));
  out.stage = stage_number(number_of(json, "stage", 0));
  out.turn = stage_number(number_of(json, "turn", 0));
  return out;
}

FileParameter parameter_in(const std::string& name, const Json& json) {
  FileParameter out = named_parameter(name);
  out.layout = layout_in(json);
  const std::int64_t size = number_of(json, "opt_weight_shard_size", 0);
  if (number_of(json, "opt_weight_shard_step", 0) != 0 && size != 0) out.optimizer_shards = size;
  if (json.contains("tensor_shape")) out.shape = numbers_in(json.at("tensor_shape"));
  return out;
}

/// By the number that each is called by. Throws: Error unless these are 0, 1, ... without a gap.
std::vector<MatrixLayout> inputs_in(const Json& json) {
  check_count(object_in(json).size(), most_inputs, "inputs");
  std::vector<MatrixLayout> out(json.size());
  for (const auto& [input, layout] :
       json.items()) {  // as no key stands twice, none is missing if all are numbers
    const auto number = to_integer(input);
    if (!number || *number < 0 || *number >= std::ssize(out) || fmt::format("{}", *number) != input)
      throw error("input '{:.200}' does not exist; inputs are 0 to {} - 1", input, out.size());
    out[static_cast<std::size_t>(*number)] = layout_in(layout);
  }
  return out;
}

/// What `read` makes of each member; errors say of what.
template <class F>
void each(const Json& json, const char* what, F read) {
  for (const auto& [name, value] : json.items()) try {
      read(name, value);
    } catch (const Error& e) {
      throw with_context(e, fmt::format("{} '{:.200}'", what, name));
    }
}

Numbers sizes_of(const Mesh& matrix) {
  Numbers out;
  for (const Axis& axis : matrix.axes) out.push_back(axis.size);
  return out;
}

Json names_json(const Mesh& matrix) {
  Json out = Json::array();
  for (const Axis& axis : matrix.axes) out.push_back(axis.name);
  return out;
}

/// Per dim an axis, or a list of several.
Json map_json(const MatrixLayout& layout) {
  Json out = Json::array();
  for (const Numbers& dim : tensor_map_of(layout))
    out.push_back(dim.size() == 1 ? Json(dim.front()) : Json(dim));
  return out;
}

Json parameter_json(const FileParameter& p) {
  const bool is_sharded = p.optimizer_shards != 1;
  Json out{{"dev_matrix", sizes_of(p.layout.matrix)},
           {"tensor_map", map_json(p.layout)},
           {"tensor_shape", p.shape},
           {"field", 0},
           {"opt_weight_shard_step", optimizer_step(p.layout, p.optimizer_shards)},
           {"opt_weight_shard_size", is_sharded ? p.optimizer_shards : 0}};
  if (!has_usual_names(p.layout.matrix)) out["alias_name"] = names_json(p.layout.matrix);
  return out;
}

Json inputs_json(const std::vector<MatrixLayout>& in) {
  Json out = Json::object();
  for (std::size_t i = 0; i < in.size(); ++i)
    out[fmt::format("{}", i)] = {{"dev_matrix", sizes_of(in[i].matrix)},
                                 {"tensor_map", tensor_map_of(in[i])},
                                 {"interleaved_parallel", false},
                                 {"alias_name", names_json(in[i].matrix)}};
  return out;
}

/// At its end: `object[name]` looks through all that is there. Pre: it has no such member.
void append(Json& object, std::string name, Json value) {
  object.get_ref<Json::object_t&>().emplace_back(std::move(name), std::move(value));
}

}  // namespace

StrategyFile from_json(std::string_view text) {
  const Json said = parse_json(text);
  if (object_in(said).contains("fingerprint")) throw error("it is a plan, which --plan takes");
  StrategyFile out{.stage = stage_number(number_of(said, "current_stage", 0))};
  std::map<std::string, std::size_t> places;
  each(objects_of(said, "parallel_strategy_item"), "operator",
       [&](const std::string& name, const Json& json) {
         places[name] = out.operators.size();
         out.operators.push_back(operator_in(name, json));
       });
  each(objects_of(said, "parallel_layout_value_item"), "operator",
       [&](const std::string& name, const Json& json) {
         const auto [it, is_new] = places.emplace(name, out.operators.size());
         if (is_new) out.operators.push_back({.name = name});
         out.operators[it->second].in = inputs_in(json);
       });
  each(objects_of(said, "parallel_layout_item"), "parameter", [&](const std::string& name, const Json& json) {
    out.parameters.push_back(parameter_in(name, json));
  });
  return out;
}

std::string to_json(const StrategyFile& file) {
  Json operators = Json::object(), parameters = Json::object(), inputs = Json::object();
  for (const FileOperator& op : file.operators) {
    Json split{{"stage", op.stage}, {"parallel_strategy", op.parts}};
    if (op.turn > 0) split["turn"] = op.turn;
    append(operators, op.name, std::move(split));
    if (!op.in.empty()) append(inputs, op.name, inputs_json(op.in));
  }
  const bool has_stages = is_joined(file);
  for (const FileParameter& p : file.parameters)
    append(parameters, name_in_file(p, has_stages), parameter_json(p));
  const Json out{{"current_stage", file.stage},
                 {"parallel_strategy_item", operators},
                 {"parallel_layout_item", parameters},
                 {"parallel_layout_value_item", inputs}};
  return out.dump(1) + "\n";
}

}  // namespace shardwright::strategy_formats
