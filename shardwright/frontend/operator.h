// Operators as the seeds use them: members of a network that can be called and sharded.
//
//   Operator matmul1 = matmul("matmul1");
//   DeviceLayout layout({2, 2, 2}, {"dp", "sp", "mp"});
//   matmul1.shard({layout("mp", {"sp", "dp"}), layout({"sp", "dp"}, "None")});
//   matmul1.shard({{2, 4}, {4, 1}});          // parts per dim of each input
//   Traced y = matmul1(x, weight);
#pragma once

#include <initializer_list>
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

/// One tensor's split over a device matrix; made by calling a DeviceLayout.
struct LayoutSplit {
  Mesh device_matrix;
  TensorSplit split;
};

/// The seeds' `Layout`: devices as an n-d arrangement with named axes, row-major.
class DeviceLayout {
 public:
  /// Throws: Error if the lengths differ, or a name is empty, "None" or used twice.
  DeviceLayout(const std::vector<int>& device_matrix, const std::vector<std::string>& names);

  /// Throws: Error on an unknown axis or one that is used twice.
  LayoutSplit operator()(const DimAxes& a) const { return split({a}); }
  LayoutSplit operator()(const DimAxes& a, const DimAxes& b) const { return split({a, b}); }
  LayoutSplit operator()(const DimAxes& a, const DimAxes& b, const DimAxes& c) const {
    return split({a, b, c});
  }
  LayoutSplit operator()(const DimAxes& a, const DimAxes& b, const DimAxes& c, const DimAxes& d) const {
    return split({a, b, c, d});
  }

  const Mesh& mesh() const { return mesh_; }

 private:
  LayoutSplit split(const std::vector<DimAxes>& dims) const;
  Mesh mesh_;
};

/// What an operator is applied to: a traced value or a parameter.
class Operand {
 public:
  Operand(Traced value) : value_(value) {}
  Operand(const Parameter& parameter) : parameter_(&parameter) {}
  Trace* trace() const { return value_.trace; }
  Traced in(Trace& trace) const { return parameter_ ? trace.parameter(*parameter_) : value_; }

 private:
  Traced value_;
  const Parameter* parameter_ = nullptr;
};

/// Layouts of one device matrix as an annotation. Throws: Error if they are of several.
Annotation annotation_of(std::string_view who, const std::vector<LayoutSplit>& in,
                         const std::vector<LayoutSplit>& out = {});

class Operator {
 public:
  Operator(std::string op, std::string name, Attributes attributes = {})
      : op_(std::move(op)), name_(std::move(name)), attributes_(std::move(attributes)) {}

  /// Splits by parts per dim of each input (and, optionally, of the result). Checked when the network is
  /// planned. Replaces an earlier strategy.
  Operator& shard(std::vector<TensorSplit> in, std::vector<TensorSplit> out = {});
  /// Splits by axes of one device matrix. Throws: Error if the layouts are of different device matrices.
  Operator& shard(const std::vector<LayoutSplit>& in, const std::vector<LayoutSplit>& out = {});

  /// Adds the call to the trace of its operands. At least one operand must be a traced value.
  Traced operator()(const Operand& a) const { return call({a}); }
  Traced operator()(const Operand& a, const Operand& b) const { return call({a, b}); }

  const std::string& name() const { return name_; }

 private:
  Traced call(const std::vector<Operand>& operands) const;
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

}  // namespace shardwright
