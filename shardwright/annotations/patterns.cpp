#include "shardwright/annotations/patterns.h"

#include <algorithm>
#include <set>

#include "shardwright/base/name_pattern.h"
#include "shardwright/base/text.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

std::ptrdiff_t stars(std::string_view pattern) { return std::count(pattern.begin(), pattern.end(), '*'); }

/// Names that can be annotated, in graph order.
std::vector<std::string> names_of(const Graph& graph) {
  std::vector<std::string> out;
  for (const Node& node : graph.nodes)
    if (node.phase == Phase::forward &&
        (node.op->kind == OpKind::compute || node.op->kind == OpKind::parameter))
      out.push_back(graph.value(node.results.front()).name);
  return out;
}

}  // namespace

std::map<std::string, std::string> said_by(const std::vector<std::string>& keys,
                                           const std::vector<std::string>& names, std::string_view what,
                                           std::string_view noun, bool all_count) {
  std::set<std::string> exact, used;
  std::vector<std::string> patterns;
  for (const std::string& key : keys) is_pattern(key) ? patterns.push_back(key) : void(exact.insert(key));
  std::map<std::string, std::string> out;
  for (const std::string& name : names) {
    const std::string *most = nullptr, *as_much = nullptr;
    for (const std::string& key : patterns) {
      if (!matches(key, name)) continue;
      used.insert(key);
      if (most && stars(key) > stars(*most)) continue;
      as_much = most && stars(key) == stars(*most) ? most : nullptr;
      most = &key;
    }
    if (exact.contains(name)) {
      used.insert(name);
      out.emplace(name, name);
    } else if (as_much) {
      throw error("{} '{}': '{}' fits '{}' as closely; write the whole name, or use fewer stars", what,
                  *as_much, *most, name);
    } else if (most) {
      out.emplace(name, *most);
    }
  }
  for (const std::string& key : keys)
    if (all_count && !used.contains(key))
      throw error("{} '{}': the network has no {} of such a name{}", what, key, noun, near_names(key, names));
  return out;
}

Constraints without_patterns(Constraints said, const Graph& graph) {
  const std::map<std::string, Annotation> tensors = std::exchange(said.tensors, {});
  bool has_patterns = false;
  for (const auto& [name, annotation] : tensors)
    is_pattern(name) ? void(has_patterns = true) : void(said.tensors.emplace(name, annotation));
  if (!has_patterns) return said;
  // Of names that do not exist others tell.
  const std::vector<std::string> names = names_of(graph);
  const std::set<std::string> known(names.begin(), names.end());
  std::vector<std::string> keys;
  for (const auto& [key, annotation] : tensors)
    if (is_pattern(key) || known.contains(key)) keys.push_back(key);
  for (const auto& [name, key] : said_by(keys, names, "annotation of", "operator or parameter", true))
    said.tensors.try_emplace(name, tensors.at(key));
  return said;
}

}  // namespace shardwright
