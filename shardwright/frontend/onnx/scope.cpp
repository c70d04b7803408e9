#include "shardwright/frontend/onnx/scope.h"

#include "shardwright/base/error.h"
#include "shardwright/frontend/onnx/fields.h"
#include "shardwright/frontend/onnx/reading.h"

namespace shardwright {
namespace {

constexpr int deepest = 64;

}  // namespace

std::string name_of(const onnx::NodeProto& node) {
  if (!node.name().empty()) return node.name();
  return node.output_size() > 0 ? node.output(0) : std::string();
}

Scope::Scope(const Scope& outer, const onnx::NodeProto& call, const onnx::FunctionProto& function,
             std::int64_t opset)
    : outer_(&outer),
      call_(&call),
      function_(&function),
      opset_(opset),
      depth_(outer.depth_ + 1),
      prefix_(outer.prefix_ + name_of(call) + "/") {
  for (const Scope* around = &outer; around; around = around->outer_)
    if (around->function_ == &function) throw error("function '{}' calls itself", printable(function.name()));
  if (depth_ > deepest) throw error("functions and branches are nested more than {} deep", deepest);
  if (call.input_size() > function.input_size() || call.output_size() > function.output_size())
    throw error("has {} inputs and {} outputs, but the function takes {} and gives {}", call.input_size(),
                call.output_size(), function.input_size(), function.output_size());
  for (int i = 0; i < function.input_size(); ++i)
    bound_[function.input(i)] = i < call.input_size() ? outer.value(call.input(i)) : "";
  for (int i = 0; i < call.output_size(); ++i)
    if (!call.output(i).empty()) bound_.emplace(function.output(i), outer.value(call.output(i)));
  constexpr int attributes_with_defaults = 11;
  for (const std::string& bytes : newer_fields(function, attributes_with_defaults))
    if (onnx::AttributeProto a; a.ParseFromString(bytes)) {
      if (a.has_t() || a.has_g())  // who reads a tensor reads it later
        throw error("attribute '{}' is a tensor or graph by default, which is not supported",
                    printable(a.name()));
      defaults_[a.name()] = a;
    }
}

Scope::Scope(const Scope& outer, const onnx::NodeProto& user, const onnx::GraphProto& graph)
    : outer_(&outer),
      opset_(outer.opset_),
      depth_(outer.depth_ + 1),
      prefix_(outer.prefix_ + name_of(user) + "/") {
  if (depth_ > deepest) throw error("functions and branches are nested more than {} deep", deepest);
  for (const auto& input : graph.input()) own_.insert(input.name());
  for (const auto& tensor : graph.initializer()) own_.insert(tensor.name());
  for (const auto& node : graph.node()) own_.insert(node.output().begin(), node.output().end());
}

std::string Scope::value(const std::string& name) const {
  if (name.empty()) return name;
  if (call_) {
    const auto it = bound_.find(name);
    return it != bound_.end() ? it->second : prefix_ + name;
  }
  return !outer_ || own_.contains(name) ? prefix_ + name : outer_->value(name);
}

const onnx::AttributeProto* Scope::attribute(const onnx::NodeProto& node, std::string_view name) const {
  for (const onnx::AttributeProto& a : node.attribute())
    if (a.name() == name) return a.ref_attr_name().empty() ? &a : referred(a.ref_attr_name());
  return nullptr;
}

const onnx::AttributeProto* Scope::referred(const std::string& name) const {
  if (!call_) return outer_ ? outer_->referred(name) : nullptr;
  if (const auto* given = outer_->attribute(*call_, name)) return given;
  const auto it = defaults_.find(name);
  return it == defaults_.end() ? nullptr : &it->second;
}

}  // namespace shardwright
