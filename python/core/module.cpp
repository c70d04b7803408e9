// The module shardwright._core: what Python's side is made of. One file binds one topic.
#include <pybind11/pybind11.h>

#include "python/core/array.h"
#include "python/core/asked.h"
#include "python/core/data.h"
#include "python/core/ranks.h"
#include "python/core/splits.h"
#include "shardwright/base/error.h"

namespace shardwright::python {
namespace {

/// Errors of ours become exceptions of the class that users of Python expect.
void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const Error& e) {
    PyObject* const general = py::module_::import("shardwright._errors").attr("ShardwrightError").ptr();
    switch (e.kind()) {
      case ErrorKind::io: PyErr_SetString(PyExc_OSError, e.what()); return;
      case ErrorKind::memory: PyErr_SetString(PyExc_MemoryError, e.what()); return;
      case ErrorKind::peer: PyErr_SetString(PyExc_ConnectionError, e.what()); return;
      default: PyErr_SetString(general, e.what());
    }
  }
}

}  // namespace
}  // namespace shardwright::python

PYBIND11_MODULE(_core, m) {
  using namespace shardwright::python;
  m.doc() = "Tensors, traces and programs of Shardwright.";
  py::register_exception_translator(&translate);
  bind_splits(m);
  bind_array(m);
  bind_trace(m);
  bind_operators(m);
  bind_dlpack(m);
  bind_planned_step(m);
  bind_program(m);
  bind_ranks(m);
  bind_files(m);
  bind_data(m);
}
