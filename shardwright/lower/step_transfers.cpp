#include "shardwright/lower/step_transfers.h"

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"

namespace shardwright {
TransfersOfRanks::TransfersOfRanks(const Pipeline& pipeline, Detail detail)
    : pipeline_(pipeline),
      detail_(detail),
      steps_(pipeline.stages.size()),
      crossings_(pipeline.crossings.size()) {}

TransfersOfRanks::Shared TransfersOfRanks::of_step(int stage, const Node& node, int local_rank) {
  const Graph& graph = pipeline_.stage(stage).graph;
  const Shape shape = graph.value(node.results.front()).global_type().shape;
  const int first_rank = pipeline_.first_rank(stage);
  const Step step = step_of(graph, node);
  auto& ranks = steps_[at(stage)][{step.kind, step.reduction, step.axes, step.dim_from, step.dim_to,
                                   step.from, step.to, shape, step.routing}];
  Shared& known = ranks[local_rank];
  if (!known) {
    const bool is_outline = detail_ == Detail::outline && is_collective(step.kind);
    Transfer own = (is_outline ? outline_of : transfer_of)(step, graph.meshes, shape, local_rank);
    if (is_outline && own.group.size() == 1) own = transfer_of(step, graph.meshes, shape, local_rank);
    known = std::make_shared<const Transfer>(shifted(std::move(own), first_rank));
  }
  return known;
}

PreparedTransfer TransfersOfRanks::of_steps(int stage, const Fusion& fusion, int rank) {
  const Program& program = pipeline_.stage(stage);
  const int first_rank = pipeline_.first_rank(stage);
  const Node& first = program.graph.node(fusion.begin);
  PreparedTransfer out{.from_stage = stage,
                       .to_stage = stage,
                       .node = fusion.begin,
                       .copies = first.phase == Phase::update ? 1 : program.lanes.count(),
                       .over = first.attributes.text("over", ""),
                       .parts = {}};
  for (NodeId id = fusion.begin; id < fusion.end; id = {id.index + 1}) {
    const Node& node = program.graph.node(id);
    out.parts.push_back({.from = node.operands[0],
                         .to = node.results[0],
                         .ids = node.operands.size() > 1 ? node.operands[1] : ValueId(),
                         .dtype = program.graph.value(node.operands[0]).type.dtype,
                         .transfer = of_step(stage, node, rank - first_rank)});
  }
  return out;
}

std::optional<PreparedTransfer> TransfersOfRanks::of_crossing(int crossing, int rank) {
  const PlacedCrossing& c = pipeline_.crossings[at(crossing)];
  const bool gives = pipeline_.has(c.from, rank), takes = pipeline_.has(c.to, rank);
  if (!gives && !takes) return std::nullopt;
  std::optional<TransfersBetween>& all = crossings_[at(crossing)];
  if (!all) all = pipeline_.transfers_of(c);
  auto transfer = std::make_shared<Transfer>(all->of(rank));
  transfer->channel = c.channel;
  Part part{.from = gives ? c.sent : ValueId(),
            .to = takes ? c.received : ValueId(),
            .ids = {},
            .dtype = pipeline_.stage(c.to).graph.value(c.received).type.dtype,
            .transfer = std::move(transfer)};
  if (part.transfer->group.size() < 2 && part.transfer->pieces.empty()) return std::nullopt;
  PreparedTransfer out{
      .from_stage = c.from, .to_stage = c.to, .node = {}, .crossing = crossing, .over = {}, .parts = {}};
  out.copies = c.time == CrossingTime::micro_batch ? pipeline_.micro_batches() : 1;
  out.parts.push_back(std::move(part));
  return out;
}

namespace {

/// Every element of the result is taken from where it is put.
bool keeps_all(const Transfer& t) {
  std::int64_t kept = 0;
  for (const Piece& piece : t.pieces) {
    if (piece.from_offset != piece.to_offset) return false;
    kept += element_count(piece.extent);
  }
  return kept == element_count(t.to_shape);
}

}  // namespace

bool is_there(const PreparedTransfer& step, const Program& program) {
  const Part& part = step.parts.front();
  const Transfer& t = *part.transfer;
  return !step.moves_between_ranks() && program.offset(part.from) == program.offset(part.to) &&
         t.from_shape == t.to_shape && !t.clears && keeps_all(t);
}

}  // namespace shardwright
