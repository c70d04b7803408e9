#include "python/core/array.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <array>
#include <utility>

#include "python/core/trace.h"
#include "shardwright/base/text.h"

namespace shardwright::python {
namespace {

/// Our type, and numpy's name and letter for it; bf16 has none there.
struct Name {
  DType dtype;
  const char* numpy;
  const char* letter;
};
constexpr std::array names{Name{DType::f32, "float32", "f"}, Name{DType::f64, "float64", "d"},
                           Name{DType::f16, "float16", "e"}, Name{DType::bf16, "bfloat16", ""},
                           Name{DType::i32, "int32", "i"},   Name{DType::i64, "int64", "l"},
                           Name{DType::u8, "uint8", "B"},    Name{DType::boolean, "bool", "?"}};

const Name& name_of_type(DType dtype) {
  for (const Name& n : names)
    if (n.dtype == dtype) return n;
  throw error("{} has no name in numpy", shardwright::name_of(dtype));
}

DType dtype_of_letter(const py::dtype& type) {
  const char kind = type.kind();
  const auto size = type.attr("itemsize").cast<py::ssize_t>();  // numpy 2 has it elsewhere in memory than 1
  if (kind == 'f' && size == 4) return DType::f32;
  if (kind == 'f' && size == 8) return DType::f64;
  if (kind == 'f' && size == 2) return DType::f16;
  if (kind == 'i' && size == 4) return DType::i32;
  if (kind == 'i' && size == 8) return DType::i64;
  if (kind == 'u' && size == 1) return DType::u8;
  if (kind == 'b') return DType::boolean;
  throw py::type_error(fmt::format("numpy's type {} has no counterpart; there are {}",
                                   py::repr(type).cast<std::string>(),
                                   "float16, float32, float64, int32, int64, uint8, bool"));
}

/// What lives as long as somebody sees the elements that an array had when they asked: a parameter gets others.
struct Seen {
  std::shared_ptr<Tensor> elements;
  std::vector<Py_ssize_t> shape, strides;
};

void show(const std::shared_ptr<Tensor>& t, Py_buffer& view) {
  const Name& name = name_of_type(t->dtype());
  if (!*name.letter) throw py::buffer_error("numpy has no bfloat16; take .numpy() or .astype('float32')");
  auto* const seen = new Seen{t, {t->shape().begin(), t->shape().end()}, {}};
  seen->strides.resize(seen->shape.size());
  auto stride = static_cast<Py_ssize_t>(size_of(t->dtype()));
  for (std::size_t d = seen->shape.size(); d-- > 0; stride *= seen->shape[d]) seen->strides[d] = stride;
  // A tensor may be part of a trace, or share its memory with the array that it came from: nobody writes to it.
  view.buf = const_cast<std::byte*>(std::as_const(*t).bytes().data());
  view.len = t->type().bytes();
  view.itemsize = static_cast<Py_ssize_t>(size_of(t->dtype()));
  view.readonly = 1;
  view.format = const_cast<char*>(name.letter);
  view.ndim = static_cast<int>(seen->shape.size());
  view.shape = seen->shape.data();
  view.strides = seen->strides.data();
  view.internal = seen;
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  *view = {};
  if (flags & PyBUF_WRITABLE) {
    PyErr_SetString(PyExc_BufferError, "tensors are read-only; write to a copy");
    return -1;
  }
  try {
    show(py::handle(self).cast<const Array&>().elements(), *view);
    view->obj = py::handle(self).inc_ref().ptr();
    return 0;
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_BufferError, e.what());
    return -1;
  }
}

void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<Seen*>(view->internal); }

/// pybind11's own buffers neither keep elements nor let errors through.
void give_buffers(const py::handle& tensor_class) {
  auto* const type = reinterpret_cast<PyHeapTypeObject*>(tensor_class.ptr());
  type->as_buffer.bf_getbuffer = &get_buffer;
  type->as_buffer.bf_releasebuffer = &release_buffer;
  type->ht_type.tp_as_buffer = &type->as_buffer;
  PyType_Modified(&type->ht_type);
}

