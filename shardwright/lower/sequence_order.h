// In which order a sequence stands that is split among ranks whose keys go round.
//
// Where each element sees those before it alone, the rank that holds the end of the sequence computes 2 - 1 / P times the mean
// of P ranks, and the others wait. So the sequence stands in 2 P blocks of which a rank holds the r-th from the begin and the
// r-th from the end (ops/sequence_order.h), as long as nothing of the network minds: inputs are brought into that order, or what is
// made of them alone and asks for places; what asks for places behind knows of it. Numbers are the same, and nothing is sent for it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

/// Who reads what these stages hand out of each token.
enum class OutputsOfTokens {
  read_as_they_lie,    // so that the sequence stands as it is
  brought_into_place,  // Pipeline::in_order
};

/// In how many blocks all of these stages of one network have their sequence; 0: it stands as it is. Forward operators have
/// strategies.
std::int64_t sequence_order(std::span<const Graph* const> stages, OutputsOfTokens outputs);

/// Per node of `graph`, whose sequence stands in blocks: it is done while inputs still stand as they are, for it asks for their
/// places, or makes what such a node reads. All others read its results in order.
std::vector<bool> nodes_in_place(const Graph& graph);

/// Per value and dim, of the forward: dims of the sequence. An output has at most one where its sequence stands in blocks.
std::vector<std::vector<bool>> dims_in_order(const Graph& graph);

}  // namespace shardwright
