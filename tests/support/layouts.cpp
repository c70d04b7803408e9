#include "tests/support/layouts.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace shardwright::testing {

Mesh mesh_of(std::string_view text) {
  Scanner in(text);
  return parse_mesh(in);
}

Layout layout_of(std::string_view text, const Mesh& mesh) {
  Scanner in(text);
  Layout out = parse_layout(in, mesh);
  require(in.at_end(), "'{}' is more than a layout", text);
  return out;
}

Mesh mesh_of_sizes(const std::vector<int>& sizes) {
  Mesh out;
  for (int size : sizes) out.axes.push_back({std::string(1, static_cast<char>('a' + out.axes.size())), size});
  return out;
}

std::vector<Layout> all_layouts(const Mesh& mesh, const Shape& shape, const LayoutChoice& choice) {
  const int rank = static_cast<int>(shape.size());
  const int unused = rank, sum = rank + 1, max = rank + 2;
  std::vector<int> places(static_cast<std::size_t>(rank) + 1);
  std::iota(places.begin(), places.end(), 0);
  if (choice.sum) places.push_back(sum);
  if (choice.max) places.push_back(max);

  std::set<Layout> out;
  std::vector<int> order(mesh.axes.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    std::vector<std::size_t> at(order.size(), 0);
    for (;;) {
      Layout l = replicated(shape.size());
      for (std::size_t i = 0; i < order.size(); ++i) {
        const int place = places[at[i]];
        if (place < rank) l.dims[static_cast<std::size_t>(place)].push_back(order[i]);
        if (place == sum) l.sum.push_back(order[i]);
        if (place == max) l.max.push_back(order[i]);
        if (place == unused) continue;
      }
      l.sum = l.sum.sorted();
      l.max = l.max.sorted();
      const bool is_mixed = !l.sum.empty() && !l.max.empty();  // no value is both
      if (!is_mixed && (choice.uneven || is_even(l, mesh, shape))) out.insert(l);
      std::size_t i = at.size();
      while (i > 0 && ++at[i - 1] == places.size()) at[--i] = 0;
      if (i == 0) break;
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return {out.begin(), out.end()};
}

Mesh Draw::mesh(int most) {
  std::vector<int> sizes(static_cast<std::size_t>(between(0, most)));
  for (int& s : sizes) s = between(1, 4);
  return mesh_of_sizes(sizes);
}

Layout Draw::layout(const Mesh& mesh, std::size_t rank, const LayoutChoice& choice) {
  std::vector<int> order(mesh.axes.size());
  std::iota(order.begin(), order.end(), 0);
  shuffle(order);
  const bool is_max = choice.max && (!choice.sum || below(2) == 0);
  const bool may_be_partial = choice.sum || choice.max;
  Layout l = replicated(rank);
  for (int a : order) {
    const int place = below(static_cast<int>(rank) + (may_be_partial ? 2 : 1));
    if (place < static_cast<int>(rank)) l.dims[static_cast<std::size_t>(place)].push_back(a);
    if (place == static_cast<int>(rank) + 1) (is_max ? l.max : l.sum).push_back(a);
  }
  l.sum = l.sum.sorted();
  l.max = l.max.sorted();
  return l;
}

}  // namespace shardwright::testing
