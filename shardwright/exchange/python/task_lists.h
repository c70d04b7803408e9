// The lists of ranks (lower/step.h) as those of groups of ranks that run the same stages: what one of them does not take
// part in stands in the list all the same, and is nothing to it. So one file serves all ranks.
#pragma once

#include <map>
#include <vector>

#include "shardwright/lower/step.h"

namespace shardwright::python {

/// An instruction in words that all ranks share.
struct Item {
  Act act = Act::compute;
  int stage = 0;
  int what = 0;              // node, phase, or crossing
  bool is_crossing = false;  // of a start or finish
  int micro_batch = 0;       // outside of sections
  bool is_last = false;      // in a section: of the last micro-batch alone. Of a run: it is that
};

/// By stage and phase. Updates are by the first of the stages on the same ranks.
using Sections = std::map<std::pair<int, Phase>, std::vector<Item>>;

struct TaskLists {
  Sections sections;
  std::vector<std::vector<Item>> tasks;  // by group; of a run `what` is the phase
};

TaskLists task_lists(const Pipeline& pipeline, const std::vector<RankStep>& steps);

}  // namespace shardwright::python
