// Which element types an operator takes: the checks of inference and the dispatch of kernels.
//
// Errors are prefixed with the operator's name by `infer`. What inference lets through, kernels can compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shardwright/graph/op.h"

namespace shardwright::ops {

inline void check_count(const Call& call, std::size_t count) {
  if (call.operands.size() != count) throw error("has {} operands but takes {}", call.operands.size(), count);
}

inline void check_floating(DType dtype) {
  if (!is_floating(dtype)) throw error("{} is not a floating type; cast the operand first", name_of(dtype));
}

inline bool is_number(DType t) { return is_floating(t) || t == DType::i32 || t == DType::i64; }

inline void check_number(DType dtype) {
  if (!is_number(dtype))
    throw error("{} is neither a floating type nor i32 or i64; cast the operand first", name_of(dtype));
}

inline void check_integer(DType dtype) {
  if (dtype != DType::i32 && dtype != DType::i64)
    throw error("{} is neither i32 nor i64; cast the operand first", name_of(dtype));
}

/// Throws: Error unless operands `a` and `b` have the same element type.
inline void check_same_dtype(const Call& call, std::size_t a, std::size_t b) {
  if (call.operands[a].dtype != call.operands[b].dtype)
    throw error("operands {} and {} are {} and {}; cast one", a, b, to_text(call.operands[a]),
                to_text(call.operands[b]));
}

/// The type that all `count` operands have. Throws: Error unless they are equal and floating.
inline Type common_type(const Call& call, std::size_t count) {
  check_count(call, count);
  check_floating(call.operands[0].dtype);
  for (std::size_t i = 1; i < count; ++i)
    if (call.operands[i] != call.operands[0])
      throw error("operand {} is {} but operand 0 is {}; they must be equal", i, to_text(call.operands[i]),
                  to_text(call.operands[0]));
  return call.operands[0];
}

template <class T>
concept FloatingElement = dtype_for<T>()
== DType::f32 || dtype_for<T>() == DType::f64 || dtype_for<T>() == DType::f16
    || dtype_for<T>() == DType::bf16;
template <class T>
concept NumberElement = FloatingElement<T> || dtype_for<T>()
== DType::i32 || dtype_for<T>() == DType::i64;

/// `visit` for kernels of floating types only.
template <class F>
void visit_floating(DType dtype, F&& f) {
  visit(dtype, [&]<class T>(std::type_identity<T> type) {
    if constexpr (FloatingElement<T>)
      f(type);
    else
      require(false, "a kernel for floating types got {}", name_of(dtype));
  });
}

/// `visit` for kernels of floating types, i32 and i64.
template <class F>
void visit_number(DType dtype, F&& f) {
  visit(dtype, [&]<class T>(std::type_identity<T> type) {
    if constexpr (NumberElement<T>)
      f(type);
    else
      require(false, "a kernel for numbers got {}", name_of(dtype));
  });
}

/// Whether elements of type T are too short to hold a sum that grows (f16, bf16).
template <class T>
constexpr bool is_short = FloatingElement<T> && sizeof(T) < sizeof(Compute<T>);

/// The type in which a long sum of elements of type T is accumulated.
template <class T>
using Accumulator = std::conditional_t<FloatingElement<T>, double, std::int64_t>;

/// Weights are of the type of x, or f32 where that is short. Throws: Error if operands from `first` to before `end` are
/// not, or not all of one type.
inline void check_weight_types(const Call& call, std::size_t x, std::size_t first, std::size_t end) {
  const DType dtype = call.operands[x].dtype, of_weights = call.operands[first].dtype;
  if (of_weights != dtype && !(of_weights == DType::f32 && size_of(dtype) < sizeof(float)))
    throw error("operand {} is {} but operand {} is {}; weights have its type, or f32 beside f16 and bf16",
                first, to_text(call.operands[first]), x, to_text(call.operands[x]));
  for (std::size_t i = first; i < end; ++i) check_same_dtype(call, first, i);
}

/// `f(std::type_identity<G>)`, G being the element type of weights beside an x of element type T.
template <class T, class F>
void visit_weights(DType dtype, F f) {
  if constexpr (is_short<T>)
    if (dtype == DType::f32) return f(std::type_identity<float>());
  f(std::type_identity<T>());
}

/// The elements of an i32 or i64 tensor.
class Integers {
 public:
  explicit Integers(const TensorView& t)
      : size_(t.size()),
        narrow_(t.dtype == DType::i32 ? t.as<std::int32_t>().data() : nullptr),
        wide_(t.dtype == DType::i32 ? nullptr : t.as<std::int64_t>().data()) {}

  std::int64_t size() const { return size_; }
  std::int64_t operator[](std::int64_t i) const { return narrow_ ? narrow_[i] : wide_[i]; }

 private:
  std::int64_t size_;
  const std::int32_t* narrow_;
  const std::int64_t* wide_;
};

/// The elements of a small tensor of any floating type.
class Doubles {
 public:
  explicit Doubles(const TensorView& t) : data_(t.data), dtype_(t.dtype) {}

  double operator[](std::int64_t i) const {
    switch (dtype_) {
      case DType::f64: return at<double>(i);
      case DType::f32: return static_cast<double>(at<float>(i));
      case DType::f16: return static_cast<double>(static_cast<float>(at<F16>(i)));
      default: return static_cast<double>(static_cast<float>(at<BF16>(i)));
    }
  }

 private:
  template <class T>
  T at(std::int64_t i) const {
    return reinterpret_cast<const T*>(data_)[i];
  }
  const std::byte* data_;
  DType dtype_;
};

}  // namespace shardwright::ops
