// What Python calls a tensor: elements in memory, or a value of the graph that is being traced.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/frontend/trace.h"

namespace shardwright::python {

namespace py = pybind11;

class Array {
 public:
  explicit Array(Tensor elements) : elements_(std::make_shared<Tensor>(std::move(elements))) {}
  /// Of the trace that runs, which the array may outlive.
  explicit Array(Traced traced);
  virtual ~Array() = default;

  bool is_traced() const { return traced_.has_value(); }
  virtual Type type() const { return traced_ ? traced_->type : elements_->type(); }
  /// Throws: Error of a value that is being traced, which has none.
  virtual std::shared_ptr<Tensor> elements() const;
  /// In the trace that runs; elements enter it as something that is read again at each run.
  virtual Traced in(class Tracing& tracing) const;
  /// Its memory is that of an array of others, who may write to it.
  bool is_lent = false;

 protected:
  Array() = default;
  void set_elements(Tensor elements) { elements_ = std::make_shared<Tensor>(std::move(elements)); }
  void set_elements(std::shared_ptr<Tensor> elements) { elements_ = std::move(elements); }
  void drop_elements() { elements_.reset(); }
  bool has_elements() const { return elements_ != nullptr; }

 private:
  struct OfTrace {
    std::weak_ptr<class Tracing> tracing;
    ValueId id;
    Type type;
  };
  std::shared_ptr<Tensor> elements_;
  std::optional<OfTrace> traced_;
};
using ArrayPtr = std::shared_ptr<Array>;

/// A tensor of the same memory.
Tensor lent(const std::shared_ptr<Tensor>& elements);

/// Calls an operator: adds it to the trace that runs, or else computes it.
std::vector<ArrayPtr> call(const std::string& op, const std::vector<ArrayPtr>& operands,
                           const Attributes& attributes, const std::string& name = "");

/// Of a Python object: an array or parameter as it is; else what numpy makes of it, in the type `like` if that can hold
/// what Python's numbers say.
ArrayPtr array_of(const py::handle& object, std::optional<DType> like = std::nullopt);
/// Of anything with numpy's buffer: its memory, which is shared where it is contiguous.
Tensor tensor_of_buffer(const py::handle& object);

/// A type by its name, `float32` as numpy has it, or `f32`.
DType dtype_called(const std::string& name);
std::string numpy_name(DType dtype);

Attributes attributes_of(const py::dict& values);

void bind_array(py::module_& m);
void bind_operators(py::module_& m);
void bind_trace(py::module_& m);
void bind_program(py::module_& m);
void bind_files(py::module_& m);
void bind_fit(py::module_& m);
void bind_dlpack(py::module_& m);

}  // namespace shardwright::python
