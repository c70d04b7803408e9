// Strategy files as protobuf: the messages are those of strategy_file.h.
#include "shardwright/annotations/strategy_formats.h"
#include "shardwright/base/error.h"
#include "shardwright/base/protobuf.h"

namespace shardwright::strategy_formats {
namespace {

using protobuf::Field;
using protobuf::put;
using protobuf::Reader;
using Numbers = std::vector<std::int64_t>;

constexpr int ours = 15, turn = 14;  // fields that are in no file of others

Numbers numbers_in(std::string_view message) {
  Numbers out;
  for (Reader in(message); const auto field = in.next();)
    if (field->id == 1)
      for (const std::int64_t n : field->numbers()) {
        check_count(out.size() + 1, most_dims, "dims or axes");
        out.push_back(n);
      }
  return out;
}

struct Entry {
  std::string name;
  std::string_view message;
  std::vector<std::string_view> layouts;
  std::int64_t turn = 0;
};

Entry entry_of(std::string_view message) {
  Entry out;
  bool has_name = false, has_more = false;
  for (Reader in(message); const auto field = in.next();) {
    if (field->id == 1) out.name = field->text(), has_name = true;
    if (field->id == 2) out.message = field->message(), has_more = true;
    if (field->id == turn) out.turn = field->number();
    if (field->id == ours) {
      check_count(out.layouts.size() + 1, most_inputs, "inputs");
      out.layouts.push_back(field->message());
    }
  }
  if (!has_name || !has_more) throw error("an entry has no name or nothing beside it");
  return out;
}

struct LayoutMessage {
  MatrixLayout layout;
  std::int64_t shards = 1;
};

LayoutMessage layout_in(std::string_view message) {
  Numbers sizes;
  std::vector<Numbers> maps;
  std::vector<std::string> names;
  std::int64_t step = 0, size = 0;
  bool has_matrix = false;
  for (Reader in(message); const auto field = in.next();) {
    if (field->id == 1) sizes = numbers_in(field->message()), has_matrix = true;
    if (field->id == 2) {
      check_count(maps.size() + 1, most_dims, "dims");
      maps.push_back(numbers_in(field->message()));
    }
    if (field->id == 6) step = field->number();
    if (field->id == 7) size = field->number();
    if (field->id == ours) {
      check_count(names.size() + 1, most_dims, "axes");
      names.push_back(field->text());
    }
  }
  if (!has_matrix || maps.empty()) throw error("it has no device matrix or tensor map");
  if (maps.size() == 1) {  // one map of all dims
    std::vector<Numbers> dims;
    for (const std::int64_t axis : maps[0]) dims.push_back({axis});
    maps = std::move(dims);
  } else if (maps.back().empty()) {
    maps.pop_back();  // it tells a nested map of one dim from one that is not nested
  }
  return {matrix_layout(sizes, std::move(names), maps), step != 0 && size != 0 ? size : 1};
}

FileOperator operator_in(std::string_view message) {
  const Entry entry = entry_of(message);
  FileOperator out{.name = entry.name};
  try {
    for (Reader in(entry.message); const auto field = in.next();) {
      if (field->id == 1) out.stage = stage_number(field->number());
      if (field->id == 2) {
        check_count(out.parts.size() + 1, most_inputs, "inputs");
        out.parts.push_back(numbers_in(field->message()));
      }
    }
    out.turn = stage_number(entry.turn);
    for (const std::string_view layout : entry.layouts) out.in.push_back(layout_in(layout).layout);
  } catch (const Error& e) {
    throw with_context(e, fmt::format("operator '{:.200}'", entry.name));
  }
  return out;
}

FileParameter parameter_in(std::string_view message) {
  const Entry entry = entry_of(message);
  try {
    FileParameter out = named_parameter(entry.name);
    LayoutMessage said = layout_in(entry.message);
    out.layout = std::move(said.layout);
    out.optimizer_shards = said.shards;
    return out;
  } catch (const Error& e) {
    throw with_context(e, fmt::format("parameter '{:.200}'", entry.name));
  }
}

std::string message_of(const Numbers& numbers) {
  std::string out;
  for (const std::int64_t n : numbers) put(out, 1, n);
  return out;
}

/// One map of all dims, or where a dim has several axes one for each; an empty one more where that cannot be told from one.
std::vector<Numbers> maps_of(const MatrixLayout& layout) {
  std::vector<Numbers> dims = tensor_map_of(layout);
  Numbers flat;
  for (const Numbers& dim : dims) {
    if (dim.size() > 1) {
      if (dims.size() == 1) dims.emplace_back();
      return dims;
    }
    flat.push_back(dim.front());
  }
  return {flat};
}

std::string message_of(const MatrixLayout& layout, std::int64_t shards) {
  Numbers sizes;
  for (const Axis& axis : layout.matrix.axes) sizes.push_back(axis.size);
  std::string out;
  put(out, 1, message_of(sizes));
  for (const Numbers& map : maps_of(layout)) put(out, 2, message_of(map));
  put(out, 3, std::string_view());
  put(out, 4, std::string_view());
  put(out, 5, 0);
  put(out, 6, optimizer_step(layout, shards));
  put(out, 7, shards == 1 ? 0 : shards);
  if (!has_usual_names(layout.matrix))
    for (const Axis& axis : layout.matrix.axes) put(out, ours, axis.name);
  return out;
}

}  // namespace

StrategyFile from_protobuf(std::string_view bytes) {
  if (bytes.starts_with('{')) throw error("it begins as JSON does, but its name does not end with .json");
  StrategyFile out;
  for (Reader in(bytes); const auto field = in.next();) {
    if (field->id == 1) out.stage = stage_number(field->number());
    if (field->id == 2) {
      check_count(out.operators.size() + 1, most_entries, "operators");
      out.operators.push_back(operator_in(field->message()));
    }
    if (field->id == 3) {
      check_count(out.parameters.size() + 1, most_entries, "parameters");
      out.parameters.push_back(parameter_in(field->message()));
    }
  }
  return out;
}

std::string to_protobuf(const StrategyFile& file) {
  std::string out;
  put(out, 1, file.stage);
  for (const FileOperator& op : file.operators) {
    std::string splits, item;
    put(splits, 1, op.stage);
    for (const Numbers& parts : op.parts) put(splits, 2, message_of(parts));
    put(item, 1, op.name);
    put(item, 2, splits);
    if (op.turn > 0) put(item, turn, op.turn);
    for (const MatrixLayout& layout : op.in) put(item, ours, message_of(layout, 1));
    put(out, 2, item);
  }
  const bool has_stages = is_joined(file);
  for (const FileParameter& p : file.parameters) {
    std::string item;
    put(item, 1, name_in_file(p, has_stages));
    put(item, 2, message_of(p.layout, p.optimizer_shards));
    put(out, 3, item);
  }
  return out;
}

}  // namespace shardwright::strategy_formats
