// What lies in memory of the host, as a plan says it: shares of optimizer states, parameters and activations, and operators
// that run there.
//
//   optimizer:0.5    states of the optimizer, of whole tensors as many as make up at most half of their bytes
//   parameters       all of them: fetched for the forward, for the backward and for the update
//   activations:1    what the forward leaves for the backward, the earliest first (lower/offloaded_values.h)
//   NAME             an operator or a pattern: it runs on the host, with its backward, its parameters and their update; a
//                    parameter lies there with its states
//
// In text the parts stand with commas between, a share of 1 may be left out, and `host(NAME)` says the same as NAME. Stages may
// have shares of their own, in their order: `activations:1/0.5/0`.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

struct Offload {
  double optimizer = 0, parameters = 0,
         activations = 0;  // shares of their bytes, 0 to 1; of stages that differ the largest
  std::vector<std::string> operators = {};  // names or patterns, each once, ascending
  std::vector<double> optimizer_of = {}, parameters_of = {},
                      activations_of = {};  // by stage; empty: all have the same

  /// What one stage has there.
  Offload of_stage(std::size_t stage) const;
  /// Of which there are shares; 0: of any number.
  std::size_t stages() const;
  bool is_on() const { return optimizer > 0 || parameters > 0 || activations > 0 || !operators.empty(); }
  std::strong_ordering operator<=>(const Offload& other) const;
  bool operator==(const Offload&) const = default;
};

/// What there are shares of.
struct OffloadKind {
  std::string_view name;
  double Offload::*share;
  std::vector<double> Offload::*of_stages;
};
inline constexpr std::array<OffloadKind, 3> offload_kinds{
    {{"optimizer", &Offload::optimizer, &Offload::optimizer_of},
     {"parameters", &Offload::parameters, &Offload::parameters_of},
     {"activations", &Offload::activations, &Offload::activations_of}}};
/// With `shares` of all stages.
Offload with_shares(Offload offload, const OffloadKind& kind, std::vector<double> shares);

/// `optimizer:0.5,parameters,host(embedding)`; `none` if nothing is.
std::string to_text(const Offload& offload);
/// Throws: Error that names the part, and what there is, or two parts that have shares of different numbers of stages.
Offload parse_offload(std::string_view text);

/// The forward operators and parameters of `graph` that `name` or pattern means.
std::vector<NodeId> hosted_by(std::string_view name, const Graph& graph);

/// Throws: Error with near names if there is neither of a name.
void check(const Offload& offload, const Graph& graph);

}  // namespace shardwright
