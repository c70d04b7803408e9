// A node of a program as a line of Python, the same on all ranks of its stage.
#pragma once

#include <string>
#include <vector>

#include "shardwright/exchange/python/call_line.h"
#include "shardwright/graph/graph.h"

namespace shardwright {

/// `operands` as they are called in Python; `is_in_place`: results are written over the operands that their operator may
/// overwrite. Throws: Error that names an operator that is not written for `engine`.
std::string line_of(const Graph& graph, const Node& node, std::vector<std::string> operands, Engine engine,
                    bool is_in_place = false);
/// A call and the next one, with their operands, by the form in PyTorch that has both in one.
struct NamedCall {
  const Node& node;
  std::vector<std::string> operands;
};
std::string joint_line_of(const Graph& graph, const JointForm& form, NamedCall call, NamedCall next);
/// Of whole tensors, as one device would compute it; in JAX.
std::string line_of_whole(const Graph& graph, const Node& node, std::vector<std::string> operands);

}  // namespace shardwright
