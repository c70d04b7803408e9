// What MindSpore 2.10's own searches answer (tests/reference/mindspore210): networks as graph files, and per network and
// number of devices the strategies that its dynamic programming has chosen and the costs that its double recursive search
// has logged.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

struct MindSporeAnswer {
  using Parts = std::vector<std::vector<std::int64_t>>;  // of each dim of each operand

  std::string network;
  int devices = 1;
  std::optional<std::string> dynamic;  // as annotations
  /// Of the double recursive search: strategies of products, and of each product on each axis the costs to cut I, J, K and
  /// nothing.
  std::map<std::string, Parts> recursive_products;
  std::vector<std::vector<double>> recursive_rows;

  Graph graph() const;
};

std::vector<MindSporeAnswer> mindspore_answers();

}  // namespace shardwright
