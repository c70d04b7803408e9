// What the programs of plans take, for searches of one network on one cluster: searches under other limits of memory, with other
// states on the host or other prices of a byte try the same plans over and over.
#pragma once

#include <list>
#include <vector>

#include "shardwright/plan/plan.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {

class EvaluatedPlans {
 public:
  /// Of a plan, or null if none was made into a program. Stays where it is; its limit of memory is that of who was first.
  const Evaluation* find(const Settings& settings, const std::vector<StagePlan>& stages) const;
  const Evaluation* add(const Settings& settings, const std::vector<StagePlan>& stages, Evaluation e);

  /// Of one of a single stage, in terms of its graph.
  const Evaluation* find(const Settings& settings, const Choices& choices) const;
  const Evaluation* add(const Settings& settings, Choices choices, Evaluation e);

 private:
  template <class Of>
  struct Known {
    Settings settings;
    Of of;
    Evaluation evaluation;
  };
  std::list<Known<std::vector<StagePlan>>> plans_;
  std::list<Known<Choices>> choices_;
};

}  // namespace shardwright
