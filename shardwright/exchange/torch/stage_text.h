// The functions of a stage in Python: a line an operator, its values called as in the plan.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shardwright/exchange/torch/elements.h"

namespace shardwright::torch {

/// How the values of a stage are called in Python.
std::vector<std::string> python_names(const Graph& graph);

struct StageText {
  std::string text;                              // below the imports
  std::map<std::string, std::string> functions;  // that the lines call, by name
};

/// Throws: Error that names an operator that is not written in PyTorch.
StageText stage_text(const Pipeline& pipeline, int stage, const Elements& elements);

}  // namespace shardwright::torch
