#include "shardwright/frontend/onnx/sequences.h"

#include <algorithm>

#include "shardwright/base/error.h"
#include "shardwright/base/tensor.h"
#include "shardwright/frontend/onnx/limits.h"

namespace shardwright {
namespace {

using List = std::vector<std::int64_t>;

constexpr std::int64_t most_parts = 500;  // of a list: inputs or outputs of one node

/// Integers that are known.
List known(const std::string& name, const AroundNode& around) {
  const Known& k = around.at(name);
  if (!k.constant || (k.type.dtype != DType::i64 && k.type.dtype != DType::i32) ||
      k.constant->size() > most_parts)
    throw error("its input '{}' should be integers that are known while the model is loaded, at most {}",
                printable(name), most_parts);
  const Tensor wide = convert(*k.constant, DType::i64);
  const auto numbers = wide.as<std::int64_t>();
  return {numbers.begin(), numbers.end()};
}

std::int64_t known_number(const std::string& name, const AroundNode& around) {
  const List numbers = known(name, around);
  if (numbers.size() != 1) throw error("its input '{}' should be one number", printable(name));
  return numbers.front();
}

bool has_input(const onnx::NodeProto& node, int i) { return i < node.input_size() && !node.input(i).empty(); }

std::int64_t attribute(const onnx::NodeProto& node, std::string_view name, std::int64_t otherwise) {
  for (const auto& a : node.attribute())
    if (a.name() == name && a.type() == onnx::AttributeProto::INT) return a.i();
  return otherwise;
}

/// Throws: Error naming an attribute that is not among them.
void check_attributes(const onnx::NodeProto& node, std::initializer_list<std::string_view> known_names) {
  for (const auto& a : node.attribute())
    if (std::ranges::find(known_names, a.name()) == known_names.end())
      throw error("attribute '{}' is not supported", printable(a.name()));
}

/// Place `at` of `count`, from the end if it is negative.
std::size_t place(std::int64_t at, std::size_t count) {
  const auto n = static_cast<std::int64_t>(count);
  if (at < -n || at >= n) throw error("position {} does not exist in a list of {}", at, n);
  return static_cast<std::size_t>(at < 0 ? at + n : at);
}

/// Sizes of the parts of `whole`: those that are said, or equal ones of a size, of which the last may be smaller.
List sizes_of_parts(const onnx::NodeProto& node, std::int64_t whole, const AroundNode& around) {
  if (has_input(node, 1) && !around.at(node.input(1)).type.shape.empty()) return known(node.input(1), around);
  const std::int64_t size = has_input(node, 1) ? known_number(node.input(1), around) : 1;
  if (size < 1 || (whole - 1) / size >= most_parts)
    throw error("parts of {} of {} are not supported; at most {} are", size, whole, most_parts);
  List sizes;
  for (std::int64_t from = 0; from < whole; from += size) sizes.push_back(std::min(size, whole - from));
  return sizes;
}

}  // namespace

bool Sequences::takes(const onnx::NodeProto& node) {
  const std::string& op = node.op_type();
  return op == "SplitToSequence" || op == "ConcatFromSequence" ||
         (op.starts_with("Sequence") && op != "SequenceMap");
}

const std::vector<std::string>& Sequences::at(const std::string& name) const {
  const auto it = lists_.find(name);
  if (it == lists_.end()) throw error("its input '{}' is no list of tensors", printable(name));
  return it->second;
}

void Sequences::split(const onnx::NodeProto& node, const AroundNode& around) {
  check_attributes(node, {"axis", "keepdims"});
  const Shape shape = around.at(node.input(0)).type.shape;
  const auto rank = std::ssize(shape);
  const std::int64_t said = attribute(node, "axis", 0), axis = said < 0 ? said + rank : said;
  if (axis < 0 || axis >= rank) throw error("axis {} does not exist in {}", said, to_text(shape));
  const List sizes = sizes_of_parts(node, shape[static_cast<std::size_t>(axis)], around);
  const bool goes = !has_input(node, 1) && attribute(node, "keepdims", 1) == 0;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < sizes.size(); ++i) parts.push_back(fmt::format("{}.{}", node.output(0), i));
  onnx::NodeProto out = made_node("Split", {node.input(0)}, parts, name_of(node));
  set_integer(out, "axis", axis);
  const std::string name_of_sizes = node.output(0) + ".sizes";
  if (around.opset >= 13) {
    around.add(constant_node(name_of_sizes, integer_tensor(sizes, true)));
    out.add_input(name_of_sizes);
  } else {
    onnx::AttributeProto& a = *out.add_attribute();
    a.set_name("split");
    a.set_type(onnx::AttributeProto::INTS);
    for (std::int64_t s : sizes) a.add_ints(s);
  }
  around.add(out);
  for (std::string& part : parts) {
    if (!goes) break;
    const std::string whole = std::exchange(part, part + "_");
    for (const auto& n : with_axis("Squeeze", whole, part, axis, around.opset)) around.add(n);
  }
  lists_[node.output(0)] = std::move(parts);
}

