#include "shardwright/simulate/work_json.h"

#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

int stride_of(const std::vector<int>& group) {
  const int stride = group.size() > 1 ? group[1] - group[0] : 1;
  for (std::size_t i = 1; i < group.size(); ++i)
    if (group[i] - group[i - 1] != stride) return 0;
  return stride;
}

std::int64_t held_bytes(const Graph& graph, const Node& node) {
  const bool is_after = node.op->step == StepKind::all_gather || node.op->step == StepKind::permute ||
                        node.op->step == StepKind::halo;
  return graph.value(is_after ? node.results.front() : node.operands.front()).type.bytes();
}

}  // namespace

Json work_json(const Work& work) {
  if (work.flops == 0 && work.bytes == 0) return {};
  return {{"kind", name_of(work.kind)},  {"type", name_of(work.dtype)},   {"flops", work.flops},
          {"bytes", work.bytes},         {"is_ordered", work.is_ordered}, {"cached_bytes", work.cached},
          {"row_bytes", work.row_bytes}, {"is_batched", work.is_batched}};
}

Json work_json(const Graph& graph, const PreparedTransfer& collective) {
  Json bytes = Json::array();
  for (int n = 0; n < static_cast<int>(collective.parts.size()); ++n)
    bytes.push_back(held_bytes(graph, graph.node({collective.node.index + n})));
  const std::vector<int>& group = collective.group();
  return {{"collective", name_of(collective.kind())},
          {"ranks", group.size()},
          {"stride", stride_of(group)},
          {"bytes", std::move(bytes)}};
}

}  // namespace shardwright
