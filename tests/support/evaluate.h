// The oracle of the tests: graphs and calls evaluated on one device by the reference kernels.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "shardwright/graph/graph.h"
#include "shardwright/graph/op.h"

namespace shardwright {

/// Every value of `graph`, by index. `leaves` gives inputs, parameters and states by name.
/// Throws: Error on a leaf that is missing or of another type, InternalError on a redistribution step.
std::vector<Tensor> evaluate(const Graph& graph, const std::map<std::string, Tensor>& leaves);

/// Results of one call on whole tensors.
std::vector<Tensor> evaluate(const OpDef& op, std::span<const Tensor> operands, const Attributes& attributes);

/// Results of types `results` of the part `box` of a call whose rule is `rule`.
std::vector<Tensor> run_kernel(const OpDef& op, std::span<const Tensor> operands,
                               std::span<const Type> results, const Attributes& attributes, const Rule& rule,
                               const LoopBox& box);

/// Runs the reference kernel, whichever facet has it.
void run_kernel(const OpDef& op, const KernelCall& call);

/// The box of all loop dims whole.
LoopBox whole_box(const Rule& rule);

}  // namespace shardwright
