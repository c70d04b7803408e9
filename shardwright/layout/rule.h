// Rules: how an operator behaves under sharding, in one string over named loop dims.
//
//   matmul     ... m k+, ... k+ n -> ... m n        linear {0} {1}
//   softmax    ... c^ -> ... c^                     reshape  b (h d) -> b h d
//
// Marks: `k+` is summed, `k>` max-reduced, `k^` must stay whole, `k*` stays whole unless a plan or an annotation splits
// it, for then lowering expands the operator (graph/op.h), `k@` stays whole unless it is split over the axes that split
// another dim, for then lowering lets its parts go round in turns, `(h d)` is one tensor dim made of two loop dims, `1` a dim of size one with no loop dim behind it, `...` any leading dims (named i0, i1, ... counted
// from the left of the longest), `?` an operand that is not sharded at all. A loop dim that a result lacks is
// reduced there: the result is partial over the axes that shard it. A linear group is a set of operands in
// which the operator is jointly linear: they may be partial together, and the results then are too.
//
// `h~(num den low high)` in an operand is a dim over which a window slides (layout.h): to compute a part of the
// loop dim h, more of this dim is read than a part of it. `h~(num den low high round)`: the dim has no ends.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/base/shape.h"
#include "shardwright/layout/layout.h"

namespace shardwright {

enum class LoopKind : std::uint8_t { plain, sum, max, whole, expandable, round };

struct LoopDim {
  std::string name;
  std::int64_t size = 1;
  LoopKind kind = LoopKind::plain;

  /// Nobody splits it of his own accord.
  bool stays_whole() const { return kind >= LoopKind::whole; }
};

/// Loop dims (by index) behind each dim of one operand or result.
struct RuleTensor {
  std::vector<std::vector<int>> dims;
  Shape shape = {};                  // of the whole tensor, where dims have windows
  std::vector<Window> windows = {};  // per dim; empty if no dim has one
  bool is_sharded = true;  // false for `?`: no loop dims behind any dim, replicated whatever the strategy
};

struct Rule {
  std::vector<LoopDim> loops;
  std::vector<RuleTensor> operands;
  std::vector<RuleTensor> results;
  std::vector<std::vector<int>> linear;  // groups of operand indices

  /// Index of the loop dim called `name`, or -1.
  int loop(std::string_view name) const;
};

/// Reads `text` against shapes. Sizes come from the operands and, for dims that only results have, from
/// `results` (may be empty when no such dims exist). `linear` is `{0,1}` or `{0} {1}`, or empty.
/// Throws: Error when shapes disagree: `dim k is 8 in operand 0 but 6 in operand 1`.
Rule bind_rule(std::string_view text, std::string_view linear, std::span<const Shape> operands,
               std::span<const Shape> results);

/// Shapes of the results as the rule tells them from its loop sizes.
std::vector<Shape> result_shapes(const Rule& rule);

}  // namespace shardwright
