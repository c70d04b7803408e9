// Attention of a sequence to itself, with its four products.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "shardwright/frontend/modules/dense.h"
#include "shardwright/frontend/modules/latent_attention.h"
#include "shardwright/frontend/modules/norms.h"

namespace shardwright {

/// How an attention knows where its elements stand: not at all (they are told by what enters the network, or by nothing but
/// that none sees a later one), by turning queries and keys, or by a bias that grows with the distance.
enum class Positions : std::uint8_t { learned, rotary, alibi, none };

/// Where queries and keys are normalised: nowhere, each head by itself, or all heads of an element together.
enum class HeadNorm : std::uint8_t { none, of_each_head, of_all_heads };

/// One step of sequences: x are the elements at `places`, and what came before is kept in caches that have room for so many.
struct Cached {
  Traced places;  // i32[batch, sequence]
  std::int64_t room = 0;
  bool is_first = false;  // nothing came before, and places count from 0: elements see only each other
  Traced last =
      {};  // of the first step: i32[batch], which of all elements (row-major) are asked for their scores
};

/// What data say of the elements: where each stands, if not one behind the other, and what it sees.
struct Seen {
  std::optional<Traced> positions = {};  // i32[batch, sequence]
  std::optional<Traced> mask = {};       // added to scores: [queries, keys] or [batch, 1, queries, keys]
  bool mask_hides_later = false;         // so that attention itself need not
};

/// Dense layers NAME.q, NAME.k, NAME.v and NAME.o, norms NAME.q.norm and NAME.k.norm where there are some, and between them the operator NAME.attend, or explicitly NAME.scores,
/// NAME.weights and NAME.attend.
struct SelfAttention {
  struct Options {
    std::int64_t heads = 1;
    std::int64_t kv_heads = 1;  // of keys and values, each for heads / kv_heads of the queries
    Positions positions = Positions::learned;
    bool is_causal = true;
    bool is_explicit = false;  // scores lie in memory: products and a softmax instead of one operator
    bool qkv_bias = false;
    std::optional<bool> key_bias = {};  // none: as qkv_bias
    bool out_bias = false;
    std::optional<Initializer> start = {};  // of the weights, as of Dense
    std::int64_t features = 0;              // of a head; 0: width / heads
    double scale = 0;                       // of scores; 0: 1 / sqrt(features)
    double cap = 0;                         // scores become cap tanh(score / cap); 0: they stay
    std::string rates = {};  // of rotary positions, as the operator takes them; empty: by `base`
    double base = 10000;
    double turned_scale = 1;         // of what rotary positions have turned
    std::int64_t turned = 0;         // features of a head that rotary positions turn, the first; 0: all
    HeadNorm norm = HeadNorm::none;  // of queries and keys
    double epsilon = 1e-6;           // of that norm
    bool norm_from_one = false;      // RmsNorm::Options::from_one
    double dropout = 0;              // of the weights, which lie in memory then
    std::optional<LatentOptions> latent = {};  // queries, keys and values through products of low rank
  };
  /// Throws: Error if the heads do not divide the width, or the heads of keys those of queries.
  SelfAttention(const std::string& name, std::int64_t width, const Options& options);

  /// Shapes: x [batch, sequence, width] -> the same
  Traced operator()(Traced x) const { return (*this)(x, x); }
  /// Queries made of something else, keys and values of x. With `cached` in one step of many, whose keys and values
  /// are states NAME.keys and NAME.values [batch, kv heads, room, features].
  Traced operator()(Traced queries, Traced x, const Cached* cached = nullptr, const Seen& seen = {}) const;

  /// Operators NAME.matmul, NAME.add, NAME.split, NAME.transpose and NAME.rotary.
  struct Heads {
    Heads(const std::string& name, std::int64_t width, std::int64_t count, std::int64_t features,
          const Options& options);
    /// Shapes: x [batch, sequence, width] -> [batch, count, sequence, features]
    Traced operator()(Traced x, const Cached* cached = nullptr, const Seen& seen = {}) const;
    Traced turned_by(Traced heads, const std::optional<Traced>& positions) const;

    Dense dense;
    std::optional<RmsNorm> norm;
    HeadNorm norm_is = HeadNorm::none;
    Operator split;
    Operator transpose;
    std::optional<Operator> rotary;
    std::int64_t turned = 0;
    double turned_scale = 1;
    std::int64_t count;
    std::int64_t features;
  };

  /// Shapes: q [batch, heads, sequence, features], keys and values of fewer heads -> as q
  Traced attended(Traced queries, Traced keys, Traced values, const Seen& seen = {}) const;
  /// The same with scores in memory.
  Traced attended_in_memory(Traced queries, Traced keys, Traced values, const Seen& seen) const;

  Traced attended_cached(Traced queries, Traced keys, Traced values, const Cached& cached) const;

  std::string name;
  bool has_alibi;
  double scale, cap, dropout;  // 0: none is said
  Heads q, k, v;
  bool is_explicit;
  Operator scores, weights;
  Operator attend;
  Operator transpose;
  Operator join;
  std::optional<LatentHeads> latent;
  std::int64_t out_features;  // of a head
  Dense o;
};

}  // namespace shardwright
