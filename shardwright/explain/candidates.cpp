#include "shardwright/explain/candidates.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/layout/uneven.h"
#include "shardwright/search/space/candidates.h"

namespace shardwright {
namespace {

constexpr double most_listed = 20000;  // beyond, strategies are not listed but reached by moves

/// Takes `axis` out of wherever it is, and appends it to loop dim `loop` unless that is -1.
Strategy moved(const Strategy& s, int axis, int loop) {
  Strategy out = s;
  for (Axes& axes : out.loops) {
    Axes rest;
    for (int a : axes)
      if (a != axis) rest.push_back(a);
    axes = rest;
  }
  if (loop >= 0) out.loops[at(loop)] = out.loops[at(loop)].with({axis}).sorted();
  return out;
}

/// `from` and everything that a move of one axis makes of them.
std::set<Strategy> with_moves(const std::set<Strategy>& from, const Rule& rule, const Mesh& mesh) {
  std::set<Strategy> out = from;
  for (const Strategy& s : from)
    for (int a = 0; a < mesh.axis_count(); ++a)
      for (int l = -1; l < static_cast<int>(rule.loops.size()); ++l) out.insert(moved(s, a, l));
  return out;
}

std::vector<Strategy> reached_by_moves(const Rule& rule, const Mesh& mesh, int index,
                                       const Strategy& planned) {
  std::set<Strategy> starts{whole(rule)};
  for (std::size_t l = 0; l < rule.loops.size(); ++l) {
    Strategy s = whole(rule);
    s.loops[l] = mesh.all_axes();
    starts.insert(s);
  }
  if (planned.mesh == index) starts.insert(planned);
  std::vector<Strategy> out;
  for (const Strategy& s : with_moves(with_moves(starts, rule, mesh), rule, mesh))
    if (!violation_if_even(rule, s, mesh)) out.push_back(s);
  for (Strategy& s : out) s.mesh = used_axes(s).empty() ? 0 : index;
  return out;
}

std::vector<Strategy> listed(const Rule& rule, const Mesh& mesh, int index, const Strategy& planned) {
  const double count = std::pow(static_cast<double>(rule.loops.size() + 1), mesh.axis_count());
  return count <= most_listed ? space::strategies_on(rule, mesh, index)
                              : reached_by_moves(rule, mesh, index, planned);
}

/// Into how many parts each loop dim is split.
std::vector<int> parts_of(const Strategy& s, std::span<const Mesh> meshes) {
  std::vector<int> out;
  for (const Axes& axes : s.loops) out.push_back(meshes[at(s.mesh)].count(axes));
  return out;
}

/// How many axes two strategies have on different loop dims.
int difference(const Strategy& a, const Strategy& b) {
  int out = a.mesh == b.mesh ? 0 : Axes::max_size;
  for (std::size_t l = 0; l < a.loops.size(); ++l)
    out += a.loops[l].without(b.loops[l]).size() + b.loops[l].without(a.loops[l]).size();
  return out;
}

}  // namespace

Candidates candidates_of(const Rule& rule, std::span<const Mesh> meshes, const Strategy& planned,
                         std::size_t most) {
  std::vector<Strategy> all{planned};
  for (std::size_t m = 0; m < meshes.size(); ++m)
    for (Strategy& s : listed(rule, meshes[m], static_cast<int>(m), planned))
      if (s != planned && (m == 0 || s.mesh > 0)) all.push_back(std::move(s));
  if (all.size() <= most) return {std::move(all)};

  std::map<std::vector<int>, Strategy> nearest;
  for (const Strategy& s : all) {
    const auto [it, is_new] = nearest.try_emplace(parts_of(s, meshes), s);
    if (!is_new && difference(s, planned) < difference(it->second, planned)) it->second = s;
  }
  Candidates out;
  for (auto& [parts, s] : nearest) out.strategies.push_back(std::move(s));
  std::ranges::stable_sort(out.strategies, {}, [&](const Strategy& s) { return difference(s, planned); });
  if (out.strategies.size() > most) out.strategies.resize(most);
  out.left_out = static_cast<int>(all.size() - out.strategies.size());
  return out;
}

}  // namespace shardwright
