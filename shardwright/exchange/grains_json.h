// What stays together of each dim of a layout, as JSON.
#pragma once

#include <algorithm>

#include "shardwright/layout/layout.h"
#include "shardwright/plan/json_text.h"

namespace shardwright {

/// Puts `grains` into what tells a layout, per dim, where it has any.
inline void add_grains(Json& out, const Layout& layout) {
  if (std::ranges::all_of(layout.dims, [](const Axes& axes) { return axes.grain() == 0; })) return;
  for (const Axes& axes : layout.dims) out["grains"].push_back(std::max<std::int64_t>(1, axes.grain()));
}

}  // namespace shardwright
