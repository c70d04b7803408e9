// What the kernels of attention in turns (attention_turns.h) go over: heads, pieces of queries, runs of keys.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "shardwright/ops/attention.h"
#include "shardwright/ops/attention_turns.h"

namespace shardwright::ops {

/// What a call says of its turn.
struct Turns {
  std::int64_t pieces = 1, turn = 0, order = 0;
  bool is_masked = false;

  explicit Turns(const Attributes& a)
      : pieces(a.integer("pieces", 1)),
        turn(a.integer("turn", 0)),
        order(a.integer("order", 0)),
        is_masked(a.flag("masked")) {}
};

inline std::int64_t piece_in_turn(std::int64_t piece, std::int64_t turn, std::int64_t pieces) {
  return (piece - turn % pieces + pieces) % pieces;
}

/// Of `keys` the first so many are seen from `place`.
inline std::int64_t seen_of(const Run& keys, std::int64_t place, bool is_causal) {
  return is_causal ? std::clamp(place - keys.place + 1, std::int64_t{0}, keys.count) : keys.count;
}

/// What a call computes of one head and one piece of its queries.
template <class T>
struct TurnPart {
  using C = Compute<T>;
  const T *q = nullptr, *k = nullptr, *v = nullptr;
  std::int64_t depth = 0, width = 0, number = 0, shared = 0;
  std::int64_t rows = 0;      // before those of this piece, of all heads
  std::int64_t key_rows = 0;  // before those of its keys in a result, of all heads
  Runs queries, keys;
  std::int64_t behind = 0;  // queries stand so much later among the keys
  bool is_causal = false, begins_heads = false;
  double scale = 1, slope = 0;
  const T* mask = nullptr;                 // of query 0 of this piece, with all keys; none: nullptr
  std::int64_t mask_row = 0, mask_at = 0;  // keys of a row; where those of this turn begin

  /// e^(score - m) and m of query `i` (at `place`) with the keys of one run; how many it sees.
  std::int64_t scores(std::int64_t i, std::int64_t place, const Run& run, double* s) const {
    const std::int64_t seen = seen_of(run, place, is_causal);
    const T* const x = q + i * depth;
    for (std::int64_t j = 0; j < seen; ++j) {
      const T* const y = k + (run.at + j) * depth;
      double sum = 0;
      for (std::int64_t f = 0; f < depth; ++f)
        sum += static_cast<double>(static_cast<C>(x[f])) * static_cast<double>(static_cast<C>(y[f]));
      s[j] = sum * scale + slope * static_cast<double>(run.place + j - place);
      if (mask) s[j] += static_cast<double>(static_cast<C>(mask[i * mask_row + mask_at + run.at + j]));
    }
    return seen;
  }
};

/// Q, k and v stand from operand `first` on, the mask, if there is one, at `mask_at`.
template <class T, class F>
void for_each_part(const KernelCall& call, std::size_t first, std::size_t mask_at, F f) {
  const LoopBox::Part &b = call.loop("b"), &h = call.loop("h"), &r = call.loop("r"), &s = call.loop("s"),
                      &u = call.loop("u");
  const Turns turns(call.attributes);
  const std::int64_t all_keys = call.rule.operands[first + 1].shape[2], length = all_keys / turns.pieces;
  const std::int64_t here = call.operands[first + 1].shape[2], heads = h.extent * r.extent;
  const bool has_all = here == all_keys;
  TurnPart<T> part;
  part.depth = call.operands[first].shape[3];
  part.width = call.operands[first + 2].shape[3];
  part.behind = all_keys - s.size * u.size;
  part.is_causal = call.attributes.flag("causal");
  part.scale = call.attributes.number("scale", 1 / std::sqrt(static_cast<double>(part.depth)));
  for (std::int64_t n = 0; n < b.extent * heads; ++n) {
    const std::int64_t g = n % heads;
    part.number = n;
    part.shared = n / heads * h.extent + g / r.extent;
    part.begins_heads = g % r.extent == 0;
    if (call.attributes.flag("alibi"))
      part.slope = alibi_slope((h.offset + g / r.extent) * r.size + r.offset + g % r.extent, h.size * r.size);
    for (std::int64_t p = 0; p < s.extent; ++p) {
      const std::int64_t of_keys = piece_in_turn(s.offset + p, turns.turn, turns.pieces);
      const std::int64_t key = part.shared * here + (has_all ? of_keys : p) * length;
      part.rows = (n * s.extent + p) * u.extent;
      part.key_rows = (part.shared * s.extent + p) * length;
      part.q = call.operands[first].as<T>().data() + part.rows * part.depth;
      part.k = call.operands[first + 1].as<T>().data() + key * part.depth;
      part.v = call.operands[first + 2].as<T>().data() + key * part.width;
      part.queries = runs_of_piece(s.offset + p, u.extent, turns.order);
      part.keys = runs_of_piece(of_keys, length, turns.order);
      if (turns.is_masked) {
        const std::int64_t rows =
            mask_rows(call.operands[mask_at], n / heads, g, s.extent * u.extent) + p * u.extent;
        part.mask = call.operands[mask_at].as<T>().data() + rows * all_keys;
        part.mask_row = all_keys, part.mask_at = of_keys * length;
      }
      f(part);
    }
  }
}

inline constexpr double nothing = -std::numeric_limits<double>::infinity();

/// The running softmax of one query.
struct TurnSums {
  double largest = nothing, sum = 0;
  std::array<double, most_attention_features> y{};

  template <class T>
  void take(const TurnPart<T>& part, const Run& run, std::int64_t seen, double* s) {
    if (seen == 0) return;
    const double next = std::max(largest, *std::max_element(s, s + seen));
    if (next == nothing) return;
    const double weight = largest == nothing ? 0 : std::exp(largest - next);
    sum *= weight;
    for (std::int64_t f = 0; f < part.width; ++f) y[static_cast<std::size_t>(f)] *= weight;
    largest = next;
    for (std::int64_t j = 0; j < seen; ++j) {
      const double p = std::exp(s[j] - next);
      sum += p;
      const T* const v = part.v + (run.at + j) * part.width;
      for (std::int64_t f = 0; f < part.width; ++f)
        y[static_cast<std::size_t>(f)] += p * static_cast<double>(static_cast<Compute<T>>(v[f]));
    }
  }
};

}  // namespace shardwright::ops
