#include "shardwright/runtime/routed_counts.h"

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/graph/forward_operator.h"

namespace shardwright {
namespace {

bool shares_experts(const Graph& graph, const Node& node) {
  if (!is_forward_operator(node) || !node.op->routed || !node.strategy) return false;
  return !node.strategy->loops[at(rule_of(graph, node).loop(node.op->routed->experts))].empty();
}

std::int64_t ids_within(const TensorView& ids, const LoopBox::Part& own) {
  const auto count = [&]<class T>(std::span<T> of) -> std::int64_t {
    return std::ranges::count_if(of, [&](T e) { return e >= own.offset && e < own.offset + own.extent; });
  };
  return ids.dtype == DType::i32 ? count(ids.as<std::int32_t>()) : count(ids.as<std::int64_t>());
}

}  // namespace

RoutedCounts::RoutedCounts(const Pipeline& pipeline) : pipeline_(pipeline) {
  for (int s = 0; s < pipeline.stage_count(); ++s) {
    const Program& program = pipeline.stage(s);
    for (const NodeId id : program.graph.node_ids()) {
      if (!shares_experts(program.graph, program.graph.node(id))) continue;
      first_.emplace(std::pair(s, id), ranks_.size());
      ranks_.insert(ranks_.end(), at(program.micro_batches), program.rank_count());
    }
  }
  counts_.resize(ranks_.size());
  next_.resize(ranks_.size());
}

PreparedKernel RoutedCounts::counted(PreparedKernel kernel, int stage, NodeId node, const LocalCall& call) {
  const auto first = first_.find({stage, node});
  if (first == first_.end()) return kernel;
  const Program& program = pipeline_.stage(stage);
  const RoutedFacet& routed = *program.graph.node(node).op->routed;
  const std::span counts = std::span(counts_).subspan(first->second, at(program.micro_batches));
  return PreparedKernel([kernel = std::move(kernel), &ids = call.operands[routed.ids],
                         own = call.call().loop(routed.experts), counts, &next = next_[first->second]] {
    kernel();
    counts[next++ % counts.size()] = ids_within(ids, own);  // one micro-batch after the other
  });
}

std::optional<double> imbalance_of(std::span<const std::int64_t> most, std::span<const std::int64_t> all,
                                   std::span<const std::int64_t> ranks) {
  double busiest = 0, mean = 0;
  for (std::size_t i = 0; i < most.size(); ++i) {
    busiest += static_cast<double>(most[i]);
    mean += static_cast<double>(all[i]) / static_cast<double>(ranks[i]);
  }
  if (mean == 0) return std::nullopt;
  return busiest / mean;
}

}  // namespace shardwright
