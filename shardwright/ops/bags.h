// Bags of rows: what lookups of tables, their gradients and updates of rows have in common.
//
// Tables are [t.., v, e..] in memory, a bag is one of the rows [b.., t.., e..] that are made of them: the sum of those rows of
// table t that its ids [b.., t.., h] name. A rank that holds part of the rows takes the ids in its own range.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "shardwright/base/vectorize.h"
#include "shardwright/ops/indexed_rows.h"

namespace shardwright::ops {

struct Bags {
  LoopBox::Part v;
  std::int64_t tables = 1;  // of this rank
  std::int64_t inner = 1;   // elements of a row
  std::int64_t count = 0;   // of bags
  std::int64_t hot = 1;     // ids of a bag
  bool is_mean = false;     // of those ids that are there, instead of their sum
  Integers ids;             // below 0: none

  /// Row `k` of bag `g` among this rank's rows of all its tables, or -1.
  std::int64_t row(std::int64_t g, std::int64_t k) const {
    const std::int64_t id = ids[g * hot + k], at = id - v.offset;
    return id >= 0 && at >= 0 && at < v.extent ? g % tables * v.extent + at : -1;
  }

  /// What each row of bag `g` is multiplied with.
  double share(std::int64_t g) const {
    if (!is_mean) return 1;
    std::int64_t present = 0;
    for (std::int64_t k = 0; k < hot; ++k) present += ids[g * hot + k] >= 0 ? 1 : 0;
    return present > 0 ? 1 / static_cast<double>(present) : 0;
  }

  /// Throws: Error on an id, which are operand `operand`, behind the end of the tables.
  void check_range(const KernelCall& call, std::size_t operand) const {
    for (std::int64_t i = 0; i < ids.size(); ++i)
      if (ids[i] >= v.size)
        throw error("the index{} is {} but there are {} rows: 0 to {}, or below 0 for none",
                    place_of(call, operand, i), ids[i], v.size, v.size - 1);
  }
};

/// A bag that a row of the tables is in.
struct Addend {
  std::int64_t row = 0, bag = 0;
  auto operator<=>(const Addend&) const = default;
};

inline std::int64_t bytes_of_addends(const TensorView& ids) {
  return ids.size() * static_cast<std::int64_t>(sizeof(Addend));
}

/// Those of this rank's rows, equal rows side by side and each row's bags in their order. `memory` has bytes_of_addends.
inline std::span<const Addend> sorted_addends(const Bags& bags, std::byte* memory) {
  auto* const first = reinterpret_cast<Addend*>(memory);
  Addend* last = first;
  for (std::int64_t g = 0; g < bags.count; ++g)
    for (std::int64_t k = 0; k < bags.hot; ++k)
      if (const std::int64_t row = bags.row(g, k); row >= 0) *last++ = {row, g};
  std::sort(first, last);
  return {first, last};
}

/// Calls `f(row, addends)` for each row that is in a bag.
template <class F>
void for_each_row(std::span<const Addend> addends, F f) {
  for (std::size_t begin = 0, end = 0; begin < addends.size(); begin = end) {
    while (end < addends.size() && addends[end].row == addends[begin].row) ++end;
    f(addends[begin].row, addends.subspan(begin, end - begin));
  }
}

/// The type in which rows of elements of type T are added up.
template <class T>
using RowSum = std::conditional_t<is_short<T>, double, Compute<T>>;

/// to = the sum of rows: `row(i)` and `share(i)` of the i-th of `count`.
template <class T, class To, class Row, class Share>
void sum_rows(std::int64_t count, std::int64_t inner, Row row, Share share, To* to) {
  vectorized([=] {
    constexpr std::int64_t strip = 256;
    std::array<RowSum<T>, strip> sums;
    RowSum<T>* const sum = sums.data();
    for (std::int64_t start = 0; start < inner; start += strip) {
      const std::int64_t n = std::min(strip, inner - start);
      std::fill_n(sum, n, RowSum<T>(0));
      for (std::int64_t i = 0; i < count; ++i) {
        const T* const from = row(i);
        if (!from) continue;
        const auto factor = static_cast<RowSum<T>>(share(i));
        for (std::int64_t e = 0; e < n; ++e)
          sum[e] += factor * static_cast<RowSum<T>>(static_cast<Compute<T>>(from[start + e]));
      }
      for (std::int64_t e = 0; e < n; ++e) to[start + e] = static_cast<To>(static_cast<Compute<To>>(sum[e]));
    }
  });
}

/// to = what the bags of one row of the tables add to its gradient, of dy [bags, inner].
template <class T, class To>
void sum_addends(const Bags& bags, std::span<const Addend> addends, const T* dy, To* to) {
  const Addend* const all = addends.data();
  sum_rows<T>(
      static_cast<std::int64_t>(addends.size()), bags.inner,
      [all, dy, inner = bags.inner](std::int64_t i) { return dy + all[i].bag * inner; },
      [all, &bags](std::int64_t i) { return bags.share(all[i].bag); }, to);
}

/// Where behind addends there is room for one row.
inline std::int64_t bytes_before_row(const TensorView& ids) {
  constexpr std::int64_t line = 64;
  return (bytes_of_addends(ids) + line - 1) / line * line;
}

struct RowNames {
  std::string table, rows, ids;
};

/// The dims of the weight, of its rows and of their ids as text; every rank needs all rows that there are.
inline RowNames row_names(const Shape& table, const Shape& ids, bool is_bag) {
  if (!is_bag) {
    const Names n = names_of(table.size(), ids.size(), 0, "", "^");
    return {n.table, n.rows, n.indices};
  }
  std::vector<std::string> before, of_tables;
  for (std::size_t d = 0; d + table.size() - 1 < ids.size(); ++d) before.push_back(fmt::format("b{}^", d));
  for (std::size_t d = 0; d + 2 < table.size(); ++d) of_tables.push_back(fmt::format("t{}", d));
  const auto text = [](std::vector<std::string> dims, std::initializer_list<std::string> more) {
    dims.insert(dims.end(), more);
    return tensor_text(dims);
  };
  std::vector<std::string> both = before;
  both.insert(both.end(), of_tables.begin(), of_tables.end());
  return {text(of_tables, {"v", "e"}), text(both, {"e"}), text(both, {"h^"})};
}

/// Whether attribute `bag` (none, sum or mean) says that ids come in bags. Throws: Error on another word.
inline bool is_bag(const Attributes& attributes) {
  const std::string bag = attributes.text("bag", "none");
  if (bag != "none" && bag != "sum" && bag != "mean") throw error("bag={}: there are none, sum, mean", bag);
  return bag != "none";
}

}  // namespace shardwright::ops
