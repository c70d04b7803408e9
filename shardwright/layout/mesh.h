// A mesh: the logical n-d arrangement of ranks with named axes, outermost (slowest link) first.
//
// Ranks are row-major, so the last axis joins neighbouring ranks. The seeds' device matrix.
// Text: `mesh [dp=4, tp=2]`; where devices along an axis have unequal shares of what is cut so, `mesh [dp=2 by 3:1, tp=2]`.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/base/text.h"

namespace shardwright {

struct Axis {
  std::string name;
  int size = 1;
  static constexpr int most_share = 1 << 12;
  std::vector<int> shares = {};  // of what is cut by them, one for each along the axis; empty: equal ones
  bool operator==(const Axis&) const = default;
};

/// A short ordered list of axes of one mesh, by index, major to minor. A value of 24 bytes.
///
/// Where they cut a dim that they do not divide, its elements may have to stay together in runs (the features of a head):
/// the grain is how many. 0: each stands alone. They may be cut in the shares of their axes, as samples are, or equally, as weights are.
class Axes {
 public:
  static constexpr int max_size = 15;

  Axes() = default;
  Axes(std::initializer_list<int> list) {
    for (int a : list) push_back(a);
  }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int operator[](int i) const { return index_[static_cast<std::size_t>(i)]; }
  const std::uint8_t* begin() const { return index_.data(); }
  const std::uint8_t* end() const { return index_.data() + size_; }
  bool contains(int axis) const;
  void push_back(int axis);
  /// The first `n` axes, and this followed by `more`, cut as this is.
  Axes prefix(int n) const;
  Axes with(const Axes& more) const;
  /// The last `n` axes; those but `others`, and all, in ascending order: without a grain, in equal shares.
  Axes suffix(int n) const;
  Axes without(const Axes& others) const;
  Axes sorted() const;
  std::int64_t grain() const { return grain_; }
  Axes of_grain(std::int64_t grain) const;
  bool is_by_shares() const { return is_by_shares_; }
  Axes by_shares(bool is_by_shares = true) const;
  /// Of the grain of `other`, and by shares where that is.
  Axes cut_as(const Axes& other) const { return of_grain(other.grain_).by_shares(other.is_by_shares_); }
  /// Each element stands alone, and shares are equal.
  bool is_cut_plainly() const { return grain_ == 0 && !is_by_shares_; }

  auto operator<=>(const Axes&) const = default;

 private:
  std::array<std::uint8_t, max_size> index_{};
  std::uint8_t size_ = 0;
  bool is_by_shares_ = false;
  std::int64_t grain_ = 0;
};

struct Mesh {
  std::vector<Axis> axes;

  bool operator==(const Mesh&) const = default;
  /// Number of ranks.
  int size() const;
  int size_of(int axis) const { return axes[static_cast<std::size_t>(axis)].size; }
  /// Ranks along several axes at once: the product of their sizes.
  int count(const Axes& some) const;
  int axis_count() const { return static_cast<int>(axes.size()); }
  /// Of some it has shares.
  bool has_shares() const;
  bool has_shares(const Axes& some) const;
  Axes all_axes() const;
  /// Index of the axis called `name`. Throws: Error that lists the axes there are.
  int axis(std::string_view name) const;
  /// Distance between neighbours along `axis`, in ranks.
  int stride_of(int axis) const;
  int coordinate(int rank, int axis) const { return rank / stride_of(axis) % size_of(axis); }
  /// Position of `rank` along the flattened `some` (major to minor).
  int index_along(int rank, const Axes& some) const;
  /// The ranks that differ from `rank` along `some` only, ordered by their position along `some`.
  std::vector<int> group_of(int rank, const Axes& some) const;
};

/// `mesh [dp=4, tp=2]`, `mesh [dp=2 by 3:1]`
std::string to_text(const Mesh& mesh);
/// `dp.tp`; with a grain `dp.tp/128`; by shares `dp/shares`, `dp/128/shares`
std::string to_text(const Axes& axes, const Mesh& mesh);
Mesh parse_mesh(Scanner& in);
/// `dp.tp`, `dp.tp/128`, `dp/shares`, or `-` for none. Throws: Error on an unknown axis, on a grain below 1.
Axes parse_axes(Scanner& in, const Mesh& mesh);
/// `size` as the size of the axis called `name`. Throws: Error if it is below 1 or beyond any mesh.
int axis_size(std::string_view name, std::int64_t size);
/// `3:1`. Throws: Error unless they are numbers from 1 to most_share.
std::vector<int> shares_of(std::string_view text);
std::string shares_text(std::span<const int> shares);
/// Throws: Error on axes without name, with one name twice, with a size below 1, other than `size` shares from 1 to most_share, or too many
/// of these in all.
void check(const Mesh& mesh);

/// The coarsest mesh that every given mesh is a grouping of, and what each axis becomes in it.
struct Refinement {
  Mesh mesh;
  std::vector<std::vector<Axes>> axes_of;  // [given mesh][its axis] -> axes of `mesh`
};

/// Exists if no axis with shares is taken apart, and the accumulated sizes from the minor end, of all meshes together, divide each other:
/// 2x2x2 and 8 have one, 2x3 and 3x2 do not. All meshes must have the same size.
/// Axes of size 1 vanish. A part that is exactly one named axis keeps that name; others, also those whose
/// axis has the empty name, are called `x0`, `x1`, ...
std::optional<Refinement> refine(std::span<const Mesh> meshes);

}  // namespace shardwright
