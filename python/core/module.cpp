// The module shardwright._core: what Python's side is made of. One file binds one topic.
#include <pybind11/pybind11.h>

#include "python/core/array.h"
#include "python/core/asked.h"
#include "python/core/data.h"
#include "python/core/ranks.h"
#include "python/core/splits.h"
#include "python/core/strategies.h"
#include "shardwright/base/error.h"
#include "shardwright/base/one_line.h"
#include "shardwright/base/text.h"

namespace shardwright::python {
namespace {

/// In one line, of any bytes: what is no text in them is replaced.
py::object text_of(const std::string& what) {
  const std::string line = one_line(what);
  return py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(line.data(), static_cast<py::ssize_t>(line.size()), "replace"));
}

void raise(PyObject* type, const std::string& what) { PyErr_SetObject(type, text_of(what).ptr()); }

/// A ShardwrightError with what cannot both hold beside its text; None for what is not said.
void raise_ours(const Error& e) {
  const py::object type = py::module_::import("shardwright._errors").attr("ShardwrightError");
  const py::object raised = type(text_of(e.what()));
  const auto said = [](const std::string& text) -> py::object {
    return text.empty() ? py::object(py::none()) : text_of(text);
  };
  if (const auto& c = e.conflict()) {
    raised.attr("operator") = said(c->operation);
    raised.attr("key") = said(c->key);
    raised.attr("wanted") = said(c->wanted);
    raised.attr("given") = said(c->given);
  }
  PyErr_SetObject(type.ptr(), raised.ptr());
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
      default: raise_ours(e);
    }
  }
}

PyCFunctionWithKeywords dispatch = nullptr;  // pybind11's, of all functions here

/// What pybind11 says of wrong arguments, some lines with all overloads, in one.
std::string shortened(const std::string& text) {
  std::string takes, given;
  std::string function = text.substr(0, text.find(':'));
  bool is_given = false;
  for (std::string_view line : split(text, '\n')) {
    const std::size_t first = line.find_first_not_of(' ');
    if (first == std::string_view::npos) continue;
    line.remove_prefix(first);
    if (line.starts_with("Did you forget")) break;
    is_given = is_given || line.starts_with("Invoked with: ");
    if (line.starts_with("Invoked with: ")) line.remove_prefix(14);
    if (is_given)
      given += (given.empty() ? "" : " ") + std::string(line);
    else if (line[0] >= '1' && line[0] <= '9' && line.find(". ") != std::string_view::npos)
      takes += (takes.empty() ? "" : " or ") + std::string(line.substr(line.find(". ") + 2));
  }
  constexpr std::size_t most = 200;  // of a tensor's elements nobody needs all
  if (given.size() > most) given = given.substr(0, most) + "...";
  return fmt::format("{} takes {}; it was called with {}", function, takes,
                     given.empty() ? "nothing" : given);
}

PyObject* call_with_short_errors(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* const result = dispatch(self, args, kwargs);
  if (result || !PyErr_ExceptionMatches(PyExc_TypeError)) return result;
  py::error_already_set wrong;
  const std::string text = py::str(wrong.value());
  if (text.find("arguments. The following argument types are supported:") == std::string::npos)
    wrong.restore();
  else
    raise(PyExc_TypeError, shortened(text));
  return nullptr;
}

void shorten_errors_of(PyObject* function) {
  if (PyInstanceMethod_Check(function)) function = PyInstanceMethod_Function(function);
  if (!PyCFunction_Check(function)) return;
  PyMethodDef& def = *reinterpret_cast<PyCFunctionObject*>(function)->m_ml;
  if (def.ml_meth != reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(dispatch))) return;
  def.ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call_with_short_errors));
}

/// Of all functions and methods in a module's or a class's dictionary.
void shorten_errors_in(const py::handle& holder) {
  const py::list values = py::list(holder.attr("__dict__").attr("values")());
  for (const py::handle value : values) {
    if (PyType_Check(value.ptr()) || PyModule_Check(value.ptr()))
      shorten_errors_in(value);
    else if (py::isinstance<py::staticmethod>(value))
      shorten_errors_of(value.attr("__func__").ptr());
    else
      shorten_errors_of(value.ptr());
  }
}

void shorten_type_errors(const py::module_& m) {
  const py::object any = m.attr("set_seed");
  const auto* const function = reinterpret_cast<PyCFunctionObject*>(any.ptr());
  dispatch = reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void (*)()>(function->m_ml->ml_meth));
  shorten_errors_in(m);
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
  bind_recipes(m);
  bind_program(m);
  bind_ranks(m);
  bind_files(m);
  bind_fit(m);
  bind_data(m);
  bind_strategies(m);
  shorten_type_errors(m);
}