void Sequences::concat(const onnx::NodeProto& node, const AroundNode& around) const {
  check_attributes(node, {"axis", "new_axis"});
  std::vector<std::string> parts = at(node.input(0));
  if (parts.empty() || std::ssize(parts) > most_parts)
    throw error("a list of {} is not put together; it should have 1 to {} tensors", parts.size(), most_parts);
  std::int64_t axis = attribute(node, "axis", 0);
  if (attribute(node, "new_axis", 0) != 0)
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string wide = fmt::format("{}.wide{}", node.output(0), i);
      if (axis < 0) axis += std::ssize(around.at(parts[i]).type.shape) + 1;
      for (const auto& n : with_axis("Unsqueeze", parts[i], wide, axis, around.opset)) around.add(n);
      parts[i] = wide;
    }
  onnx::NodeProto out = made_node("Concat", parts, {node.output(0)}, name_of(node));
  set_integer(out, "axis", axis);
  around.add(out);
}

/// What makes a list of tensors or of another list.
void Sequences::change(const onnx::NodeProto& node, const AroundNode& around) {
  const std::string& op = node.op_type();
  std::vector<std::string> list;
  if (op == "SequenceConstruct") {
    list.assign(node.input().begin(), node.input().end());
    for (const std::string& v : list) around.at(v);  // which says if there is none
  } else if (op == "SequenceInsert") {
    list = at(node.input(0));
    around.at(node.input(1));
    const auto end = static_cast<std::int64_t>(list.size());
    std::int64_t to = has_input(node, 2) ? known_number(node.input(2), around) : end;
    if (to != end) to = static_cast<std::int64_t>(place(to, list.size()));
    list.insert(list.begin() + to, node.input(1));
  } else if (op == "SequenceErase") {
    list = at(node.input(0));
    const std::int64_t from = has_input(node, 1) ? known_number(node.input(1), around) : -1;
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(place(from, list.size())));
  } else if (op != "SequenceEmpty") {
    throw error("operator '{}' is not supported; docs/onnx.md lists those that are", printable(op));
  }
  around.budget -= std::ssize(list);  // each node may copy a list
  if (around.budget < 0) throw error("its lists are of more than {} tensors in all", limits::nodes);
  lists_[node.output(0)] = std::move(list);
}

void Sequences::add(const onnx::NodeProto& node, const AroundNode& around) {
  const std::string& op = node.op_type();
  const int least = op == "SequenceEmpty" ? 0 : op == "SequenceAt" || op == "SequenceInsert" ? 2 : 1;
  if (node.output_size() != 1 || node.output(0).empty() || node.input_size() < least)
    throw error("has {} inputs and {} outputs, which is not right", node.input_size(), node.output_size());
  if (op == "SplitToSequence") return split(node, around);
  if (op == "ConcatFromSequence") return concat(node, around);
  if (op == "SequenceAt") {
    const std::vector<std::string>& list = at(node.input(0));
    const std::string& one = list[place(known_number(node.input(1), around), list.size())];
    return around.add(made_node("Identity", {one}, {node.output(0)}, name_of(node)));
  }
  if (op == "SequenceLength") {
    const auto count = static_cast<std::int64_t>(at(node.input(0)).size());
    return around.add(constant_node(node.output(0), integer_tensor({count}, false)));
  }
  check_attributes(node, {"dtype"});
  change(node, around);
}

}  // namespace shardwright
