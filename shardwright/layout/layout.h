// A layout: how one tensor lies on a mesh. Everything - data, operator, optimizer, sequence parallelism -
// is a layout.
//
// Per tensor dim the axes that shard it, major to minor; the axes over which the value is partial, that is,
// every rank holds an addend (sum) or a candidate (max); over all other axes the value is replicated.
// A dim of size n over k parts is cut at floor(i n / k), so parts may be unequal and a refined mesh cuts at
// the same places. Where runs of g elements stay together (`[tp/128]`: heads of 128 features), it is cut at g floor(i (n/g) / k).
// By shares (`[dp/shares]`: samples on devices of two kinds) it is cut at floor(n (shares before it) / (all shares)).
// Text: `[dp.tp, -] sum(sp)`.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/base/shape.h"
#include "shardwright/base/text.h"
#include "shardwright/layout/mesh.h"

namespace shardwright {

enum class Reduction : std::uint8_t { sum, max };

/// The half-open range [begin, end) of part `index` out of `parts` of a dim of size `n`.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
Range cut(std::int64_t n, std::int64_t parts, std::int64_t index);
/// The part that `rank` has of a dim of size `n` cut by `axes`.
Range part_of(const Axes& axes, const Mesh& mesh, std::int64_t n, int rank);
/// The largest and the smallest of these parts; of those of some of the ranks, from `first` on, the largest.
std::int64_t largest_part(const Axes& axes, const Mesh& mesh, std::int64_t n);
std::int64_t smallest_part(const Axes& axes, const Mesh& mesh, std::int64_t n);
std::int64_t largest_part(const Axes& axes, const Mesh& mesh, std::int64_t n, int first, int count);
/// All of them have the same size.
bool are_parts_equal(const Axes& axes, const Mesh& mesh, std::int64_t n);
/// `axes` without a grain, and without shares, where a dim of size `n` is cut alike without.
Axes settled(const Axes& axes, const Mesh& mesh, std::int64_t n);

/// What an operator with a sliding window reads of a dim to compute a part [b, e) of its loop dim of size
/// `loop`: from (b num + low) / den, rounded up, to ((e - 1) num + high) / den, rounded down, both included and
/// clipped to the dim. A convolution of kernel k, stride s and padding p reads num = s, low = -p,
/// high = k - 1 - p; its data gradient num = 1, den = s. Neighbouring parts overlap: the halo. Of a dim that goes round nothing is
/// clipped: what is read before its begin lies at its end, and a part is read in one piece.
struct Window {
  std::int64_t loop = 0;  // 0: no window
  std::int64_t num = 1;
  std::int64_t den = 1;
  std::int64_t low = 0;
  std::int64_t high = 0;
  bool goes_round = false;

  auto operator<=>(const Window&) const = default;
  /// What part `index` of `parts` reads of a dim of size `n`.
  Range of(std::int64_t n, std::int64_t parts, std::int64_t index) const;
};

struct Layout {
  std::vector<Axes> dims;
  Axes sum;      // ascending
  Axes max;      // ascending
  int mesh = 0;  // which of the plan's meshes the axes belong to; 0 when no axis is used
  std::vector<Window> windows =
      {};  // per dim; empty if no dim has one, as in all but operands of such operators

  auto operator<=>(const Layout&) const = default;
  bool is_partial() const { return !sum.empty() || !max.empty(); }
  bool has_halo() const { return !windows.empty(); }
  bool is_replicated() const;
  /// All axes that shard the tensor or over which it is partial.
  Axes used() const;
};

/// The whole tensor on every rank.
Layout replicated(std::size_t rank);

/// A rectangular part of a tensor: offset and extent per dim.
struct Box {
  Shape offset;
  Shape extent;
  bool operator==(const Box&) const = default;
};

/// What `rank` holds of a tensor of global shape `shape`: of its dim `d`, and all.
Range part_of(const Layout& layout, const Mesh& mesh, const Shape& shape, int rank, std::size_t d);
Box box(const Layout& layout, const Mesh& mesh, const Shape& shape, int rank);

/// The common part of two boxes; some extent is 0 when there is none.
Box intersect(const Box& a, const Box& b);

/// Every rank's box has the same extent.
bool is_even(const Layout& layout, const Mesh& mesh, const Shape& shape);

/// Shape that every rank holds. The layout must be even.
Shape local_shape(const Layout& layout, const Mesh& mesh, const Shape& shape);

/// The largest shape that a rank holds.
Shape largest_local_shape(const Layout& layout, const Mesh& mesh, const Shape& shape);

/// Throws: Error if the rank differs from the shape's, if an axis is used twice, or a grain does not divide its dim.
void check(const Layout& layout, const Mesh& mesh, const Shape& shape);

/// The layout without halos: every element in one part.
Layout without_halo(Layout layout);

/// The layout of the value once its partials are reduced where they lie.
Layout reduced(Layout layout);

/// Axis `a` becomes `axes_of[a]`.
Axes translate(const Axes& axes, std::span<const Axes> axes_of);

/// The same boxes told in the axes of another mesh: axis `a` becomes `axes_of[a]`.
Layout translate(const Layout& layout, std::span<const Axes> axes_of, int mesh);

/// `~(14 2 1 -1 1)`: loop, num, den, low, high; `~(4 8 1 -8 -1 round)`
std::string to_text(const Window& window);
Window parse_window(Scanner& in);

/// `[dp.tp, -] sum(sp)`; with a halo `[-, tp~(14 2 1 -1 1)]`
std::string to_text(const Layout& layout, const Mesh& mesh);
Layout parse_layout(Scanner& in, const Mesh& mesh);

}  // namespace shardwright

template <>
struct std::hash<shardwright::Layout> {
  std::size_t operator()(const shardwright::Layout& layout) const;
};
