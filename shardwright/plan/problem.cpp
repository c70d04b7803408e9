#include "shardwright/plan/problem.h"

#include <algorithm>
#include <array>

#include "shardwright/base/text.h"

namespace shardwright {

std::string_view name_of(SearchStatus status) {
  constexpr std::array<std::string_view, 4> names{"optimal", "feasible", "infeasible", "timeout"};
  return names[static_cast<std::size_t>(status)];
}

bool heeds(const Searcher& search, Setting setting) {
  return std::find(search.ignores.begin(), search.ignores.end(), setting) == search.ignores.end();
}

bool is_all_or_nothing(const Strategy& strategy, const Mesh& mesh) {
  const Axes used = used_axes(strategy);
  return used.empty() || mesh.count(used) == mesh.size();
}

const Searcher& find_search(std::string_view name) {
  std::vector<std::string> known;
  for (const Searcher& s : all_search()) {
    if (s.name == name || std::find(s.aliases.begin(), s.aliases.end(), name) != s.aliases.end()) return s;
    known.push_back(s.name);
  }
  throw error("search '{}' does not exist; there are {}", name, join(known, ", "));
}

}  // namespace shardwright
