// How dims of a layout are cut where that is not into equal parts at any element, as JSON.
#pragma once

#include <algorithm>

#include "shardwright/layout/layout.h"
#include "shardwright/plan/json_text.h"

namespace shardwright {

/// Puts into what tells a layout of a tensor of `shape`, per dim and where it has any, `grains`: how many elements stay together; and
/// `places`: of what is cut by shares, where each part begins, and the end.
inline void add_cuts(Json& out, const Layout& layout, const Mesh& mesh, const Shape& shape) {
  if (std::ranges::any_of(layout.dims, [](const Axes& axes) { return axes.grain() > 0; }))
    for (const Axes& axes : layout.dims) out["grains"].push_back(std::max<std::int64_t>(1, axes.grain()));
  if (std::ranges::none_of(layout.dims, &Axes::is_by_shares)) return;
  for (std::size_t d = 0; d < layout.dims.size(); ++d) {
    Json places;
    if (const Axes& axes = layout.dims[d]; axes.is_by_shares()) {
      for (const int rank : mesh.group_of(0, axes))
        places.push_back(part_of(axes, mesh, shape[d], rank).begin);
      places.push_back(shape[d]);
    }
    out["places"].push_back(std::move(places));
  }
}

}  // namespace shardwright
