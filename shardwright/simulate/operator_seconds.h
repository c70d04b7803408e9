// Where the time of a step goes, operator by operator: parts of the very seconds that the estimate adds up.
#pragma once

#include <vector>

namespace shardwright {

/// What an operator takes in a step, its backward and update with it (plan/owners.h). Of communication what compute
/// waits for.
struct OperatorSeconds {
  double compute = 0;
  double reduction = 0;       // of partial results and gradients
  double redistribution = 0;  // changes of layout

  double all() const { return compute + reduction + redistribution; }
};

/// Of a stage: together its compute and exposed communication.
struct StageSeconds {
  std::vector<OperatorSeconds> operators =
      {};                       // by node of its planned graph; behind the last with any, none
  OperatorSeconds others = {};  // what belongs to no operator
};

}  // namespace shardwright
