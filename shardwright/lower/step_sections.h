// What a stage does for a micro-batch on one rank: instructions in the order of its nodes, by section (lower/step.cpp).
#pragma once

#include <vector>

#include "shardwright/lower/step.h"
#include "shardwright/lower/step_transfers.h"

namespace shardwright {

/// One end of a crossing.
struct End {
  int transfer = 0;
  int stage = 0;
  bool is_send = false;
  bool has_both = false;  // ends on this rank
  CrossingTime time = CrossingTime::micro_batch;
  Phase received = Phase::forward;
  ValueId value;                    // of `stage`
  Phase made = Phase::forward;      // sends
  std::vector<int> under_way = {};  // sends of this step: their micro-batches
};

/// In which round a rank runs each node of the updates of its stages, by stage and node. What an update receives of
/// another one was made in an earlier round, so ranks that run the updates of their stages round by round never wait for
/// one another in a circle.
std::vector<std::vector<int>> update_rounds(const Pipeline& pipeline);

class SectionsOfStage {
 public:
  /// Adds the transfers of the stage to `out`.
  SectionsOfStage(const Pipeline& pipeline, int stage, int rank, const std::vector<End>& ends,
                  TransfersOfRanks& transfers, RankStep& out);

  /// The instructions of a phase, with the last micro-batch or with the others.
  std::vector<Instruction> of(Phase phase, bool is_last) const;
  bool differs_in_last(Phase phase) const;
  /// Those of the update in one of its rounds.
  std::vector<Instruction> of_round(int round, const std::vector<int>& rounds) const;

 private:
  struct Action {
    Act act = Act::compute;
    int what = 0;
    NodeId node;                   // in front of which it stands, or which it is
    Phase place = Phase::forward;  // in which it runs
    bool only_last = false;        // with the last micro-batch
    bool crosses = false;
  };

  Action& add(Act act, int what, NodeId node);
  void prepare(const Fusion& fusion, int rank);
  void prepare_receive(const Node& node, NodeId id);
  void prepare_sends(const Fusion& fusion);
  void prepare_steps(const Fusion& fusion, int rank);
  NodeId start_of(const Action& finish) const;
  void start_early();

  const Program& program_;
  const Graph& graph_;
  int stage_;
  const std::vector<End>& ends_;
  TransfersOfRanks& transfers_;
  RankStep& out_;
  std::vector<Action> actions_;
};

}  // namespace shardwright
