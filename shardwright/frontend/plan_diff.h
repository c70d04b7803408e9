// What two plans decide otherwise, for people and programs: a row each, operators that differ alike in one.
//
// Who found a plan, when and why is no difference, nor are names of axes of size 1 or of networks that are the same.
#pragma once

#include <string>
#include <vector>

#include "shardwright/plan/plan.h"

namespace shardwright {

struct PlanDifference {
  std::string
      what;  // a word of constraints or of plan files, a stage, operators or values: `layers.0-3.ffn.up.matmul`
  std::string a, b;  // `-`: it has none
  bool operator==(const PlanDifference&) const = default;
};

/// None exactly if both plans are of one network on one cluster, and decide alike.
std::vector<PlanDifference> differences(const Plan& a, const Plan& b);

/// A row each below `a` and `b`, at most `most`, and how many more there are.
std::string to_text(const std::vector<PlanDifference>& differences, const std::string& a,
                    const std::string& b, std::size_t most);

}  // namespace shardwright
