#include "shardwright/frontend/operator.h"

namespace shardwright {

DeviceLayout::DeviceLayout(const std::vector<int>& device_matrix, const std::vector<std::string>& names) {
  if (device_matrix.size() != names.size())
    throw error("the device matrix has {} sizes but {} axis names", device_matrix.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) mesh_.axes.push_back({names[i], device_matrix[i]});
  check(mesh_);
}

Split DeviceLayout::split(const std::vector<DimAxes>& dims) const {
  TensorSplit out;
  out.is_by_axes = true;
  Axes seen;
  for (const DimAxes& dim : dims) {
    for (const std::string& name : dim.axes()) {
      const int a = mesh_.axis(name);
      if (seen.contains(a)) throw error("axis '{}' is used twice for one tensor", name);
      seen.push_back(a);
    }
    out.axes.push_back(dim.axes());
  }
  return {mesh_, std::move(out)};
}

Annotation annotation_of(std::string_view who, const std::vector<Split>& in, const std::vector<Split>& out) {
  Annotation annotation;
  bool has_parts = false;
  const auto add = [&](const Split& s, std::vector<TensorSplit>& to) {
    if (s.device_matrix && annotation.device_matrix && *annotation.device_matrix != *s.device_matrix)
      throw error("{}: layouts of two device matrices, {} and {}", who, to_text(*annotation.device_matrix),
                  to_text(*s.device_matrix));
    if (s.device_matrix) annotation.device_matrix = s.device_matrix;
    has_parts = has_parts || !s.tensor.parts.empty();
    to.push_back(s.tensor);
  };
  for (const Split& s : in) add(s, annotation.in);
  for (const Split& s : out) add(s, annotation.out);
  if (has_parts && annotation.device_matrix)
    throw error("{}: mixes parts per dim and layouts; use one kind", who);
  return annotation;
}

Operator& Operator::shard(const std::vector<Split>& in, const std::vector<Split>& out) {
  annotation_ = annotation_of(name_, in, out);
  return *this;
}

Operator Operator::with(std::string attribute, Attribute value) const {
  Operator out = *this;
  out.attributes_.set(std::move(attribute), std::move(value));
  return out;
}

std::vector<Traced> Operator::call(const std::vector<Operand>& operands) const {
  Trace* trace = nullptr;
  for (const Operand& o : operands)
    if (o.trace()) trace = o.trace();
  if (!trace) throw error("{}: needs a traced value among its operands", name_);
  std::vector<Traced> values;
  for (const Operand& o : operands) values.push_back(o.in(*trace));
  std::vector<Traced> results = trace->call_all(op_, values, attributes_, name_);
  if (annotation_ != Annotation{})
    trace->constraints().tensors[trace->graph().value(results.front().id).name] = annotation_;
  return results;
}

Operator matmul(std::string name, Attributes attributes) {
  return {"matmul", std::move(name), std::move(attributes)};
}
Operator relu(std::string name) { return {"relu", std::move(name)}; }
Operator gelu(std::string name) { return {"gelu", std::move(name)}; }
Operator tanh(std::string name) { return {"tanh", std::move(name)}; }
Operator sigmoid(std::string name) { return {"sigmoid", std::move(name)}; }
Operator add(std::string name) { return {"add", std::move(name)}; }
Operator multiply(std::string name) { return {"mul", std::move(name)}; }
Operator softmax(std::string name) { return {"softmax", std::move(name)}; }
Operator flatten(std::string name) { return {"flatten", std::move(name)}; }

Operator gelu(std::string name, std::string approximate) {
  return {"gelu", std::move(name), {{"approximate", std::move(approximate)}}};
}
Operator silu(std::string name) { return {"silu", std::move(name)}; }
Operator swiglu(std::string name) { return {"swiglu", std::move(name)}; }
Operator layer_norm(std::string name, double epsilon) {
  return {"layer_norm", std::move(name), {{"epsilon", epsilon}}};
}
Operator rms_norm(std::string name, double epsilon) {
  return {"rms_norm", std::move(name), {{"epsilon", epsilon}}};
}
Operator rotary(std::string name) { return {"rotary", std::move(name)}; }
Operator attention(std::string name, Attributes attributes) {
  return {"attention", std::move(name), std::move(attributes)};
}
Operator gather(std::string name) { return {"gather", std::move(name)}; }
Operator transpose(std::string name, std::vector<std::int64_t> dims) {
  return {"transpose", std::move(name), {{"dims", std::move(dims)}}};
}

}  // namespace shardwright
