// How often the described system counts the bytes of an operator's tensors as touched (search/dynamic/described_costs.h),
// where that is not each operand once, and the result where it is reduced over devices: so that its cost model, which names
// no operator, gives the same figures.
#pragma once

#include <vector>

#include "shardwright/ops/means.h"

namespace shardwright {

struct TouchCounts {
  double operand = 1;  // of each operand
  std::vector<double> split =
      {};             // of operands, where a dim that the result lacks is split; beyond its end as `operand`
  double result = 0;  // of the result, whatever is split
  double reduced_result = 1;  // of a result that is reduced over devices, besides
};

inline TouchCounts touches_of(const OpDef& op) {
  if (op.name == "gather") return {.split = {3, 7}, .reduced_result = 0};  // ids are shifted and masked
  if (op.name == "unsorted_segment_sum") return {.result = 1, .reduced_result = 0};
  if (op.name == "reshape")
    return {.operand = 2};  // of what a device has, once it lies right: read and written
  if (is_mean(op)) return {.reduced_result = 2};  // the sum, and the quotient
  return {};
}

}  // namespace shardwright
