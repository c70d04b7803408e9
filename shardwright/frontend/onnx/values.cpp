#include "shardwright/frontend/onnx/values.h"

#include <algorithm>
#include <cctype>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
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

/// Whether the parameter `name` is `module`, or one of its.
bool is_of(std::string_view name, std::string_view module) {
  return name.starts_with(module) && (name.size() == module.size() || name[module.size()] == '.');
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

namespace {

/// Adds what the nodes of a graph or function read, and those of the graphs inside.
template <class Body>
void add_read(const Body& body, std::set<std::string>& names) {
  for (const onnx::NodeProto& node : body.node()) {
    names.insert(node.input().begin(), node.input().end());
    for (const auto& attribute : node.attribute())
      if (attribute.has_g()) {
        add_read(attribute.g(), names);
        for (const auto& output : attribute.g().output()) names.insert(output.name());
      }
  }
}

}  // namespace

Values::Values(const OnnxFile& file, Trace& trace, const SaidOfTraining& said, bool asks_for_all)
    : file_(file), trace_(trace), said_(said), exported_(*file.model), reserved_{"label"} {
  const onnx::GraphProto& graph = file.model->graph();
  for (const auto& input : graph.input()) leaf_name(input.name());  // data are called so
  add_read(graph, read_);
  for (const auto& function : file.model->functions()) {
    add_read(function, read_);
    read_.insert(function.output().begin(), function.output().end());
  }
  for (int i = 0; i < (asks_for_all ? graph.output_size() : std::min(graph.output_size(), 1)); ++i)
    read_.insert(graph.output(i).name());
  add_initializers(graph, "");
}

void Values::check_frozen() const {
  for (const std::string& frozen : said_.frozen)
    if (std::ranges::none_of(stored_, [&](const std::string& name) { return is_of(name, frozen); }))
      throw error("{}={}: no tensor of the file and no module of them is called so{}", frozen_key,
                  printable(frozen),
                  near_names(frozen, std::vector<std::string>(stored_.begin(), stored_.end())));
}

void Values::add_initializers(const onnx::GraphProto& graph, const std::string& prefix) {
  for (const onnx::TensorProto& tensor : graph.initializer()) try {
      const std::string name = prefix + tensor.name();
      define(name, stored(tensor, name, false));
      initializers_.insert(name);
      leaf_name(name);
    } catch (const Error& e) {
      throw with_context(e, fmt::format("initializer '{}'", printable(tensor.name())));
    }
}

/// Tensors of one external file have no bytes in common: a small file does not become many large tensors.
void Values::check_external(const onnx::TensorProto& tensor) {
  const auto extent = external_extent(tensor, file_.folder);
  if (!extent) return;
  std::int64_t& used = external_[extent->path.string()];
  used += extent->bytes;
  if (used > extent->file_bytes)
    throw error("external data '{}' has {} bytes, less than its tensors need: they overlap",
                printable(extent->path.filename().string()), extent->file_bytes);
}

bool Values::is_trained(const Type& type, const std::string& name, bool is_of_node) {
  stored_.insert(name);
  return is_floating(type.dtype) && element_count(type.shape) > 0 &&
         exported_.is_parameter(name, type.shape, is_of_node) &&
         std::ranges::none_of(said_.frozen, [&](const std::string& frozen) { return is_of(name, frozen); });
}

Known Values::stored(const onnx::TensorProto& tensor, const std::string& name, bool is_of_node) {
  const Type type = checked_type(tensor, file_.folder);
  check_external(tensor);
  // The file's messages live as long as somebody may ask for a tensor of them.
  return known(
      type,
      {.name = name,
       .read = [model = file_.model, &tensor, folder = file_.folder] { return read_tensor(tensor, folder); },
       .is_trained = is_trained(type, name, is_of_node)},
      is_of_node);
}

Known Values::stored(Tensor tensor, const std::string& name) {
  const Type type = tensor.type();
  return known(type,
               {.name = name,
                .read = [tensor = std::make_shared<const Tensor>(std::move(tensor))] { return *tensor; },
                .is_trained = is_trained(type, name, true)},
               true);
}

/// What is not trained is known while loading: numbers, what shapes are made of, and what nodes hold. Tables among
/// initializers keep their names, and are read when a run starts.
Known Values::known(const Type& type, Stored stored, bool is_of_node) {
  Known known{.type = in_precision(type, precision())};
  const std::int64_t count = element_count(type.shape);
  const std::int64_t most = is_floating(type.dtype) && !is_of_node ? 1 : limits::constant_elements;
  if (stored.is_trained || count > most) {
    known.stored = std::make_shared<const Stored>(std::move(stored));
    return known;
  }
  spend(count);
  known.constant = std::make_shared<const Tensor>(convert(stored.read(), known.type.dtype));
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
  return it->second.alias.empty() ? it->second : at(it->second.alias);
}

namespace {

/// What a leaf starts with.
InitialValue starting(const std::shared_ptr<const Stored>& stored, DType dtype) {
  return [stored, dtype] { return convert(stored->read(), dtype); };
}

}  // namespace

const std::string& Values::leaf_name(const std::string& name) {
  const auto it = leaf_names_.find(name);
  if (it != leaf_names_.end()) return it->second;
  std::string free = graph_name(name);
  if (free.starts_with(constants_prefix)) free.insert(0, "_");
  const bool is_label = free == "label";  // of a file that has its loss
  while (!is_label && reserved_.contains(free)) free += '_';
  reserved_.insert(free);
  return leaf_names_.emplace(name, std::move(free)).first->second;
}

ValueId Values::leaf(OpKind kind, const std::string& name, const Type& type) {
  check_limits(type.shape, 1);
  Attributes attributes;
  if (kind == OpKind::parameter && type.dtype != kept_precision())
    attributes.set("master", std::string(name_of(kept_precision())));
  return trace_.builder().leaf(kind, leaf_name(name), type, std::move(attributes));
}

ValueId Values::enter(Known& value) {
  if (value.id.is_valid()) return value.id;
  if (value.stored) {
    const bool is_trained = value.stored->is_trained;
    const std::string name = value.stored->name + (!value.state.is_valid() ? ""
                                                   : is_trained            ? ".trained"
                                                                           : ".read");
    value.id = leaf(is_trained ? OpKind::parameter : OpKind::state, name, value.type);
    initial_[leaf_name(name)] = starting(value.stored, is_trained ? kept_precision() : value.type.dtype);
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
  if (value.stored) {
    const std::string own = value.stored->name + (value.id.is_valid() ? ".state" : "");
    value.state = leaf(OpKind::state, own, {kept_precision(), value.type.shape});
    initial_[leaf_name(own)] = starting(value.stored, kept_precision());
  } else if (value.constant && use == StateUse::moved) {
    value.state = leaf(OpKind::state, name, {kept_precision(), value.type.shape});
    initial_[leaf_name(name)] = [constant = value.constant, dtype = kept_precision()] {
      return convert(*constant, dtype);
    };
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
  if (value.constant || !value.stored) return value.constant;
  if (element_count(value.type.shape) > limits::constant_elements)
    throw error("'{}' is {}; a value that must be known has at most {} elements",
                printable(value.stored->name), to_text(value.type), limits::constant_elements);
  spend(element_count(value.type.shape));
  return std::make_shared<const Tensor>(convert(value.stored->read(), value.type.dtype));
}

std::string Values::node_name(const std::string& wanted) const {
  std::string name = graph_name(wanted.substr(0, limits::name_bytes));
  while (reserved_.contains(name) || name.starts_with(constants_prefix)) name.insert(0, "_");
  return name;
}

}  // namespace shardwright
