#include "shardwright/search/dynamic/described_candidates.h"

#include <functional>

#include "shardwright/base/index.h"
#include "shardwright/layout/uneven.h"
#include "shardwright/search/space/candidates.h"

namespace shardwright::dynamic {
namespace {

/// Axes of size 2, and all others.
struct Halves {
  Axes twos, others;
};

Halves halves_of(const Mesh& mesh) {
  Halves out;
  for (int a = 0; a < mesh.axis_count(); ++a) (mesh.size_of(a) == 2 ? out.twos : out.others).push_back(a);
  return out;
}

/// Where a window slides, its dim is cut evenly, too.
bool cuts_windows_evenly(const Rule& rule, const Strategy& s, const Mesh& mesh) {
  for (const RuleTensor& tensor : rule.operands)
    for (std::size_t d = 0; d < tensor.windows.size(); ++d)
      if (tensor.windows[d].loop > 0 && tensor.shape[d] % mesh.count(s.loops[at(tensor.dims[d].front())]))
        return false;
  return true;
}

/// Loop dims that may be split.
std::vector<int> open_loops(const Rule& rule) {
  std::vector<int> out;
  for (std::size_t l = 0; l < rule.loops.size(); ++l)
    if (!rule.loops[l].stays_whole()) out.push_back(static_cast<int>(l));
  return out;
}

/// Gives `loops` from the i-th on each some of the axes from the a-th on, and calls `take` with each way.
void deal(const std::vector<int>& loops, std::size_t i, const Axes& axes, int a, Strategy& s,
          const std::function<void(const Strategy&)>& take) {
  if (i == loops.size()) return take(s);
  for (int n = 0; a + n <= axes.size(); ++n) {
    s.loops[at(loops[i])] = axes.prefix(a + n).suffix(n);
    deal(loops, i + 1, axes, a + n, s, take);
  }
  s.loops[at(loops[i])] = {};
}

}  // namespace

std::vector<Strategy> described_candidates(const Problem& problem, const FixedChoices& fixed, NodeId id,
                                           const Rule& rule, const SearchOptions& options) {
  if (const auto& own = fixed.strategies[at(id.index)]) return {*own};
  const Mesh& mesh = fixed.meshes[0];
  const Halves axes = halves_of(mesh);
  std::vector<Strategy> out{whole(rule)};
  const auto offer = [&](const Strategy& s) {
    if (!used_axes(s).empty() && !violation_if_even(rule, s, mesh) && cuts_windows_evenly(rule, s, mesh) &&
        space::is_allowed(problem, fixed, id, rule, s, options))
      out.push_back(s);
  };
  const std::vector<int> loops = open_loops(rule);
  Strategy s = whole(rule);
  deal(loops, 0, axes.twos, 0, s, [&](const Strategy& of_twos) {
    if (axes.others.empty()) return offer(of_twos);
    for (int l : loops) {
      Strategy with_others = of_twos;
      with_others.loops[at(l)] = axes.others.with(of_twos.loops[at(l)]);
      offer(with_others);
    }
  });
  return out;
}

}  // namespace shardwright::dynamic
