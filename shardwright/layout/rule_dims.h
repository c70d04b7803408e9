// Which loop dims tensors of a rule have.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "shardwright/layout/rule.h"

namespace shardwright {

inline bool has_loop(const RuleTensor& tensor, int loop) {
  return std::any_of(tensor.dims.begin(), tensor.dims.end(), [loop](const std::vector<int>& dim) {
    return std::find(dim.begin(), dim.end(), loop) != dim.end();
  });
}

/// Of the loop dims behind a dim the one that is cut first, and how many elements are minor to it.
struct MajorLoop {
  int loop = -1;  // none: all have size 1
  std::int64_t minor = 1;
};
inline MajorLoop major_loop(const Rule& rule, const std::vector<int>& loops) {
  MajorLoop out;
  for (int l : loops) {
    const std::int64_t size = rule.loops[static_cast<std::size_t>(l)].size;
    if (out.loop < 0 && size > 1)
      out.loop = l;
    else
      out.minor *= size;
  }
  return out;
}

/// Loop dims that operand `i` alone has.
inline std::vector<int> own_loops(const Rule& rule, std::size_t i) {
  std::vector<int> out;
  for (const auto& dim : rule.operands[i].dims)
    for (int loop : dim) {
      bool is_own = true;
      for (std::size_t j = 0; j < rule.operands.size(); ++j)
        if (j != i && has_loop(rule.operands[j], loop)) is_own = false;
      if (is_own) out.push_back(loop);
    }
  return out;
}

/// The loop dim of the keys of operand `i`, a mask of queries and keys, where `round` is that of keys that go round: as many, but
/// whole and of no other operand. -1 if it is none.
inline int keys_of_mask(const Rule& rule, std::size_t i, int round) {
  const std::int64_t keys = rule.loops[static_cast<std::size_t>(round)].size;
  if (has_loop(rule.operands[i], round) || keys == 1) return -1;
  for (int loop : own_loops(rule, i))
    if (const LoopDim& dim = rule.loops[static_cast<std::size_t>(loop)];
        dim.kind == LoopKind::whole && dim.size == keys)
      return loop;
  return -1;
}

/// Loop dims behind dim `d` of an operand over which axes may spread. Where the last dim becomes several, these are
/// heads and the features of each, which stay together; heads that become several dims stay heads.
inline std::span<const int> split_loops(const Rule& rule, std::size_t operand, std::size_t d) {
  const auto& dims = rule.operands[operand].dims;
  const auto has_it = [&](const RuleTensor& t) { return std::ranges::count(t.dims, dims[d]) > 0; };
  const bool may_spread = d + 1 < dims.size() || std::ranges::any_of(rule.results, has_it);
  return std::span(dims[d]).first(may_spread ? dims[d].size() : 1);
}

}  // namespace shardwright
