// What a network is made of and how it is trained where nobody says it: as people train on such a machine.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "shardwright/cost/cluster.h"
#include "shardwright/plan/plan.h"

namespace shardwright {

/// What nobody has said of a step. Reports mark it.
struct Assumed {
  bool batch = false;
  bool precision = false;
  bool optimizer = false;
};

/// Of the model called `spec`, empty if it has no name, on `cluster`, nothing for this host: on accelerators the mixed precision
/// that they have units for, AdamW, and the batch that the model was published with; elsewhere f32, plain gradient descent
/// and the model's own batch.
Origin usual_origin(std::string_view spec, const std::optional<Cluster>& cluster);

/// `assumed on a100-80g:8: --precision bf16 --optimizer adamw`: a line for who is shown no report, or nothing where all is as on a host.
std::string assumed_text(const Assumed& assumed, const Origin& origin, const std::optional<Cluster>& cluster);

}  // namespace shardwright
