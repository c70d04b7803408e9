// Rotary positions as configs say them, with every way in which they are scaled for longer sequences.
#pragma once

#include <optional>
#include <string>

#include "shardwright/frontend/huggingface/config.h"

namespace shardwright::huggingface {

struct RotaryRates {
  double base = 10000;
  std::string rates;        // as the operator takes them; empty: by `base`
  std::int64_t turned = 0;  // of a head's features
  double scale = 1;         // of what has been turned
};

struct RotaryAsked {
  std::int64_t features = 0;  // of a head
  std::int64_t sequence = 0;  // for sequences of this length
  std::int64_t places = 0;    // max_position_embeddings
  std::optional<std::int64_t> original =
      {};               // original_max_position_embeddings beside it, where the scaling says none
  double base = 10000;  // the family's, if the config says none
  double share = 1;     // of the features that are turned, likewise
};

/// Of `rope_parameters` (transformers 5), or `rope_theta` and `rope_scaling` (4): default, linear, dynamic, yarn, longrope
/// (also called su) and llama3. Throws: Error on another kind.
RotaryRates rotary_rates(const Config& config, const RotaryAsked& asked);

}  // namespace shardwright::huggingface
