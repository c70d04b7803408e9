// The exchange of tensors with other libraries, by the structs of DLPack 0.8 (github.com/dmlc/dlpack): memory is shared.
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "python/core/array.h"

namespace shardwright::python {
namespace {

struct DLDevice {
  std::int32_t type = 1;  // the host's memory
  std::int32_t id = 0;
};
struct DLDataType {
  std::uint8_t code = 0, bits = 0;
  std::uint16_t lanes = 1;
};
struct DLTensor {
  void* data = nullptr;
  DLDevice device;
  std::int32_t dims = 0;
  DLDataType dtype;
  std::int64_t* shape = nullptr;
  std::int64_t* strides = nullptr;  // in elements; null: row-major
  std::uint64_t byte_offset = 0;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* context = nullptr;
  void (*deleter)(DLManagedTensor*) = nullptr;
};
constexpr const char *fresh = "dltensor", *used = "used_dltensor";

struct Kind {
  DType dtype;
  std::uint8_t code, bits;
};
constexpr std::array kinds{Kind{DType::f32, 2, 32},  Kind{DType::f64, 2, 64},   Kind{DType::f16, 2, 16},
                           Kind{DType::bf16, 4, 16}, Kind{DType::i32, 0, 32},   Kind{DType::i64, 0, 64},
                           Kind{DType::u8, 1, 8},    Kind{DType::boolean, 6, 8}};

/// What lives as long as somebody else's tensor of our memory does.
struct Lent {
  std::shared_ptr<Tensor> elements;
  Shape shape;
  DLManagedTensor managed;
};

py::capsule to_capsule(const Array& array) {
  auto lent = std::make_unique<Lent>();
  lent->elements = array.elements();
  const Tensor& t = *lent->elements;
  lent->shape = t.shape();
  const auto kind = std::ranges::find(kinds, t.dtype(), &Kind::dtype);
  DLTensor& shown = lent->managed.tensor;
  shown.data = const_cast<std::byte*>(t.bytes().data());
  shown.dims = static_cast<std::int32_t>(lent->shape.size());
  shown.dtype = {kind->code, kind->bits, 1};
  shown.shape = lent->shape.data();
  lent->managed.context = lent.get();
  lent->managed.deleter = [](DLManagedTensor* m) { delete static_cast<Lent*>(m->context); };
  return py::capsule(&lent.release()->managed, fresh, [](PyObject* capsule) {
    if (!PyCapsule_IsValid(capsule, fresh)) return;  // somebody has taken it
    auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, fresh));
    managed->deleter(managed);
  });
}

bool is_row_major(const DLTensor& t) {
  std::int64_t stride = 1;
  for (std::int32_t d = t.dims; t.strides && d-- > 0; stride *= t.shape[d])
    if (t.shape[d] != 1 && t.strides[d] != stride) return false;
  return true;
}

ArrayPtr from_dlpack(const py::object& source) {
  const auto capsule = source.attr("__dlpack__")().cast<py::capsule>();
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), fresh));
  if (!managed) throw py::error_already_set();
  const DLTensor& t = managed->tensor;
  if (t.device.type != 1)
    throw py::buffer_error("the tensor is not in the host's memory; bring it there first");
  const auto kind = std::ranges::find_if(
      kinds, [&](const Kind& k) { return k.code == t.dtype.code && k.bits == t.dtype.bits; });
  if (kind == kinds.end() || t.dtype.lanes != 1) throw py::type_error("the tensor's type has no counterpart");
  if (!is_row_major(t)) throw py::buffer_error("the tensor is not row-major; make it contiguous first");
  PyCapsule_SetName(capsule.ptr(), used);
  const auto* data = static_cast<const std::byte*>(t.data) + t.byte_offset;
  Type type{kind->dtype, Shape(t.shape, t.shape + t.dims)};
  auto out = std::make_shared<Array>(
      Tensor(std::move(type), std::shared_ptr<const std::byte>(data, [managed](const std::byte*) {
               const py::gil_scoped_acquire gil;
               if (managed->deleter) managed->deleter(managed);
             })));
  out->is_lent = true;
  return out;
}

}  // namespace

void bind_dlpack(py::module_& m) {
  auto tensor = py::type::of<Array>();
  tensor.attr("__dlpack__") = py::cpp_function(
      [](const Array& a, const py::kwargs&) { return to_capsule(a); }, py::is_method(tensor));
  tensor.attr("__dlpack_device__") =
      py::cpp_function([](const Array&) { return py::make_tuple(1, 0); }, py::is_method(tensor));
  m.def("from_dlpack", &from_dlpack, "A tensor of another library, whose memory it shares.");
}

}  // namespace shardwright::python
