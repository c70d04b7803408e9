// Strategy files as tuples: a layout is (sizes of the device matrix, per dim its axes that cut it, counted from the left).
#include "python/core/strategies.h"

#include <pybind11/stl.h>

#include "shardwright/annotations/strategy_file.h"

namespace shardwright::python {
namespace {

namespace py = pybind11;

using Numbers = std::vector<std::int64_t>;
using Said = std::tuple<Numbers, std::vector<Numbers>>;
/// Name, stage, parts and layouts of inputs.
using SaidOperator = std::tuple<std::string, int, std::vector<Numbers>, std::vector<Said>>;
/// Name, stage, layout, and the shape of the whole, which may be unknown.
using SaidParameter = std::tuple<std::string, int, Said, Shape>;
/// The stage of who wrote it.
using SaidFile = std::tuple<int, std::vector<SaidOperator>, std::vector<SaidParameter>>;

Said said(const MatrixLayout& layout) {
  Numbers sizes;
  for (const Axis& axis : layout.matrix.axes) sizes.push_back(axis.size);
  std::vector<Numbers> dims;
  for (const Axes& axes : layout.dims) dims.emplace_back(axes.begin(), axes.end());
  return {std::move(sizes), std::move(dims)};
}

MatrixLayout layout_of(const Said& said) {
  const auto& [sizes, dims] = said;
  std::vector<Numbers> map;  // of files, which count from the right
  for (const Numbers& axes : dims)
    for (Numbers& dim = map.emplace_back(); const std::int64_t axis : axes)
      dim.push_back(static_cast<std::int64_t>(sizes.size()) - 1 - axis);
  return matrix_layout(sizes, {}, map);
}

/// With what the optimizer cuts further.
SaidParameter said(const FileParameter& p) {
  if (p.optimizer_shards == 1) return {p.name, p.stage, said(p.layout), p.shape};
  return {p.name, p.stage, said(with_optimizer_shards(p.layout, p.optimizer_shards)), p.shape};
}

SaidFile read(const std::string& path) {
  const StrategyFile file = load_strategies(path);
  std::vector<SaidOperator> operators;
  for (const FileOperator& op : file.operators) {
    std::vector<Said> in;
    for (const MatrixLayout& layout : op.in) in.push_back(said(layout));
    operators.emplace_back(op.name, op.stage, op.parts, std::move(in));
  }
  std::vector<SaidParameter> parameters;
  for (const FileParameter& p : file.parameters) try {
      parameters.push_back(said(p));
    } catch (const Error& e) {
      throw error("{}: is no strategy file: parameter '{:.200}': {}", path, p.name, e.what());
    }
  return {file.stage, std::move(operators), std::move(parameters)};
}

py::bytes bytes_of(const SaidFile& said, bool is_json) {
  const auto& [stage, operators, parameters] = said;
  StrategyFile file{.stage = stage};
  for (const auto& [name, of_stage, parts, in] : operators) {
    FileOperator& op =
        file.operators.emplace_back(FileOperator{.name = name, .stage = of_stage, .parts = parts});
    for (const Said& layout : in) op.in.push_back(layout_of(layout));
  }
  for (const auto& [name, of_stage, layout, shape] : parameters)
    file.parameters.push_back({.name = name, .stage = of_stage, .layout = layout_of(layout), .shape = shape});
  return to_bytes(file, is_json);
}

}  // namespace

void bind_strategies(py::module_& m) {
  m.def("read_strategies", &read, py::arg("path"), "(stage, operators, parameters) of a strategy file.");
  m.def("strategy_bytes", &bytes_of, py::arg("strategies"), py::arg("is_json"), "A strategy file of these.");
}

}  // namespace shardwright::python
