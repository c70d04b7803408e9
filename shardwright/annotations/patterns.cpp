#include "shardwright/annotations/patterns.h"

#include <algorithm>

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

Annotations without_patterns(const Annotations& annotations, const Graph& graph) {
  Annotations out = annotations;
  std::erase_if(out.nodes, [](const auto& entry) { return is_pattern(entry.first); });
  if (out.nodes.size() == annotations.nodes.size()) return out;
  const std::vector<std::string> names = names_of(graph);
  std::map<std::string, std::string> said_by;  // name -> pattern
  for (const auto& [pattern, annotation] : annotations.nodes) {
    if (!is_pattern(pattern)) continue;
    bool is_of_use = false;
    for (const std::string& name : names) {
      if (!matches(pattern, name)) continue;
      is_of_use = true;
      if (annotations.nodes.contains(name)) continue;
      const auto [it, is_new] = said_by.emplace(name, pattern);
      if (!is_new && stars(it->second) == stars(pattern))
        throw error("annotation of '{}': '{}' says as much of '{}'; name it itself, or use fewer stars",
                    it->second, pattern, name);
      if (!is_new && stars(it->second) < stars(pattern)) continue;
      it->second = pattern;
      out.nodes[name] = annotation;
    }
    if (!is_of_use)
      throw error("annotation of '{}': the network has no operator or parameter of such a name{}", pattern,
                  near_names(pattern, names));
  }
  return out;
}

}  // namespace shardwright
