#include "shardwright/frontend/onnx/input_sizes.h"

#include <algorithm>
#include <set>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/frontend/onnx/reading.h"
#include "shardwright/frontend/onnx/tensors.h"

namespace shardwright {
namespace {

using Dimension = onnx::TensorShapeProto::Dimension;

const onnx::TypeProto::Tensor& tensor_type(const onnx::ValueInfoProto& input) {
  if (!input.type().has_tensor_type()) throw error("is no tensor, which is not supported");
  if (!input.type().tensor_type().has_shape()) throw error("has no shape");
  if (input.type().tensor_type().shape().dim_size() > static_cast<int>(limits::rank))
    throw error("has {} dims but at most {} are supported", input.type().tensor_type().shape().dim_size(),
                limits::rank);
  return input.type().tensor_type();
}

/// The name of an open dim; nothing if it has a size.
std::optional<std::string> open_name(const onnx::ValueInfoProto& input, int d) {
  const Dimension& dim = tensor_type(input).shape().dim(d);
  if (dim.has_dim_value()) return std::nullopt;
  if (dim.dim_param().size() > limits::name_bytes)
    throw error("the name of dim {} has {} bytes but at most {} are read", d, dim.dim_param().size(),
                limits::name_bytes);
  return dim.dim_param().empty() ? fmt::format("{}.{}", input.name(), d) : dim.dim_param();
}

/// Sizes of all open dims by name, from keys and global batch.
class Sizes {
 public:
  Sizes(std::span<const onnx::ValueInfoProto* const> inputs, const GivenSizes& given) : given_(given) {
    std::set<std::string> names;
    for (const auto* input : inputs)
      for (int d = 0; d < tensor_type(*input).shape().dim_size(); ++d)
        if (const auto name = open_name(*input, d)) names.insert(*name);
    const std::vector<std::string> open(names.begin(), names.end());
    std::vector<std::string> known = open;
    known.insert(known.end(), {training_key, frozen_key});
    for (const auto& [key, text] : given.keys) {
      if (!names.contains(key))
        throw error("key '{}' is unknown{}; {}", key, near_names(key, known),
                    open.empty() ? "all dims of its inputs have sizes"
                                 : "the open dims are " + printable(join(open, "/")));
      const auto n = to_integer(text);
      if (!n || *n < 1) throw error("{}={}: should be an integer from 1 on", key, text);
      sizes_[key] = *n;
    }
    if (given.global_batch && !inputs.empty()) set_batch(*inputs.front(), *given.global_batch);
  }

  std::int64_t of(const onnx::ValueInfoProto& input, int d) const {
    const auto name = open_name(input, d);
    if (!name) return tensor_type(input).shape().dim(d).dim_value();
    const auto it = sizes_.find(*name);
    if (it == sizes_.end())
      throw error("dim {} has no size; write {}:{}=N{}", d, given_.path, printable(*name),
                  d == 0 ? " or --global-batch N" : "");
    return it->second;
  }

 private:
  void set_batch(const onnx::ValueInfoProto& first, std::int64_t batch) {
    const auto& shape = tensor_type(first).shape();
    if (shape.dim_size() == 0)
      throw error("--global-batch {}: input '{}' is a scalar", batch, printable(first.name()));
    if (const auto name = open_name(first, 0))
      sizes_[*name] = batch;
    else if (shape.dim(0).dim_value() != batch)
      throw error("a batch of {} but the file is for {}; export it with dynamic_axes", batch,
                  shape.dim(0).dim_value());
  }

  const GivenSizes& given_;
  std::map<std::string, std::int64_t> sizes_;
};

}  // namespace

SaidOfTraining said_of_training(const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& inputs,
                                std::map<std::string, std::string>& keys) {
  const auto is_dim = [&](const std::string& name) {
    return std::ranges::any_of(inputs, [&](const auto& input) {
      const auto& dims = input.type().tensor_type().shape().dim();
      return std::ranges::any_of(dims, [&](const auto& d) { return d.dim_param() == name; });
    });
  };
  const auto taken = [&](const std::string& key) {
    const auto it = keys.find(key);
    if (it == keys.end() || is_dim(key)) return std::string();
    std::string value = it->second;
    keys.erase(it);
    if (value.empty()) throw error("{}=: has no value", key);
    return value;
  };
  SaidOfTraining out;
  if (const std::string trains = taken(training_key); !trains.empty()) {
    if (trains != "0" && trains != "1") throw error("{}={}: should be 0 or 1", training_key, trains);
    out.trains = trains == "1";
  }
  if (const std::string frozen = taken(frozen_key); !frozen.empty())
    for (std::string_view name : split(frozen, '+')) out.frozen.emplace_back(name);
  return out;
}

std::vector<Type> input_types(std::span<const onnx::ValueInfoProto* const> inputs, const GivenSizes& given) {
  const onnx::ValueInfoProto* current = nullptr;
  try {
    for (const auto* input : inputs) tensor_type(*(current = input));
    current = nullptr;
    const Sizes sizes(inputs, given);
    std::vector<Type> types;
    for (const auto* input : inputs) {
      current = input;
      const auto& tensor = tensor_type(*input);
      Type type{dtype_of_onnx(tensor.elem_type()), {}};
      for (int d = 0; d < tensor.shape().dim_size(); ++d) type.shape.push_back(sizes.of(*input, d));
      check_limits(type.shape, 1);
      types.push_back(std::move(type));
    }
    return types;
  } catch (const Error& e) {
    if (!current) throw;
    throw with_context(e, fmt::format("input '{}'", printable(current->name())));
  }
}

}  // namespace shardwright
