// Block kernels of functions of elements: what a point-wise operator writes is y = f(a, b, ...) for one element.
//
// f computes in float or double and is compiled once for each and for each instruction set. The 16-bit types
// are stored forms of float: their blocks are converted strip by strip, around the kernel for floats, so that
// they cost no code. A result may be an operand's memory, but only element upon element: the pragma says so.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "shardwright/base/f16.h"
#include "shardwright/base/vectorize.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {

/// results[r][i] = f(operands[0][i], operands[1][i], ...)[r]; where there is one result, f returns its element.
template <class C, std::size_t operand_count, std::size_t result_count = 1, class F>
void for_each_element(const ElementBlock& block, F f) {
  std::array<const C*, operand_count> x;
  std::array<C*, result_count> y;
  for (std::size_t k = 0; k < operand_count; ++k) x[k] = block.operand<C>(k);
  for (std::size_t r = 0; r < result_count; ++r) y[r] = block.result<C>(r);
  vectorized([x, y, f, n = block.count] {
    [&]<std::size_t... k>(std::index_sequence<k...>) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) {
        const auto value = f(x[k][i]...);
        if constexpr (result_count == 1)
          y[0][i] = value;
        else
          for (std::size_t r = 0; r < result_count; ++r) y[r][i] = value[r];
      }
    }
    (std::make_index_sequence<operand_count>{});
  });
}

/// y[i] = x[i] in another element type.
template <class From, class To>
void convert_elements(const std::byte* from, std::byte* to, std::int64_t count) {
  if constexpr ((std::is_same_v<From, F16> && std::is_same_v<To, float>) ||
                (std::is_same_v<From, float> && std::is_same_v<To, F16>))
    return convert(reinterpret_cast<const From*>(from), reinterpret_cast<To*>(to), count);
  vectorized([x = reinterpret_cast<const From*>(from), y = reinterpret_cast<To*>(to), count] {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i)
      y[i] = static_cast<To>(static_cast<Compute<To>>(static_cast<Compute<From>>(x[i])));
  });
}

/// Makes a kernel for blocks of 16-bit elements of one for floats.
class InFloats {
 public:
  InFloats(const Call& call, BlockKernel of_floats) : of_floats_(std::move(of_floats)) {
    for (const Type& t : call.operands) operands_.push_back(t.dtype);
    for (const Type& t : call.results) results_.push_back(t.dtype);
    require(operands_.size() + results_.size() <= most, "{} tensors", operands_.size() + results_.size());
  }

  void operator()(const ElementBlock& block) const {
    std::array<std::array<float, strip>, most> floats;
    std::array<std::byte*, most> at;
    const std::size_t first = operands_.size(), last = first + results_.size();
    for (std::int64_t start = 0; start < block.count; start += strip) {
      const std::int64_t n = std::min(strip, block.count - start);
      const auto stored = [&](std::size_t i) {
        const DType dtype = i < first ? operands_[i] : results_[i - first];
        std::byte* const data = i < first ? block.operands[i] : block.results[i - first];
        return std::pair{dtype, data + start * static_cast<std::int64_t>(size_of(dtype))};
      };
      for (std::size_t i = 0; i < last; ++i) {
        const auto [dtype, data] = stored(i);
        at[i] = size_of(dtype) == 2 ? reinterpret_cast<std::byte*>(floats[i].data()) : data;
        if (i >= first) continue;
        if (dtype == DType::f16) convert_elements<F16, float>(data, at[i], n);
        if (dtype == DType::bf16) convert_elements<BF16, float>(data, at[i], n);
      }
      of_floats_({std::span(at).first(first), std::span(at).subspan(first, results_.size()), n});
      for (std::size_t i = first; i < last; ++i) {
        const auto [dtype, data] = stored(i);
        if (dtype == DType::f16) convert_elements<float, F16>(at[i], data, n);
        if (dtype == DType::bf16) convert_elements<float, BF16>(at[i], data, n);
      }
    }
  }

 private:
  static constexpr std::int64_t strip = 512;
  static constexpr std::size_t most = 10;

  BlockKernel of_floats_;
  std::vector<DType> operands_;
  std::vector<DType> results_;
};

/// The kernel that runs `run(type, block)`, `type` being the identity of float or double, by operand 0's type.
template <class F>
BlockKernel floating_block(const Call& call, F run) {
  const DType dtype = call.operands[0].dtype;
  if (dtype == DType::f64) return [run](const ElementBlock& b) { run(std::type_identity<double>{}, b); };
  BlockKernel of_floats = [run](const ElementBlock& b) { run(std::type_identity<float>{}, b); };
  if (dtype == DType::f32) return of_floats;
  return InFloats(call, std::move(of_floats));
}

/// y = f(a, b, ...) for floating elements.
template <std::size_t operand_count, class F>
BlockKernel floating_elements(const Call& call, F f) {
  return floating_block(call, [f]<class C>(std::type_identity<C>, const ElementBlock& b) {
    for_each_element<C, operand_count>(b, f);
  });
}

/// y = f(a, b, ...) for floating elements, i32 and i64.
template <std::size_t operand_count, class F>
BlockKernel number_elements(const Call& call, F f) {
  switch (call.operands[0].dtype) {
    case DType::i32:
      return [f](const ElementBlock& b) { for_each_element<std::int32_t, operand_count>(b, f); };
    case DType::i64:
      return [f](const ElementBlock& b) { for_each_element<std::int64_t, operand_count>(b, f); };
    default: return floating_elements<operand_count>(call, f);
  }
}

}  // namespace shardwright::ops