/// As numpy prints it; of bf16, its values as f32.
py::object numpy_of(const py::object& self) {
  const py::module_ numpy = py::module_::import("numpy");
  const auto& array = self.cast<const Array&>();
  const std::shared_ptr<Tensor> t = array.elements();  // or its error, which numpy would hide
  if (t->dtype() != DType::bf16) return numpy.attr("asarray")(py::cast(std::make_shared<Array>(lent(t))));
  return numpy.attr("asarray")(py::cast(std::make_shared<Array>(convert(*t, DType::f32))));
}

/// Python's, of one element.
py::object number_of(const Array& array) {
  const std::shared_ptr<Tensor> t = array.elements();
  if (t->size() != 1)
    throw py::value_error(
        fmt::format("{} is no single number: only a tensor of one element is", to_text(t->type())));
  if (t->dtype() == DType::i64)
    return py::int_(*reinterpret_cast<const std::int64_t*>(std::as_const(*t).bytes().data()));
  const double number = to_doubles(*t)[0];
  if (is_floating(t->dtype())) return py::float_(number);
  if (t->dtype() == DType::boolean) return py::bool_(number != 0);
  return py::int_(static_cast<std::int64_t>(number));
}

std::string text_of(const py::object& self) {
  const auto& array = self.cast<const Array&>();
  const std::string type = to_text(array.type());
  if (array.is_traced()) return fmt::format("<traced {}>", type);
  return fmt::format("{}\n{}", py::str(numpy_of(self)).cast<std::string>(), type);
}

}  // namespace

Array::Array(Traced traced) : traced_({Tracing::current()->weak_from_this(), traced.id, traced.type()}) {}

std::shared_ptr<Tensor> Array::elements() const {
  const auto tracing = traced_ ? traced_->tracing.lock() : nullptr;
  if (traced_ && !(tracing && tracing->is_running()))
    throw error("a value of type {} belongs to a trace that has ended", to_text(type()));
  if (traced_)
    throw error(
        "a value of type {} is being traced: it has no elements yet; branch on shapes and Python values, or "
        "use "
        "where()",
        to_text(type()));
  return elements_;
}

Tensor lent(const std::shared_ptr<Tensor>& elements) {
  return Tensor(elements->type(), {elements, std::as_const(*elements).bytes().data()});
}

Traced Array::in(Tracing& tracing) const {
  if (!traced_) return tracing.captured(elements_, is_lent);
  if (traced_->tracing.lock().get() != &tracing)
    throw error("a value of type {} belongs to a trace that has ended", to_text(type()));
  return {&tracing.trace, traced_->id};
}

DType dtype_called(const std::string& name) {
  for (const Name& n : names)
    if (name == n.numpy) return n.dtype;
  if (const auto dtype = dtype_of(name)) return *dtype;
  std::vector<std::string> known;
  for (const Name& n : names) known.emplace_back(n.numpy);
  throw py::type_error(
      fmt::format("dtype '{}' is unknown{}; there are {}", name, near_names(name, known), join(known, ", ")));
}

std::string numpy_name(DType dtype) { return name_of_type(dtype).numpy; }

Tensor tensor_of_buffer(const py::handle& object) {
  py::array array = py::array::ensure(object, py::array::c_style);
  if (array && !array.dtype().attr("isnative").cast<bool>())  // of files, often
    array = array.attr("astype")(array.dtype().attr("newbyteorder")("="));
  if (!array) {
    PyErr_Clear();
    throw py::type_error(fmt::format("{} is no array of numbers", py::repr(object).cast<std::string>()));
  }
  Type type{dtype_of_letter(array.dtype()), Shape(array.shape(), array.shape() + array.ndim())};
  const auto* data = static_cast<const std::byte*>(array.data());
  // The array stays alive as long as the tensor does, which may end on another thread.
  auto* owner = new py::array(array);
  return Tensor(std::move(type), std::shared_ptr<const std::byte>(data, [owner](const std::byte*) {
                  const py::gil_scoped_acquire gil;
                  delete owner;
                }));
}

