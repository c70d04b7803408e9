#include "shardwright/plan/groups.h"

#include "shardwright/base/index.h"

#include <numeric>
#include <set>

namespace shardwright {
namespace {

/// Per axis the sizes of the minor parts that are wanted.
using Cuts = std::vector<std::set<int>>;

/// From the minor end, of each axis the most that is left of the group.
void want(Cuts& cuts, const Layout& layout, const Mesh& mesh, int group) {
  const Axes unused = mesh.all_axes().without(layout.used());
  int left = replicas_that_share(mesh.count(unused), group);
  for (int i = unused.size(); i-- > 0;) {
    const int size = mesh.size_of(unused[i]), part = std::gcd(left, size);
    if (part > 1 && part < size) cuts[at(unused[i])].insert(part);
    left /= part;
  }
}

/// Sizes of the parts of an axis, major to minor. A part that does not divide the next is passed over.
std::vector<int> parts_of(int size, const std::set<int>& minor_parts) {
  std::vector<int> out;
  int taken = 1;
  for (int part : minor_parts)
    if (part % taken == 0 && size % part == 0) {
      out.insert(out.begin(), part / taken);
      taken = part;
    }
  out.insert(out.begin(), size / taken);
  return out;
}

std::string part_name(const std::string& axis, std::size_t part, std::set<std::string>& taken) {
  std::string name = fmt::format("{}{}", axis, part);
  while (!taken.insert(name).second) name += "_";
  return name;
}

}  // namespace

CutMeshes cut_for_groups(std::span<const Mesh> meshes, std::span<const Layout> weights, int group) {
  CutMeshes out;
  for (std::size_t m = 0; m < meshes.size(); ++m) {
    const Mesh& mesh = meshes[m];
    Cuts cuts(mesh.axes.size());
    for (const Layout& layout : weights)
      if (at(layout.mesh) == m) want(cuts, layout, mesh, group);
    std::set<std::string> taken;
    for (const Axis& axis : mesh.axes) taken.insert(axis.name);
    Mesh& finer = out.meshes.emplace_back();
    auto& axes_of = out.axes_of.emplace_back();
    for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
      const std::vector<int> parts = parts_of(mesh.axes[a].size, cuts[a]);
      Axes& now = axes_of.emplace_back();
      if (parts.size() > 1 && !mesh.axes[a].shares.empty())
        throw error(
            "optimizer parallel group {}: cuts the replicas of {}, which have shares of the batch; leave one "
            "out",
            group, to_text(mesh));
      for (std::size_t p = 0; p < parts.size(); ++p) {
        now.push_back(finer.axis_count());
        finer.axes.push_back(parts.size() == 1 ? mesh.axes[a]
                                               : Axis{part_name(mesh.axes[a].name, p, taken), parts[p]});
      }
    }
    check(finer);
  }
  return out;
}

Strategy translate(const Strategy& strategy, const CutMeshes& cut) {
  Strategy out = strategy;
  const std::vector<Axes>& axes_of = cut.axes_of[at(strategy.mesh)];
  for (Axes& axes : out.loops) axes = translate(axes, axes_of);
  for (Axes& axes : out.linear) axes = translate(axes, axes_of).sorted();
  return out;
}

void check_group(const Layout& layout, const Mesh& mesh, int group, std::string_view weight) {
  const int replicas = mesh.count(mesh.all_axes().without(layout.used()));
  const int wanted = replicas_that_share(replicas, group);
  const int found = mesh.count(axes_that_share(layout, mesh, group));
  if (found != wanted)
    throw error(
        "optimizer parallel: {} of the {} replicas of {} should share a state, but the axes of {} join {}; "
        "plan again, or cut an axis in two",
        wanted, replicas, weight, to_text(mesh), found);
}

}  // namespace shardwright
