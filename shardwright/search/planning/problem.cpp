#include "shardwright/search/planning/problem.h"

#include <algorithm>

#include "shardwright/base/text.h"

namespace shardwright {

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

Plan known_plan(const std::string& path) {
  Plan plan = load_plan(path);
  try {
    if (!plan.search.empty()) plan.search = find_search(plan.search).name;
  } catch (const Error& e) {
    throw with_context(e, path);
  }
  return plan;
}

}  // namespace shardwright
