// Strategy files: `_core.read_strategies`, `_core.strategy_bytes`.
#pragma once

#include <pybind11/pybind11.h>

namespace shardwright::python {

void bind_strategies(pybind11::module_& m);

}  // namespace shardwright::python
