// What queries may not see, as a tensor that is added to their scores: what lies behind a window, padding, other documents.
// That later elements are hidden, attention knows itself; where padding is hidden, too, the mask says both, because a query that
// sees nothing then takes the mean of all keys, later ones included, as transformers has it (padding in front asks such queries).
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "shardwright/frontend/modules/decoder.h"

namespace shardwright {

/// Of one pass over sequences. Each mask is made once, for all layers that want it.
/// Added to scores: hides keys where `attention_mask` [batch, keys] is 0.
/// Shapes: [batch, 1, queries, keys]
Traced padding_mask(Trace& trace, Traced attention_mask, const std::string& name, std::int64_t queries);

class Masks {
 public:
  /// `shape`: [batch, sequence] of the tokens. `is_causal`: each sees those before it, and itself.
  Masks(Trace& trace, Shape shape, const DecoderData& data, bool is_causal)
      : trace_(trace), shape_(std::move(shape)), data_(data), is_causal_(is_causal) {}

  /// Whether masks hide what is later.
  bool hide_later() const { return is_causal_ && data_.attention_mask; }
  /// Nothing, if all is seen. 0 keys are no window.
  /// Shapes: [queries, keys], or [batch, 1, queries, keys] where data decide
  std::optional<Traced> of(std::int64_t window);

 private:
  std::optional<Traced> made(std::int64_t window);
  Traced places();
  Traced documents();

  Trace& trace_;
  Shape shape_;
  DecoderData data_;
  bool is_causal_;
  std::map<std::int64_t, std::optional<Traced>> masks_;
};

}  // namespace shardwright
