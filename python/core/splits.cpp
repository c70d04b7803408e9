#include "python/core/splits.h"

#include <fmt/format.h>
#include <pybind11/stl.h>

namespace shardwright::python {
namespace {

std::vector<std::string> axes_of(const py::handle& dim) {
  if (dim.is_none()) return {};
  if (!py::isinstance<py::str>(dim)) return dim.cast<std::vector<std::string>>();
  const auto name = dim.cast<std::string>();
  return name == "None" ? std::vector<std::string>() : std::vector{name};
}

Split placed(const Mesh& mesh, const py::args& dims) {
  TensorSplit out;
  out.is_by_axes = true;
  std::vector<std::string> seen;
  for (const auto& dim : dims) {
    out.axes.push_back(axes_of(dim));
    for (const std::string& name : out.axes.back()) {
      mesh.axis(name);  // there is one
      if (std::ranges::find(seen, name) != seen.end())
        throw py::value_error(fmt::format("axis '{}' is used twice for one tensor", name));
      seen.push_back(name);
    }
  }
  return {mesh, std::move(out)};
}

}  // namespace

Split split_of(const py::handle& object) {
  if (object.is_none()) return {};
  if (py::isinstance<Split>(object)) return object.cast<Split>();
  if (!py::isinstance<py::tuple>(object) && !py::isinstance<py::list>(object))
    throw py::type_error(
        fmt::format("{} says no split; give a tuple of parts per dim, as in (2, 4), or a layout",
                    py::repr(object).cast<std::string>()));
  Split out;
  for (const auto& parts : object) {
    if (!py::isinstance<py::int_>(parts))
      throw py::type_error(
          fmt::format("{}: parts of a dim are whole numbers", py::repr(object).cast<std::string>()));
    out.tensor.parts.push_back(parts.cast<std::int64_t>());
  }
  return out;
}

std::vector<Split> splits_of(const py::handle& object) {
  std::vector<Split> out;
  if (object.is_none()) return out;
  if (!py::isinstance<py::tuple>(object) && !py::isinstance<py::list>(object))
    throw py::type_error(fmt::format("{} should be a tuple with a split for each tensor",
                                     py::repr(object).cast<std::string>()));
  for (const auto& split : object) out.push_back(split_of(split));
  return out;
}

void bind_splits(py::module_& m) {
  py::class_<Split>(m, "Split", "How one tensor lies: over axes of a device matrix, dim by dim.")
      .def("__repr__", [](const Split& s) { return to_text(s.tensor); })
      .def("__eq__", [](const Split& a, const Split& b) {
        return a.device_matrix == b.device_matrix && a.tensor == b.tensor;
      });
  py::class_<Mesh>(m, "Mesh", "Devices as an n-dimensional arrangement with named axes, row-major.")
      .def(py::init([](const std::vector<int>& sizes, const std::vector<std::string>& names) {
             return DeviceLayout(sizes, names).mesh();
           }),
           py::arg("sizes"), py::arg("names"))
      .def("__call__", &placed, "A tensor's split: per dim an axis, several (major to minor), or None.")
      .def_property_readonly("sizes",
                             [](const Mesh& mesh) {
                               std::vector<int> out;
                               for (const Axis& a : mesh.axes) out.push_back(a.size);
                               return py::tuple(py::cast(out));
                             })
      .def_property_readonly("names",
                             [](const Mesh& mesh) {
                               std::vector<std::string> out;
                               for (const Axis& a : mesh.axes) out.push_back(a.name);
                               return py::tuple(py::cast(out));
                             })
      .def("__eq__", [](const Mesh& a, const Mesh& b) { return a == b; })
      .def("__repr__", [](const Mesh& mesh) { return to_text(mesh); });
}

}  // namespace shardwright::python
