// The module shardwright._core: what Python's side is made of. One file binds one topic.
#include <pybind11/pybind11.h>

#include "python/core/array.h"
#include "python/core/asked.h"
#include "python/core/data.h"
#include "python/core/ranks.h"
#include "python/core/splits.h"
#include "shardwright/base/error.h"
#include "shardwright/base/one_line.h"

namespace shardwright::python {
namespace {

/// Of any bytes: what is no text in them is replaced.
void raise(PyObject* type, const std::string& what) {
  const std::string line = one_line(what);
  const auto text = py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(line.data(), static_cast<py::ssize_t>(line.size()), "replace"));
  PyErr_SetObject(type, text.ptr());
}

/// Errors of ours become exceptions of the class that users of Python expect.
void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const Error& e) {
    switch (e.kind()) {
      case ErrorKind::io: return raise(PyExc_OSError, e.what());
      case ErrorKind::memory: return raise(PyExc_MemoryError, e.what());
      case ErrorKind::peer: return raise(PyExc_ConnectionError, e.what());
      default: raise(py::module_::import("shardwright._errors").attr("ShardwrightError").ptr(), e.what());
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
