#include "shardwright/frontend/shard.h"

#include <algorithm>

#include "shardwright/base/text.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

void check_rank(const std::string& region, const std::string& what, const Shape& shape, const Split& split) {
  const std::size_t said = split.device_matrix ? split.tensor.axes.size() : split.tensor.parts.size();
  if (split.is_said() && said != shape.size())
    throw error("{}: {} has {} dims but its layout {} has {}", region, what, shape.size(),
                to_text(split.tensor), said);
}

enum class Edge { in, out };

/// The values in the layouts that are said of them, by nodes called `REGION.in0`, `REGION.in1`, ...
std::vector<Traced> at_edge(Edge edge, const std::string& region, std::vector<Traced> values,
                            const std::vector<Split>& splits) {
  const std::string key = edge == Edge::in ? "in" : "out", what = edge == Edge::in ? "input" : "result";
  if (!splits.empty() && splits.size() != values.size())
    throw error("{}: has {} {}{} but .{} has {}; {{}} stands for one that is free", region, values.size(),
                what, values.size() == 1 ? "" : "s", key, splits.size());
  for (std::size_t i = 0; i < splits.size(); ++i) {
    check_rank(region, fmt::format("{} {}", what, i), values[i].type().shape, splits[i]);
    if (splits[i].is_said())
      values[i] = reshard(values[i], splits[i], fmt::format("{}.{}{}", region, key, i));
  }
  return values;
}

/// Parameters that nodes from `first` on read.
std::vector<ValueId> parameters_used(const Graph& graph, std::size_t first) {
  std::vector<ValueId> out;
  for (std::size_t n = first; n < graph.nodes.size(); ++n)
    for (ValueId v : graph.nodes[n].operands)
      if (graph.node(graph.value(v).producer).op->kind == OpKind::parameter &&
          std::find(out.begin(), out.end(), v) == out.end())
        out.push_back(v);
  return out;
}

/// The parameter called `name`, or whose name ends with `.name`.
ValueId parameter_called(const std::string& name, const std::vector<ValueId>& used, const Graph& graph,
                         const std::string& region) {
  std::vector<ValueId> found;
  std::vector<std::string> known, ends;
  for (ValueId v : used) {
    const std::string& full = graph.value(v).name;
    if (full == name) return v;
    if (full.ends_with("." + name)) {
      found.push_back(v);
      ends.push_back(full);
    }
    known.push_back(full);
    if (const auto dot = full.find('.'); dot != std::string::npos) known.push_back(full.substr(dot + 1));
  }
  if (found.size() > 1)
    throw error("{}: parameter '{}' can be {}; write more of the name", region, name, join(ends, " or "));
  if (found.empty()) throw error("{}: it uses no parameter '{}'{}", region, name, near_names(name, known));
  return found.front();
}

void annotate_parameter(const std::string& region, ValueId v, const Split& split, Trace& trace) {
  const Value& parameter = trace.graph().value(v);
  check_rank(region, "parameter " + parameter.name, parameter.type.shape, split);
  const Annotation annotation = annotation_of(region, {}, {split});
  const auto [it, is_new] = trace.constraints().tensors.emplace(parameter.name, annotation);
  if (!is_new && it->second != annotation)
    throw error("{}: parameter {} should lie {} but it lies {} by another shard; it has one layout", region,
                parameter.name, to_text(split.tensor), to_text(it->second.out.front()));
}

}  // namespace

Traced reshard(Traced x, const Split& layout, std::string_view name) {
  const std::string wanted =
      name.empty() ? x.trace->graph().value(x.id).name + ".reshard" : std::string(name);
  Operator node("reshard", wanted);
  if (!layout.is_said() && !x.type().shape.empty()) throw error("{}: reshard needs a layout", wanted);
  check_rank(wanted, "the value", x.type().shape, layout);
  return node.shard({layout})(x);
}

std::vector<Traced> call_sharded(const TracedFunction& function, const std::vector<Traced>& inputs,
                                 const ShardOptions& options) {
  if (inputs.empty()) throw error("{}: a sharded function needs a traced value", options.name);
  Trace& trace = *inputs.front().trace;
  const std::size_t first = trace.graph().nodes.size();
  const std::vector<Traced> results = function(at_edge(Edge::in, options.name, inputs, options.in));
  const std::vector<ValueId> used = parameters_used(trace.graph(), first);
  for (const auto& [name, split] : options.parameters)
    if (split.is_said())
      annotate_parameter(options.name, parameter_called(name, used, trace.graph(), options.name), split,
                         trace);
  return at_edge(Edge::out, options.name, results, options.out);
}

}  // namespace shardwright
