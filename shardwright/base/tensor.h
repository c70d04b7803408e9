// Tensors that own their data, and views of tensors that somebody else owns. Row-major and contiguous,
// always.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "shardwright/base/dtype.h"
#include "shardwright/base/error.h"
#include "shardwright/base/shape.h"

namespace shardwright {

/// Type and shape of a tensor.
struct Type {
  DType dtype = DType::f32;
  Shape shape;

  std::int64_t bytes() const { return element_count(shape) * static_cast<std::int64_t>(size_of(dtype)); }
  bool operator==(const Type&) const = default;
};

/// `f32[4, 8]`
std::string to_text(const Type& type);

/// A tensor in memory that somebody else owns.
struct TensorView {
  DType dtype = DType::f32;
  Shape shape;
  std::byte* data = nullptr;

  std::int64_t size() const { return element_count(shape); }
  template <class T>
  std::span<T> as() const {
    require(dtype == dtype_for<T>(), "tensor of {} read as {}", name_of(dtype), name_of(dtype_for<T>()));
    return {reinterpret_cast<T*>(data), static_cast<std::size_t>(size())};
  }
};

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Type type) : type_(std::move(type)), bytes_(static_cast<std::size_t>(type_.bytes())) {}
  /// Elements that somebody else keeps for as long as `elements` lives, aligned for their type, and does not change.
  /// Whoever writes to the tensor writes to a copy.
  Tensor(Type type, std::shared_ptr<const std::byte> elements)
      : type_(std::move(type)), lent_(std::move(elements)) {}

  const Type& type() const { return type_; }
  DType dtype() const { return type_.dtype; }
  const Shape& shape() const { return type_.shape; }
  std::int64_t size() const { return element_count(type_.shape); }
  std::span<std::byte> bytes() {
    if (lent_) own();
    return bytes_;
  }
  std::span<const std::byte> bytes() const {
    if (lent_) return {lent_.get(), static_cast<std::size_t>(type_.bytes())};
    return bytes_;
  }
  /// Shapes are carried by the view; the tensor must outlive it.
  TensorView view() { return {type_.dtype, type_.shape, bytes().data()}; }

  template <class T>
  std::span<T> as() {
    return view().as<T>();
  }
  template <class T>
  std::span<const T> as() const {
    require(dtype() == dtype_for<T>(), "tensor of {} read as {}", name_of(dtype()), name_of(dtype_for<T>()));
    return {reinterpret_cast<const T*>(bytes().data()), static_cast<std::size_t>(size())};
  }

  bool operator==(const Tensor& other) const;

 private:
  void own();

  Type type_;
  std::vector<std::byte> bytes_;
  std::shared_ptr<const std::byte> lent_;  // the elements are these
};

/// A tensor of `values`, rounded to `type.dtype`.
Tensor make_tensor(Type type, std::span<const double> values);

/// The same values in another element type.
Tensor convert(const Tensor& t, DType dtype);

/// All elements as doubles, for tests and messages.
std::vector<double> to_doubles(const Tensor& t);

}  // namespace shardwright