ArrayPtr array_of(const py::handle& object, std::optional<DType> like) {
  if (py::isinstance<Array>(object)) return object.cast<ArrayPtr>();
  if (py::isinstance<py::bool_>(object)) like = like == DType::boolean ? like : std::nullopt;
  Tensor t = tensor_of_buffer(object);
  // numpy's float64 is a float of Python's, too, but has a width.
  const bool is_number = PyFloat_CheckExact(object.ptr()) || PyLong_CheckExact(object.ptr());
  if (!is_number && !py::isinstance<py::list>(object) && !py::isinstance<py::tuple>(object)) {
    auto out = std::make_shared<Array>(std::move(t));
    out->is_lent = py::isinstance<py::array>(object);
    return out;
  }
  // Python's own numbers have no width: floats are f32 unless the other operand says more.
  if (is_number && like && (is_floating(*like) || !is_floating(t.dtype())))
    return std::make_shared<Array>(convert(t, *like));
  if (t.dtype() == DType::f64) return std::make_shared<Array>(convert(t, DType::f32));
  return std::make_shared<Array>(std::move(t));
}

Attributes attributes_of(const py::dict& values) {
  Attributes out;
  for (const auto& [key, value] : values) {
    const auto name = key.cast<std::string>();
    if (value.is_none()) continue;
    if (py::isinstance<py::bool_>(value))
      out.set(name, value.cast<bool>());
    else if (py::isinstance<py::int_>(value))
      out.set(name, value.cast<std::int64_t>());
    else if (py::isinstance<py::float_>(value))
      out.set(name, value.cast<double>());
    else if (py::isinstance<py::str>(value))
      out.set(name, value.cast<std::string>());
    else
      out.set(name, value.cast<std::vector<std::int64_t>>());
  }
  return out;
}

void bind_array(py::module_& m) {
  const py::object tensor =
      py::class_<Array, ArrayPtr>(
          m, "Tensor",
          "Numbers of one type in an n-dimensional grid; in a traced function, what stands for them.")
          .def(py::init([](const py::object& data, const std::optional<std::string>& dtype) {
                 const ArrayPtr a = array_of(data);
                 if (!dtype || a->type().dtype == dtype_called(*dtype)) return a;
                 return std::make_shared<Array>(convert(*a->elements(), dtype_called(*dtype)));
               }),
               py::arg("data"), py::arg("dtype") = std::nullopt)
          .def("numpy", &numpy_of, "The same memory as a numpy array; bfloat16 becomes float32.")
          .def(
              "__array__",
              [](const py::object& self, const py::object& dtype) {
                const py::object out = numpy_of(self);
                return dtype.is_none() ? out : out.attr("astype")(dtype);
              },
              py::arg("dtype") = py::none())
          .def_property_readonly("shape", [](const Array& a) { return py::tuple(py::cast(a.type().shape)); })
          .def_property_readonly("ndim", [](const Array& a) { return a.type().shape.size(); })
          .def_property_readonly("size", [](const Array& a) { return element_count(a.type().shape); })
          .def_property_readonly("dtype", [](const Array& a) { return numpy_name(a.type().dtype); })
          .def_property_readonly("is_traced", &Array::is_traced)
          .def("item", &number_of)
          .def("__bool__", [](const Array& a) { return py::bool_(number_of(a)); })
          .def("__float__", [](const Array& a) { return py::float_(number_of(a)); })
          .def("__int__", [](const Array& a) { return py::int_(number_of(a)); })
          .def("__index__",
               [](const Array& a) {
                 if (is_floating(a.type().dtype) || !a.type().shape.empty())
                   throw py::type_error(fmt::format("{} is no whole number", to_text(a.type())));
                 return py::int_(number_of(a));
               })
          .def("__len__",
               [](const Array& a) {
                 if (a.type().shape.empty()) throw py::type_error("a scalar has no length");
                 return a.type().shape[0];
               })
          .def("__reduce__",
               [](const py::object& self) {
                 return py::make_tuple(py::type::of<Array>(),
                                       py::make_tuple(numpy_of(self), self.attr("dtype")));
               })
          .def("__repr__", &text_of);
  give_buffers(tensor);
}

}  // namespace shardwright::python
