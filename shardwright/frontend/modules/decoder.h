// Decoders: tokens to the scores of the next token, through layers of causal attention and feed-forward networks, each
// with a norm in front and a sum with what went in behind.
//
//   x = x + attention(norm1(x));  x = x + ffn(norm2(x))
//
// Some families norm what comes out of the networks instead of what goes in, or both; some let both networks read the same x.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "shardwright/frontend/modules/embedding.h"
#include "shardwright/frontend/modules/feed_forward.h"
#include "shardwright/frontend/modules/mixture.h"
#include "shardwright/frontend/modules/norms.h"
#include "shardwright/frontend/modules/self_attention.h"

namespace shardwright {

/// swiglu and gated ones are gated; fast_gelu and gated_fast_gelu are gelu in its sigmoid form, gelu and gated_gelu in its tanh
/// form, exact_gelu as it is.
enum class Activation : std::uint8_t {
  swiglu,
  gelu,
  fast_gelu,
  exact_gelu,
  relu,
  gated_gelu,
  gated_fast_gelu,
  squared_relu
};

/// Where a layer's norms stand: before its networks, behind them, or both; or before both networks, which read one x.
enum class NormPlaces : std::uint8_t { before, behind, both, parallel };

struct DecoderOptions {
  std::int64_t layers = 4, hidden = 512, heads = 8, kv_heads = 8, ffn = 1376;
  std::int64_t vocabulary = 8192, sequence = 256;
  Positions positions = Positions::rotary;
  Activation activation = Activation::swiglu;
  bool layer_norm = false;          // else RMS norm
  double epsilon = 1e-5;            // of the norms
  bool qkv_bias = false;            // of queries, keys and values
  bool bias = false;                // of the other dense layers
  bool tied_head = false;           // the head is the embedding's table
  bool explicit_attention = false;  // SelfAttention::Options::is_explicit
  bool query_layer = false;  // the last layer asks with learned queries, one a position, instead of its own x
  std::optional<bool> out_bias = {};  // of attention's last dense layer; none: as `bias`
  std::optional<bool> head_bias = {};
  NormPlaces norms = NormPlaces::before;
  bool norm_from_one = false;  // RmsNorm with its weight from 1
  SelfAttention::Options heads_as =
      {};  // what it says of scale, cap, rotary positions, features and norms of heads
  std::optional<SelfAttention::Options> heads_in_windows = {};  // instead of heads_as, in layers with one
  std::vector<std::int64_t> windows =
      {};  // by layer: keys that a query sees, its own included; 0, or none said: all
  double embedding_scale = 1;
  double embedding_dropout = 0;  // of what enters the layers
  double dropout = 0;    // of what a layer's networks make; that of attention's weights is in heads_as
  double score_cap = 0;  // of the head's scores: cap tanh(score / cap); 0: none
  std::int64_t places =
      0;  // learned positions there are, of which the first `sequence` are taken; 0: as many
  std::int64_t first_place = 0;              // the row of the first of them
  std::optional<std::int64_t> padding = {};  // the token whose embedding learns nothing from being looked up
  std::optional<MixtureOfExperts::Options> experts = {};  // instead of one network a layer
  std::int64_t first_expert_layer = 0;                    // those before it have one network
  std::int64_t shared_experts =
      0;  // of the size of the others, which all tokens have: experts->shared together
};

/// What data say beside tokens, i32[batch, sequence] each.
struct DecoderData {
  std::optional<Traced> attention_mask = {};  // 0: hidden from all
  std::optional<Traced> positions = {};
  bool are_apart = false;  // where positions do not count on a document begins, which sees no earlier one
};

/// How a decoder is split over devices, as tensor parallelism is known: the batch over `data` devices; heads, the inner
/// features of the feed-forward networks and the vocabulary over `tensor` devices.
struct DecoderSplit {
  int data = 1;
  int tensor = 1;
  bool sequence =
      false;  // norms and sums between the networks by sequence over the `tensor` devices, which else
              // repeat them: an all_reduce becomes a reduce_scatter and an all_gather
};

/// Modules NAME.norm1, NAME.attention, NAME.norm2 and NAME.ffn, operators NAME.add1 and NAME.add2.
/// Shapes: [batch, sequence, hidden] -> the same
struct DecoderLayer {
  DecoderLayer(const std::string& name, const DecoderOptions& options);
  Traced operator()(Traced x, const Cached* cached = nullptr, const Seen& seen = {}) const;
  /// With queries that are not made of x.
  Traced operator()(Traced queries, Traced x, const Cached* cached = nullptr) const;

  using Norm = std::variant<RmsNorm, LayerNorm>;
  using Network = std::variant<GatedFeedForward, PlainFeedForward, MixtureOfExperts>;
  NormPlaces norms;
  Norm norm1;
  SelfAttention attention;
  Operator add1;
  Norm norm2;
  Network ffn;
  Operator add2;
  double dropout;
  std::optional<Norm> norm1_behind, norm2_behind;  // NAME.norm1b, NAME.norm2b, of NormPlaces::both

 private:
  Traced after_attention(Traced x, Traced attended) const;
  Traced dropped_for(const Operator& sum, Traced x) const;
};

/// Modules `embedding`, `layers.0`, ..., `norm` and `head`; where they are learned, parameters `positions.weight` and
/// `queries.weight` (sequence, hidden).
struct Decoder {
  /// Throws: Error where sizes do not fit each other.
  explicit Decoder(const DecoderOptions& options);

  /// Annotates its operators. They are checked against sizes and devices when the network is planned.
  void shard(const DecoderSplit& split);

  /// Shapes: tokens [batch, sequence] -> scores [batch, sequence, vocabulary]. With `cached` tokens are those
  /// at its places, and of a first step there are scores of one token of each sequence, [batch, 1, vocabulary].
  Traced operator()(Traced tokens, const Cached* cached = nullptr, const DecoderData& data = {}) const;
  Traced embedded(Traced tokens, const Cached* cached, const DecoderData& data) const;

  DecoderOptions options;
  Embedding embedding;
  Parameter positions;
  Operator add_positions;
  std::vector<DecoderLayer> layers;
  Parameter queries;
  Operator repeat_queries;
  DecoderLayer::Norm norm;
  std::optional<Dense> head;  // none if it is tied
  Operator tied_head;
};

}  // namespace shardwright
