// Plans of one stage that a search has made into programs on its way, by what distinguishes them from the plan that it
// took: so many parts of which loop dims of which operators.
#pragma once

#include <cstddef>
#include <vector>

#include "shardwright/graph/calls.h"
#include "shardwright/plan/tried.h"
#include "shardwright/search/planning/problem.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {

class JudgedPlans {
 public:
  void add(const SearchResult& plan, const Evaluation& e);

  /// The fastest that fit, and the fastest that do not, `taken` among them; `meshes`: of plans that have none of their own.
  std::vector<Tried> told(const SearchResult& taken, const std::vector<Mesh>& meshes, const Graph& graph,
                          const Calls& calls) const;

 private:
  struct Judged {
    std::vector<Mesh> meshes;
    std::vector<Strategy> strategies;  // per node
    double seconds = 0, bytes = 0;
    bool fits = false;
  };
  static void keep_best(std::vector<Judged>& some, std::size_t most);

  std::vector<Judged> fitting_, misfits_;
};

}  // namespace shardwright
