// Axes that two layouts have together, side by side, as one: a search over layouts looks at few axes.
#pragma once

#include <vector>

#include "shardwright/layout/redistribution.h"

namespace shardwright {

/// Axes that two layouts of one mesh have together, side by side, as one.
struct JoinedAxes {
  Mesh mesh;
  MeshCost cost;
  std::vector<Axes> axes_of;  // per joined axis

  JoinedAxes(const Mesh& whole, const MeshCost& prices, const Layout& a, const Layout& b)
      : cost{.axes = {},
             .levels = {},
             .copy_seconds_per_byte = prices.copy_seconds_per_byte,
             .routing_imbalance = prices.routing_imbalance} {
    for (int x = 0; x < whole.axis_count(); ++x) {
      if (!a.used().contains(x) && !b.used().contains(x)) continue;
      if (!axes_of.empty() && !whole.has_shares({last(), x}) && stand_together(a, last(), x) &&
          stand_together(b, last(), x)) {
        axes_of.back().push_back(x);
        mesh.axes.back().size *= whole.size_of(x);
      } else {
        axes_of.push_back({x});
        mesh.axes.push_back(whole.axes[static_cast<std::size_t>(x)]);
        cost.axes.push_back(prices.axes[static_cast<std::size_t>(x)]);
        cost.levels.emplace_back();
      }
      if (prices.levels.empty())
        cost.levels.back().push_back({whole.size_of(x), prices.axes[static_cast<std::size_t>(x)]});
      else
        cost.levels.back().insert(cost.levels.back().end(),
                                  prices.levels[static_cast<std::size_t>(x)].begin(),
                                  prices.levels[static_cast<std::size_t>(x)].end());
    }
  }

  Layout layout(const Layout& whole) const {
    Layout out{.dims = {}};
    for (const Axes& axes : whole.dims) out.dims.push_back(joined(axes));
    out.sum = joined(whole.sum);
    out.max = joined(whole.max);
    return out;
  }

 private:
  int last() const { return axes_of.back()[axes_of.back().size() - 1]; }

  static bool stand_together(const Layout& layout, int x, int y) {
    for (const Axes& axes : layout.dims)
      for (int i = 0; i < axes.size(); ++i)
        if (axes[i] == x || axes[i] == y) return axes[i] == x && i + 1 < axes.size() && axes[i + 1] == y;
    return layout.sum.contains(x) == layout.sum.contains(y) &&
           layout.max.contains(x) == layout.max.contains(y);
  }

  Axes joined(const Axes& axes) const {
    Axes out;
    for (int a : axes)
      for (std::size_t j = 0; j < axes_of.size(); ++j)
        if (axes_of[j][0] == a) out.push_back(static_cast<int>(j));
    return out.cut_as(axes);
  }
};

}  // namespace shardwright
