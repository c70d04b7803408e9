// Data sets: `_core.data`.
#pragma once

#include <pybind11/pybind11.h>

namespace shardwright::python {

void bind_data(pybind11::module_& m);

}  // namespace shardwright::python
