#include "shardwright/frontend/onnx/values.h"

#include <algorithm>
#include <cctype>

#include "shardwright/base/error.h"
#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/frontend/onnx/tensors.h"

namespace shardwright {
namespace {

/// Constants in the graph are called this and a number; nothing else is.
constexpr std::string_view constants_prefix = "constant.";

/// The number that all elements are, if there is one and a double holds it.
std::optional<double> only_number(const Tensor& t) {
  std::optional<double> number;
  visit(t.dtype(), [&]<class T>(std::type_identity<T>) {
    const auto all = t.as<T>();
    if (all.empty()) return;
    const auto first = static_cast<double>(static_cast<Compute<T>>(all[0]));
    const auto bytes = t.bytes();
    // Equal bytes, so that -0 and 0 are two, and NaN is one.
    for (std::size_t i = size_of(t.dtype()); i < bytes.size(); ++i)
      if (bytes[i] != bytes[i - size_of(t.dtype())]) return;
    if (std::abs(first) <= 0x1p53) number = first;
  });
  return number;
}

}  // namespace

std::string graph_name(const std::string& name) {
  std::string out = name;
  std::replace_if(
      out.begin(), out.end(),
      [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.' && c != '/'; },
      '_');
  return out;
}

Type in_precision(Type type, DType precision) {
  if (is_floating(type.dtype)) type.dtype = precision;
  return type;
}

Values::Values(const OnnxFile& file, Trace& trace) : file_(file), trace_(trace), reserved_{"label"} {
  for (const onnx::TensorProto& tensor : file.model->graph().initializer()) try {
      define(tensor.name(), known(tensor));
      initializers_.insert(tensor.name());
      reserved_.insert(graph_name(tensor.name()));
    } catch (const Error& e) {
      throw with_context(e, fmt::format("initializer '{}'", printable(tensor.name())));
    }
  for (const auto& input : file.model->graph().input()) reserved_.insert(graph_name(input.name()));
}

/// Tensors of one external file have no bytes in common: a small file does not become many large tensors.
Known Values::known(const onnx::TensorProto& tensor) {
  const Type type = checked_type(tensor, file_.folder);
  if (const auto extent = external_extent(tensor, file_.folder)) {
    std::int64_t& used = external_[extent->path.string()];
    used += extent->bytes;
    if (used > extent->file_bytes)
      throw error("external data '{}' has {} bytes, less than its tensors need: they overlap",
                  printable(extent->path.filename().string()), extent->file_bytes);
  }
  Known known{.type = in_precision(type, precision())};
  if (is_floating(type.dtype)) {
    known.parameter = &tensor;
    return known;
  }
  if (element_count(type.shape) > limits::constant_elements)
    throw error("{} has more than {} elements, which is not supported for a tensor that is not trained",
                to_text(type), limits::constant_elements);
  spend(element_count(type.shape));
  known.constant = std::make_shared<const Tensor>(read_tensor(tensor, file_.folder));
  return known;
}

void Values::spend(std::int64_t elements) {
  if (elements > budget_)
    throw error("more than {} elements would be computed while the model is loaded",
                limits::computed_elements);
  budget_ -= elements;
}

void Values::define(const std::string& name, Known value) {
  if (name.empty()) throw error("a value has no name");
  if (name.size() > limits::name_bytes)
    throw error("the name '{}' has {} bytes but at most {} are read", printable(name), name.size(),
                limits::name_bytes);
  if (!values_.emplace(name, std::move(value)).second)
    throw error("the value '{}' is given twice", printable(name));
}

Known& Values::at(const std::string& name) {
  const auto it = values_.find(name);
  if (it == values_.end())
    throw error("the value '{}' is not made by any node before; nodes must stand in order, without cycles",
                printable(name));
  return it->second.alias.empty() ? it->second : values_.at(it->second.alias);
}

InitialValue Values::initial_value(const onnx::TensorProto& tensor, DType dtype) const {
  // The file's messages live as long as somebody may ask for a tensor of them.
  return [model = file_.model, &tensor, folder = file_.folder, dtype] {
    return convert(read_tensor(tensor, folder), dtype);
  };
}

ValueId Values::leaf(OpKind kind, const std::string& name, const Type& type) {
  check_limits(type.shape, 1);
  Attributes attributes;
  if (kind == OpKind::parameter && type.dtype != kept_precision())
    attributes.set("master", std::string(name_of(kept_precision())));
  return trace_.builder().leaf(kind, graph_name(name), type, std::move(attributes));
}

ValueId Values::enter(Known& value) {
  if (value.id.is_valid()) return value.id;
  if (value.parameter) {
    const std::string name = value.parameter->name() + (value.state.is_valid() ? ".trained" : "");
    value.id = leaf(OpKind::parameter, name, value.type);
    initial_[graph_name(name)] = initial_value(*value.parameter, kept_precision());
  } else {
    require(value.constant != nullptr, "a value is neither in the graph nor known");
    value.id = enter_constant(value.constant);
  }
  return value.id;
}

ValueId Values::enter_state(const std::string& name, StateUse use) {
  Known& value = at(name);
  if (value.state.is_valid()) {
    if (use == StateUse::moved || value.use == StateUse::moved)
      throw error("'{}' is used as a running statistic and elsewhere, which is not supported",
                  printable(name));
    return value.state;
  }
  if (value.parameter) {
    const std::string own = name + (value.id.is_valid() ? ".state" : "");
    value.state = leaf(OpKind::state, own, {kept_precision(), value.type.shape});
    initial_[graph_name(own)] = initial_value(*value.parameter, kept_precision());
  } else if (value.constant) {
    value.state = enter_constant(value.constant);
  } else {
    throw error("'{}' is computed but should be an initializer", printable(name));
  }
  value.use = use;
  return value.state;
}

ValueId Values::enter_constant(const std::shared_ptr<const Tensor>& constant) {
  check_limits(constant->shape(), 1);
  Builder& builder = trace_.builder();
  const std::string name = fmt::format("{}{}", constants_prefix, ++constants_);
  if (const auto number = only_number(*constant))
    return builder.call("fill", {},
                        {{"shape", constant->shape()},
                         {"value", *number},
                         {"dtype", std::string(name_of(constant->dtype()))}},
                        name);
  const ValueId id = builder.leaf(OpKind::state, name, constant->type());
  initial_[name] = [constant] { return *constant; };
  return id;
}

std::shared_ptr<const Tensor> Values::elements(const Known& value) {
  if (value.constant || !value.parameter) return value.constant;
  if (element_count(value.type.shape) > limits::constant_elements)
    throw error("'{}' is {}; a value that must be known has at most {} elements",
                printable(value.parameter->name()), to_text(value.type), limits::constant_elements);
  spend(element_count(value.type.shape));
  return std::make_shared<const Tensor>(initial_value(*value.parameter, precision())());
}

std::string Values::node_name(const std::string& wanted) const {
  std::string name = graph_name(wanted.substr(0, limits::name_bytes));
  while (reserved_.contains(name) || name.starts_with(constants_prefix)) name.insert(0, "_");
  return name;
}

}  // namespace shardwright
