// Meshes and layouts for property tests: from text, all there are, or drawn at random.
#pragma once

#include <random>
#include <string_view>
#include <vector>

#include "shardwright/layout/layout.h"

namespace shardwright::testing {

Mesh mesh_of(std::string_view text);
/// `[dp.tp, -] sum(sp)`, on mesh 0.
Layout layout_of(std::string_view text, const Mesh& mesh);

/// A mesh of axes a, b, c, ... of these sizes.
Mesh mesh_of_sizes(const std::vector<int>& sizes);

struct LayoutChoice {
  bool sum = true;
  bool max = false;
  bool uneven = true;  // else only layouts that cut the shape evenly
};

/// Every layout of a tensor of shape `shape`: each axis shards a dim, is partial, or is left unused; all
/// orders.
std::vector<Layout> all_layouts(const Mesh& mesh, const Shape& shape, const LayoutChoice& choice = {});

/// Seeded draws; print the seed with the failure.
class Draw {
 public:
  explicit Draw(unsigned seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }
  int between(int low, int high) { return low + below(high - low + 1); }
  template <class T>
  const T& from(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(below(static_cast<int>(list.size())))];
  }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (std::size_t i = list.size(); i > 1; --i)
      std::swap(list[i - 1], list[static_cast<std::size_t>(below(static_cast<int>(i)))]);
  }
  /// Up to `most` axes of sizes 1 to 4.
  Mesh mesh(int most);
  /// Axes shard dims or are partial at random, in random order.
  Layout layout(const Mesh& mesh, std::size_t rank, const LayoutChoice& choice = {});

 private:
  std::mt19937 engine_;
};

}  // namespace shardwright::testing
