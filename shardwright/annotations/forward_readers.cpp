#include "shardwright/annotations/forward_readers.h"

#include "shardwright/base/index.h"
#include "shardwright/graph/forward_operator.h"

namespace shardwright {

ForwardReaders::ForwardReaders(const Graph& graph) : readers_(graph.values.size()) {
  for (NodeId id : graph.node_ids())
    if (is_forward_operator(graph.node(id)))
      for (std::size_t i = 0; i < graph.node(id).operands.size(); ++i)
        readers_[at(graph.node(id).operands[i].index)].push_back({id, i});
}

std::optional<Layout> ForwardReaders::wanted(ValueId v, const Calls& calls,
                                             const std::vector<std::optional<Strategy>>& strategies) const {
  std::optional<Layout> out;
  for (const auto& [reader, operand] : readers_[at(v.index)]) {
    Layout wants = layouts_of(calls.rule(reader), *strategies[at(reader.index)]).operands[operand];
    if (out && out->dims != wants.dims) return std::nullopt;
    out = std::move(wants);
  }
  return out;
}

}  // namespace shardwright
