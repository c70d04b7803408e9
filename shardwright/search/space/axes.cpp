#include "shardwright/search/space/axes.h"

#include <algorithm>

#include "shardwright/base/error.h"
#include "shardwright/base/index.h"

namespace shardwright::space {
namespace {

/// How many devices each link level joins blocks of, slowest first.
std::vector<int> levels_of(const Cluster& cluster) {
  std::vector<int> out;
  for (std::size_t l = cluster.links.size(); l-- > 0;) {
    const int inside = l == 0 ? 1 : cluster.links[l - 1].devices;
    if (cluster.links[l].devices > inside) out.push_back(cluster.links[l].devices / inside);
  }
  return out;
}

/// The ways to cut one level in two; of many the most even ones.
std::vector<std::pair<int, int>> halves_of(int n, std::size_t most) {
  std::vector<std::pair<int, int>> out;
  for (int a = 2; a <= n / 2; ++a)
    if (n % a == 0) out.emplace_back(a, n / a);
  std::stable_sort(out.begin(), out.end(), [](const auto& x, const auto& y) {
    return std::max(x.first, x.second) < std::max(y.first, y.second);
  });
  out.resize(std::min(out.size(), most));
  return out;
}

/// All in prime parts; where those are many, small neighbours of one level together.
std::vector<int> finest_of(const std::vector<int>& levels) {
  constexpr std::size_t most_axes = 6;
  std::vector<std::vector<int>> parts;
  std::size_t count = 0;
  for (int n : levels) count += parts.emplace_back(primes_of(n)).size();
  while (count > most_axes) {
    std::vector<int>* longest = &parts.front();
    for (auto& some : parts)
      if (some.size() > longest->size()) longest = &some;
    if (longest->size() < 2) break;
    const auto least = std::min_element(longest->begin(), longest->end() - 1);
    *least *= *(least + 1);
    longest->erase(least + 1);
    --count;
  }
  std::vector<int> out;
  for (const auto& some : parts) out.insert(out.end(), some.begin(), some.end());
  return out;
}

}  // namespace

bool names_axes(const FixedChoices& c) {
  return c.meshes.size() > 1 ||
         std::any_of(c.strategies.begin(), c.strategies.end(),
                     [](const auto& s) { return s && !used_axes(*s).empty(); }) ||
         std::any_of(c.layouts.begin(), c.layouts.end(),
                     [](const auto& l) { return !l.second.is_replicated(); });
}

Mesh link_mesh(const Cluster& cluster) {
  Mesh out;
  for (int n : levels_of(cluster)) out.axes.push_back({"", n});
  return out;
}

std::vector<int> primes_of(int n) {
  std::vector<int> out;
  for (int p = 2; p * p <= n; ++p)
    for (; n % p == 0; n /= p) out.push_back(p);
  if (n > 1) out.push_back(n);
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::vector<int>> ladders_of(const Cluster& cluster, std::size_t ways) {
  const std::vector<int> levels = levels_of(cluster);
  std::vector<std::vector<int>> out{levels};
  for (std::size_t l = levels.size(); l-- > 0;)
    for (const auto& [outer, inner] : halves_of(levels[l], l + 1 == levels.size() ? ways : ways / 2)) {
      std::vector<int> ladder = levels;
      ladder[l] = outer;
      ladder.insert(ladder.begin() + static_cast<std::ptrdiff_t>(l) + 1, inner);
      out.push_back(std::move(ladder));
    }
  const std::vector<int> finest = finest_of(levels);
  if (std::find(out.begin(), out.end(), finest) == out.end()) out.push_back(finest);
  return out;
}

FixedChoices on_finer_mesh(const FixedChoices& fixed, const Mesh& mesh) {
  std::vector<std::vector<int>> parts;
  std::size_t count = 0;
  for (const Axis& axis : mesh.axes) count += parts.emplace_back(primes_of(axis.size)).size();
  for (std::size_t a = 0; a < parts.size() && count > at(Axes::max_size); ++a) {
    count -= parts[a].size() - 1;
    parts[a] = {mesh.axes[a].size};
  }
  FixedChoices out = fixed;
  std::vector<Axes> axes_of;
  out.meshes[0] = {};
  for (std::size_t a = 0; a < parts.size(); ++a) {
    Axes& mine = axes_of.emplace_back();
    for (std::size_t i = 0; i < parts[a].size(); ++i) {
      mine.push_back(out.meshes[0].axis_count());
      out.meshes[0].axes.push_back({fmt::format("{}/{}", mesh.axes[a].name, i), parts[a][i]});
    }
  }
  for (auto& strategy : out.strategies) {
    if (!strategy || strategy->mesh != 0) continue;
    for (Axes& axes : strategy->loops) axes = translate(axes, axes_of);
    for (Axes& axes : strategy->linear) axes = translate(axes, axes_of).sorted();
  }
  for (auto& [value, layout] : out.layouts)
    if (layout.mesh == 0) layout = translate(layout, axes_of, 0);
  return out;
}

std::vector<FixedChoices> on_ladders(const FixedChoices& asked, const Cluster& cluster, std::size_t ways) {
  std::vector<FixedChoices> out;
  if (names_axes(asked)) {
    FixedChoices finest = on_finer_mesh(asked, asked.meshes[0]);
    if (finest.meshes[0].axis_count() > asked.meshes[0].axis_count()) out.push_back(asked);
    out.push_back(std::move(finest));
    return out;
  }
  for (const std::vector<int>& sizes : ladders_of(cluster, ways)) {
    FixedChoices& on_ladder = out.emplace_back(asked);
    on_ladder.meshes[0] = {};
    for (std::size_t a = 0; a < sizes.size(); ++a)
      on_ladder.meshes[0].axes.push_back({fmt::format("/{}", a), sizes[a]});
  }
  return out;
}

JoinedMesh joined_axes(const Mesh& mesh, std::span<const Axes> lists) {
  const auto whole_name = [&](int a) {
    return mesh.axes[at(a)].name.substr(0, mesh.axes[at(a)].name.find('/'));
  };
  std::vector<bool> joins(mesh.axes.size(), true);  // with the axis before it
  for (int a = 1; a < mesh.axis_count(); ++a) joins[at(a)] = whole_name(a) == whole_name(a - 1);
  for (const Axes& axes : lists)
    for (int i = 0; i < axes.size(); ++i) {
      const int a = axes[i];
      if (i == 0 || axes[i - 1] != a - 1) joins[at(a)] = false;
      if (a + 1 < mesh.axis_count() && (i + 1 == axes.size() || axes[i + 1] != a + 1))
        joins[at(a + 1)] = false;
    }
  JoinedMesh out;
  std::map<std::string, int> pieces;  // of each axis that was cut into parts
  for (int a = 0; a < mesh.axis_count(); ++a) {
    if (a > 0 && joins[at(a)]) {
      out.mesh.axes.back().size *= mesh.size_of(a);
    } else {
      out.mesh.axes.push_back(mesh.axes[at(a)]);
      ++pieces[whole_name(a)];
    }
    out.axis_of.push_back(out.mesh.axis_count() - 1);
  }
  for (Axis& axis : out.mesh.axes) {
    const std::string name = axis.name.substr(0, axis.name.find('/'));
    axis.name =
        pieces[name] == 1 ? name : name + axis.name.substr(std::min(axis.name.size(), name.size() + 1));
  }
  return out;
}

Axes joined(const Axes& axes, const JoinedMesh& mesh) {
  Axes out;
  for (int a : axes)
    if (const int b = mesh.axis_of[at(a)]; out.empty() || out[out.size() - 1] != b) out.push_back(b);
  return out;
}

}  // namespace shardwright::space
