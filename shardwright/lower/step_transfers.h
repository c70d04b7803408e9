// The transfers of ranks: of step nodes and of crossings, as `lower/step` lists them.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "shardwright/lower/step.h"

namespace shardwright {

/// Transfers that the ranks of a pipeline take part in, each worked out once: networks repeat their layers, and ranks
/// share their groups.
class TransfersOfRanks {
 public:
  /// Without pieces of what moves between ranks of a stage: a step costs as many as its group has members.
  enum class Detail { pieces, outline };
  explicit TransfersOfRanks(const Pipeline& pipeline, Detail detail = Detail::pieces);

  /// Of the steps that are fused.
  PreparedTransfer of_steps(int stage, const Fusion& fusion, int rank);
  /// Of a crossing; nothing if the rank neither gives nor takes.
  std::optional<PreparedTransfer> of_crossing(int crossing, int rank);

 private:
  using Shared = std::shared_ptr<const Transfer>;
  using StepKey =
      std::tuple<StepKind, Reduction, Axes, int, int, Layout, Layout, Shape, std::optional<Routing>>;

  Shared of_step(int stage, const Node& node, int local_rank);

  const Pipeline& pipeline_;
  Detail detail_;
  std::vector<std::map<StepKey, std::map<int, Shared>>> steps_;  // by stage; of each rank
  std::vector<std::optional<TransfersBetween>> crossings_;       // worked out when one is asked for
};

/// The operand of a step is its result on this rank, with nothing to do.
bool is_there(const PreparedTransfer& step, const Program& program);

}  // namespace shardwright
