// How tensors are split, as Python says it: a number of parts per dim, `(2, 4)`, or a layout `Layout(..)("dp", ("sp", "mp"))`.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "shardwright/frontend/operator.h"

namespace shardwright::python {

namespace py = pybind11;

/// None and () say nothing. Throws: TypeError of what is neither.
Split split_of(const py::handle& object);
/// None: nothing is said of any.
std::vector<Split> splits_of(const py::handle& object);

void bind_splits(py::module_& m);

}  // namespace shardwright::python
