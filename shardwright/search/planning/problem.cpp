#include "shardwright/search/planning/problem.h"

#include <algorithm>

#include "shardwright/base/text.h"
#include "shardwright/base/unknown.h"

namespace shardwright {

bool heeds(const Searcher& search, Setting setting) { return std::ranges::count(search.heeds, setting) > 0; }

bool is_all_or_nothing(const Strategy& strategy, const Mesh& mesh) {
  const Axes used = used_axes(strategy);
  return used.empty() || mesh.count(used) == mesh.size();
}

std::vector<const Searcher*> searches_by_preference() {
  std::vector<const Searcher*> out;
  for (const Searcher& search : all_search()) out.push_back(&search);
  std::ranges::stable_sort(out, {}, &Searcher::preference);
  return out;
}

namespace {

const Searcher& first_search(bool (*is_it)(const Searcher&)) {
  const std::vector<const Searcher*> all = searches_by_preference();
  const auto found = std::ranges::find_if(all, [&](const Searcher* s) { return is_it(*s); });
  require(found != all.end(), "there is no search of a kind that planning needs");
  return **found;
}

}  // namespace

const Searcher& usual_search() {
  return first_search([](const Searcher& s) { return s.plan != nullptr; });
}
const Searcher& splitting_search(std::string_view name) {
  return !name.empty() ? find_search(name)
                       : first_search([](const Searcher& s) { return s.plan == nullptr; });
}
const Searcher& spreading_search() {
  return first_search([](const Searcher& s) { return s.spreads; });
}

const Searcher& find_search(std::string_view name) {
  std::vector<std::string> known;
  for (const Searcher& s : all_search()) {
    if (s.name == name || std::find(s.aliases.begin(), s.aliases.end(), name) != s.aliases.end()) return s;
    known.push_back(s.name);
  }
  throw unknown("search", name, known);
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
