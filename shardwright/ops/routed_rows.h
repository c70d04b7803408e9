// Rows that are given to experts: who computes which, for the operators of ops/experts.cpp and the kernels of backends.
//
// Ids [rows, k] say for each row which experts compute it; below 0: none. A rank that holds part of the experts takes the
// ids in its own range, and may hold none of a row's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "shardwright/ops/indexed_rows.h"

namespace shardwright::ops {

/// The ids of this rank's experts, those of each expert together and in the order of rows.
class RoutedRows {
 public:
  /// Bytes of `memory` for so many ids and experts.
  static std::int64_t bytes(std::int64_t ids, std::int64_t experts) {
    return (ids + experts) * static_cast<std::int64_t>(sizeof(std::int64_t));
  }

  /// The ids are operand `operand`; without `memory` they cannot be sorted.
  RoutedRows(const KernelCall& call, std::size_t operand, std::byte* memory)
      : e_(call.loop("e")), ids_(call.operands[operand]), ends_(reinterpret_cast<std::int64_t*>(memory)) {}

  /// Throws: Error on an id behind the last expert.
  void sort(const KernelCall& call, std::size_t operand) {
    order_ = ends_ + e_.extent;
    std::fill_n(ends_, e_.extent, 0);
    for (std::int64_t i = 0; i < ids_.size(); ++i) {
      if (ids_[i] >= e_.size)
        throw error("the index{} is {} but there are {} experts: 0 to {}, or below 0 for none",
                    place_of(call, operand, i), ids_[i], e_.size, e_.size - 1);
      if (const std::int64_t at = own(i); at >= 0 && at + 1 < e_.extent) ++ends_[at + 1];
    }
    for (std::int64_t x = 1; x < e_.extent; ++x) ends_[x] += ends_[x - 1];  // as yet where they begin
    for (std::int64_t i = 0; i < ids_.size(); ++i)
      if (const std::int64_t at = own(i); at >= 0) order_[ends_[at]++] = i;
  }

  /// Places of ids in the operand: of row i / k the choice i % k.
  std::span<const std::int64_t> of(std::int64_t expert) const {
    const std::int64_t begin = expert == 0 ? 0 : ends_[expert - 1];
    return {order_ + begin, static_cast<std::size_t>(ends_[expert] - begin)};
  }

 private:
  std::int64_t own(std::int64_t i) const {
    const std::int64_t at = ids_[i] - e_.offset;
    return ids_[i] >= 0 && at >= 0 && at < e_.extent ? at : -1;
  }

  LoopBox::Part e_;
  Integers ids_;
  std::int64_t *ends_ = nullptr, *order_ = nullptr;
};

}  // namespace shardwright::ops
