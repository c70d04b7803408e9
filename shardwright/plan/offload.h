// What lies in memory of the host, as a plan says it: shares of optimizer states, parameters and activations, and operators
// that run there.
//
//   optimizer:0.5    states of the optimizer, of whole tensors as many as make up at most half of their bytes
//   parameters       all of them: fetched for the forward, for the backward and for the update
//   activations:1    what the forward leaves for the backward, the earliest first: it has longest to go and to come
//   NAME             an operator or a pattern: it runs on the host, with its backward, its parameters and their update; a
//                    parameter lies there with its states
//
// In text the parts stand with commas between, a share of 1 may be left out, and `host(NAME)` says the same as NAME.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

struct Offload {
  double optimizer = 0, parameters = 0, activations = 0;  // shares of their bytes, 0 to 1
  std::vector<std::string> operators;                     // names or patterns, each once, ascending

  bool is_on() const { return optimizer > 0 || parameters > 0 || activations > 0 || !operators.empty(); }
  std::strong_ordering operator<=>(const Offload& other) const;
  bool operator==(const Offload&) const = default;
};

/// `optimizer:0.5,parameters,host(embedding)`; `none` if nothing is.
std::string to_text(const Offload& offload);
/// Throws: Error that names the part, and what there is.
Offload parse_offload(std::string_view text);

/// The forward operators and parameters of `graph` that `name` or pattern means.
std::vector<NodeId> hosted_by(std::string_view name, const Graph& graph);

/// Throws: Error with near names if there is neither of a name.
void check(const Offload& offload, const Graph& graph);

}  // namespace shardwright
