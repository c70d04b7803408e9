#include "shardwright/runtime/communicator/reduce.h"

#include <algorithm>
#include <array>

namespace shardwright {
namespace {

constexpr std::int64_t block = 1024;  // the sums of a block stay in the first cache

template <class T, Reduction reduction>
T combine(T x, T y) {
  if constexpr (std::is_same_v<T, bool>)
    return x || y;
  else if constexpr (reduction == Reduction::sum)
    return static_cast<T>(x + y);
  else
    return x < y ? y : x;
}

template <class T, Reduction reduction>
void reduce(std::span<const std::byte* const> from, std::byte* to, std::int64_t count) {
  using C = Compute<T>;
  alignas(64) std::array<C, block> sum;
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const auto n = static_cast<std::size_t>(std::min(block, count - begin));
    const T* first = reinterpret_cast<const T*>(from[0]) + begin;
    for (std::size_t i = 0; i < n; ++i) sum[i] = static_cast<C>(first[i]);
    for (const std::byte* other : from.subspan(1)) {
      const T* x = reinterpret_cast<const T*>(other) + begin;
      for (std::size_t i = 0; i < n; ++i) sum[i] = combine<C, reduction>(sum[i], static_cast<C>(x[i]));
    }
    T* out = reinterpret_cast<T*>(to) + begin;
    for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<T>(sum[i]);
  }
}

}  // namespace

Reduce reduce_of(DType dtype, Reduction reduction) {
  return visit(dtype, [&]<class T>(std::type_identity<T>) -> Reduce {
    return reduction == Reduction::sum ? reduce<T, Reduction::sum> : reduce<T, Reduction::max>;
  });
}

}  // namespace shardwright
