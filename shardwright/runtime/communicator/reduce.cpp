// Four operands are read at once, so that sums stay in registers; more than four are taken in turns over a
// block whose sums stay in the first cache. The order of additions is that of the operands in either case.

#include "shardwright/runtime/communicator/reduce.h"

#include <algorithm>
#include <array>
#include <utility>

#include "shardwright/base/vectorize.h"

namespace shardwright {
namespace {

constexpr std::int64_t block = 1024;
constexpr std::size_t at_once = 4;

template <class C, Reduction reduction>
C combine(C x, C y) {
  if constexpr (std::is_same_v<C, bool>)
    return x || y;
  else if constexpr (reduction == Reduction::sum)
    return static_cast<C>(x + y);
  else
    return x < y || y != y ? y : x;  // a NaN among them is the result, whoever holds it
}

template <class T>
const T* elements(const std::byte* data, std::int64_t begin) {
  return reinterpret_cast<const T*>(data) + begin;
}

/// out[i] = first[i] combined with each of more[q][i].
template <Reduction reduction, class T, class First, class Out, std::size_t... q>
void combine_each(const First* first, const std::array<const T*, at_once>& more, Out* out, std::int64_t n,
                  std::index_sequence<q...>) {
  vectorized([=] {
    using C = Compute<T>;
#pragma GCC ivdep  // `out` may be an operand, but then element by element
    for (std::int64_t i = 0; i < n; ++i) {
      C x = static_cast<C>(first[i]);
      ((x = combine<C, reduction>(x, static_cast<C>(more[q][i]))), ...);
      out[i] = static_cast<Out>(x);
    }
  });
}

template <Reduction reduction, class T, class First, class Out>
void combine_some(const First* first, std::span<const std::byte* const> more, std::int64_t begin, Out* out,
                  std::int64_t n) {
  std::array<const T*, at_once> x{};
  for (std::size_t q = 0; q < more.size(); ++q) x[q] = elements<T>(more[q], begin);
  switch (more.size()) {
    case 0: return combine_each<reduction>(first, x, out, n, std::make_index_sequence<0>());
    case 1: return combine_each<reduction>(first, x, out, n, std::make_index_sequence<1>());
    case 2: return combine_each<reduction>(first, x, out, n, std::make_index_sequence<2>());
    case 3: return combine_each<reduction>(first, x, out, n, std::make_index_sequence<3>());
    default: return combine_each<reduction>(first, x, out, n, std::make_index_sequence<at_once>());
  }
}

template <class T, Reduction reduction>
void reduce(std::span<const std::byte* const> from, std::byte* to, std::int64_t count) {
  T* out = reinterpret_cast<T*>(to);
  const auto first = from.first(1), more = from.subspan(1);
  if (more.size() <= at_once)
    return combine_some<reduction, T>(elements<T>(first[0], 0), more, 0, out, count);
  alignas(64) std::array<Compute<T>, block> sum;
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t n = std::min(block, count - begin);
    combine_some<reduction, T>(elements<T>(first[0], begin), more.first(at_once), begin, sum.data(), n);
    auto rest = more.subspan(at_once);
    for (; rest.size() > at_once; rest = rest.subspan(at_once))
      combine_some<reduction, T>(sum.data(), rest.first(at_once), begin, sum.data(), n);
    combine_some<reduction, T>(sum.data(), rest, begin, out + begin, n);
  }
}

}  // namespace

Reduce reduce_of(DType dtype, Reduction reduction) {
  return visit(dtype, [&]<class T>(std::type_identity<T>) -> Reduce {
    return reduction == Reduction::sum ? reduce<T, Reduction::sum> : reduce<T, Reduction::max>;
  });
}

}  // namespace shardwright
