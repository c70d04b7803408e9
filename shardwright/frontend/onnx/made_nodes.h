// Nodes that stand for another one: it is not converted, they are.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shardwright/frontend/onnx/messages.h"
#include "shardwright/frontend/onnx/node.h"
#include "shardwright/frontend/onnx/values.h"

namespace shardwright {

/// What is asked of the import around such a node.
struct AroundNode {
  std::int64_t opset = 0;
  std::function<const Known&(const std::string&)> at;  // throws if there is no such value yet
  std::function<void(const onnx::NodeProto&)> add;
  std::function<std::string(const std::string&)> name;  // of a value, as the whole model calls it
  std::function<void(onnx::NodeProto&)> settle;         // attributes that are a function's
  std::int64_t& budget;                                 // of nodes
};

inline onnx::NodeProto made_node(const std::string& op, const std::vector<std::string>& inputs,
                                 const std::vector<std::string>& outputs, const std::string& name) {
  onnx::NodeProto out;
  out.set_op_type(op);
  out.set_name(name);
  for (const std::string& v : inputs) out.add_input(v);
  for (const std::string& v : outputs) out.add_output(v);
  return out;
}

inline void set_integer(onnx::NodeProto& node, const char* name, std::int64_t value) {
  onnx::AttributeProto& a = *node.add_attribute();
  a.set_name(name);
  a.set_type(onnx::AttributeProto::INT);
  a.set_i(value);
}

inline onnx::NodeProto constant_node(const std::string& name, const onnx::TensorProto& value) {
  onnx::NodeProto out = made_node("Constant", {}, {name}, name);
  onnx::AttributeProto& a = *out.add_attribute();
  a.set_name("value");
  a.set_type(onnx::AttributeProto::TENSOR);
  *a.mutable_t() = value;
  return out;
}

/// A list, or one number without dims.
inline onnx::TensorProto integer_tensor(const std::vector<std::int64_t>& numbers, bool is_list) {
  onnx::TensorProto t;
  t.set_data_type(onnx::TensorProto::INT64);
  if (is_list) t.add_dims(std::ssize(numbers));
  for (std::int64_t n : numbers) t.add_int64_data(n);
  return t;
}

/// Of Squeeze and Unsqueeze: the axes are an input from operator set 13 on.
inline std::vector<onnx::NodeProto> with_axis(const char* op, const std::string& from, const std::string& to,
                                              std::int64_t axis, std::int64_t opset) {
  onnx::NodeProto out = made_node(op, {from}, {to}, to);
  if (opset >= 13) {
    out.add_input(to + ".axes");
    return {constant_node(to + ".axes", integer_tensor({axis}, true)), out};
  }
  onnx::AttributeProto& a = *out.add_attribute();
  a.set_name("axes");
  a.set_type(onnx::AttributeProto::INTS);
  a.add_ints(axis);
  return {out};
}

}  // namespace shardwright
