#include "shardwright/frontend/recompute.h"

#include <algorithm>

#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

/// Operators from node `first` on.
std::vector<std::string> operators_from(const Graph& graph, std::size_t first) {
  std::vector<std::string> out;
  for (std::size_t n = first; n < graph.nodes.size(); ++n)
    if (graph.nodes[n].op->kind == OpKind::compute)
      out.push_back(graph.value(graph.nodes[n].results.front()).name);
  return out;
}

/// Whole parts that all names begin with: `layers.0` of layers.0.norm1 and layers.0.add1.
std::string common_module(const std::vector<std::string>& names) {
  std::string common;
  for (const std::string& name : names) {
    if (name.find('.') == name.npos) continue;  // has a number, or stands alone
    if (common.empty()) common = name;
    const auto end = std::mismatch(common.begin(), common.end(), name.begin(), name.end()).first;
    common.erase(end, common.end());
    const std::size_t dot =
        common.size() < name.size() && name[common.size()] == '.' ? common.size() : common.rfind('.');
    common.erase(dot == common.npos ? 0 : dot);
  }
  return common.empty() ? "recomputed" : common;
}

/// `name`, or with a number where another region has it.
std::string free_name(const std::string& name, const std::vector<RecomputedModule>& modules) {
  const auto is_taken = [&](const std::string& text) {
    return std::any_of(modules.begin(), modules.end(), [&](const auto& m) { return m.module == text; });
  };
  std::string out = name;
  for (int n = 2; is_taken(out); ++n) out = fmt::format("{}_{}", name, n);
  return out;
}

}  // namespace

std::vector<Traced> call_recomputed(const TracedFunction& function, const std::vector<Traced>& inputs,
                                    const RecomputedOptions& options) {
  if (inputs.empty()) throw error("recompute: a function needs a traced value");
  Trace& trace = *inputs.front().trace;
  std::vector<RecomputedModule>& modules = trace.constraints().recomputed;
  const std::size_t first = trace.graph().nodes.size(), regions = modules.size();
  std::vector<Traced> results = function(inputs);
  std::vector<std::string> nodes = operators_from(trace.graph(), first);
  const std::string name = options.name.empty() ? common_module(nodes) : options.name;
  if (nodes.empty()) throw error("recompute of '{}': there is no operator inside", name);
  if (modules.size() > regions)
    throw error(
        "recompute of '{}': '{}' lies inside and would be computed again twice; say it once, of the outer or "
        "of the inner module",
        name, modules.back().module);
  modules.push_back({.module = free_name(name, modules),
                     .nodes = std::move(nodes),
                     .options = {.communication = options.communication, .shard_kept = options.shard_kept}});
  return results;
}

}  // namespace shardwright
