// Operators as the seeds use them: members of a network that can be called and sharded.
//
//   Operator matmul1 = matmul("matmul1");
//   DeviceLayout layout({2, 2, 2}, {"dp", "sp", "mp"});
//   matmul1.shard({layout("mp", {"sp", "dp"}), layout({"sp", "dp"}, "None")});
//   matmul1.shard({{2, 4}, {4, 1}});          // parts per dim of each input
//   Traced y = matmul1(x, weight);
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/frontend/trace.h"

namespace shardwright {

/// The axes that one tensor dim is split over: a name, several (major to minor), or "None".
class DimAxes {
 public:
  DimAxes(const char* axis) {
    if (std::string_view(axis) != "None") axes_.emplace_back(axis);
  }
  DimAxes(std::initializer_list<const char*> axes) : axes_(axes.begin(), axes.end()) {}
  const std::vector<std::string>& axes() const { return axes_; }

 private:
  std::vector<std::string> axes_;
};

/// How one tensor lies: in parts per dim, `{2, 4}`; over axes of a device matrix, `layout("mp", {"sp", "dp"})`; or
/// `{}`, where nothing is said of it.
struct Split {
  Split() = default;
  Split(std::initializer_list<std::int64_t> parts) : tensor(parts) {}
  Split(Mesh matrix, TensorSplit split) : device_matrix(std::move(matrix)), tensor(std::move(split)) {}
  bool is_said() const { return device_matrix || !tensor.parts.empty(); }

  std::optional<Mesh> device_matrix;
  TensorSplit tensor;
};

/// The seeds' `Layout`: devices as an n-d arrangement with named axes, row-major.
class DeviceLayout {
 public:
  /// Throws: Error if the lengths differ, or a name is empty, "None" or used twice.
  DeviceLayout(const std::vector<int>& device_matrix, const std::vector<std::string>& names);

  /// Throws: Error on an unknown axis or one that is used twice.
  Split operator()(const DimAxes& a) const { return split({a}); }
  Split operator()(const DimAxes& a, const DimAxes& b) const { return split({a, b}); }
  Split operator()(const DimAxes& a, const DimAxes& b, const DimAxes& c) const { return split({a, b, c}); }
  Split operator()(const DimAxes& a, const DimAxes& b, const DimAxes& c, const DimAxes& d) const {
    return split({a, b, c, d});
  }

  const Mesh& mesh() const { return mesh_; }

 private:
  Split split(const std::vector<DimAxes>& dims) const;
  Mesh mesh_;
};

/// What an operator is applied to: a traced value, a parameter or a state.
class Operand {
 public:
  Operand(Traced value) : value_(value) {}
  Operand(const Parameter& parameter) : parameter_(&parameter) {}
  Operand(const State& state) : state_(&state) {}
  Trace* trace() const { return value_.trace; }
  Traced in(Trace& trace) const {
    if (parameter_) return trace.parameter(*parameter_);
    return state_ ? trace.state(*state_) : value_;
  }

 private:
  Traced value_;
  const Parameter* parameter_ = nullptr;
  const State* state_ = nullptr;
};

/// What is said of the tensors of `who` as one annotation.
/// Throws: Error if parts and layouts are mixed, or layouts are of several device matrices.
Annotation annotation_of(std::string_view who, const std::vector<Split>& in,
                         const std::vector<Split>& out = {});

class Operator {
 public:
  Operator(std::string op, std::string name, Attributes attributes = {})
      : op_(std::move(op)), name_(std::move(name)), attributes_(std::move(attributes)) {}

  /// Says how each input (and, optionally, the result) is split. Replaces an earlier strategy. Checked against
  /// shapes and devices when the network is planned. Throws: Error as annotation_of does.
  Operator& shard(const std::vector<Split>& in, const std::vector<Split>& out = {});

  /// Adds the call to the trace of its operands. At least one operand must be a traced value.
  Traced operator()(const std::convertible_to<Operand> auto&... operands) const {
    return call({operands...}).front();
  }
  /// The same for operators of several results.
  std::vector<Traced> all(const std::convertible_to<Operand> auto&... operands) const {
    return call({operands...});
  }

  /// The same operator with one more attribute: one that its operands decide.
  Operator with(std::string attribute, Attribute value) const;

  const std::string& name() const { return name_; }

 private:
  std::vector<Traced> call(const std::vector<Operand>& operands) const;
  std::string op_;
  std::string name_;
  Attributes attributes_;
  Annotation annotation_;
};

/// The operators of the seeds, under their names. `name` is the node's name in plans and annotations.
Operator matmul(std::string name, Attributes attributes = {});
Operator relu(std::string name);
Operator gelu(std::string name);
Operator tanh(std::string name);
Operator sigmoid(std::string name);
Operator add(std::string name);
Operator multiply(std::string name);
Operator softmax(std::string name);
/// [batch, ...] -> [batch, rest]
Operator flatten(std::string name);

/// Those of transformers. `approximate` is that of gelu: `tanh`, or `sigmoid` for the fast one.
Operator gelu(std::string name, std::string approximate);
Operator silu(std::string name);
Operator swiglu(std::string name);
Operator layer_norm(std::string name, double epsilon);
Operator rms_norm(std::string name, double epsilon);
Operator rotary(std::string name);
/// Causal attention over [batch, heads, sequence, features].
Operator attention(std::string name, Attributes attributes);
/// Rows of a table by index.
Operator gather(std::string name);
/// `dims[d]` is the operand's dim that becomes dim d.
Operator transpose(std::string name, std::vector<std::int64_t> dims);

}  // namespace shardwright
