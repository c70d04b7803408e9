// What MindSpore 2.10's own searches answer (tests/reference/mindspore210): networks as graph files, and per network and
// number of devices the strategies that its dynamic programming has chosen and the costs that its double recursive search
// has logged.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

struct MindSporeAnswer {
  std::string network;
  int devices = 1;
  std::optional<std::string> dynamic;  // as annotations
  std::vector<std::vector<double>>
      recursive_rows;  // of each product on each axis: costs to cut I, J, K and nothing

  Graph graph() const;
};

std::vector<MindSporeAnswer> mindspore_answers();

}  // namespace shardwright
