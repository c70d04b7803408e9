#include "shardwright/annotations/spread_axes.h"

#include "shardwright/base/index.h"
#include "shardwright/layout/uneven.h"

namespace shardwright {
namespace {

/// Whether a loop dim is split over `axes` now; it may have been before.
bool put(Strategy& s, int loop, const Axes& axes) {
  Axes& has = s.loops[at(loop)];
  if (has.empty()) has = axes;
  return has == axes;
}

}  // namespace

SpreadAxes spread_axes(const Axes& axes, const Rule& rule, const std::vector<int>& loops,
                       std::span<const int> may_take, const Mesh& mesh, const Axes& tensor, Strategy& s) {
  if (const auto uneven = uneven_cut(rule, loops, axes, mesh))
    if (put(s, uneven->loop, uneven->axes)) return {.fits = true};
  SpreadAxes out;
  int next = 0;
  for (int loop : may_take) {
    Axes taken;
    std::int64_t left = rule.loops[at(loop)].size;
    while (next < axes.size() && left % mesh.size_of(axes[next]) == 0) {
      left /= mesh.size_of(axes[next]);
      taken.push_back(axes[next++]);
    }
    if (next < axes.size() && left > 1 && tensor.contains(axes[next])) {
      const int size = mesh.size_of(axes[next]);
      if (size % left == 0) {
        out.cut = axes[next], out.devices = static_cast<int>(left);
      } else if (next > 0 && next + 1 == axes.size() && taken.empty() && size < left) {
        taken = Axes{axes[next++]}.of_grain(1);
      }
    }
    if (!taken.empty() && !put(s, loop, taken))
      return {.fits = false, .cut = out.cut, .devices = out.devices};
    if (next == axes.size() || left > 1) break;
  }
  out.fits = next > 0;
  return out;
}

}  // namespace shardwright
