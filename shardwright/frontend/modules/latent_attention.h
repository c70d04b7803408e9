// Queries, keys and values through products of low rank, as in DeepSeek's multi-head latent attention. Of a head's features only the
// last ones turn with the position; those of keys are one for all heads.
//
//   q = up(norm(down(x)));  [c, r] = kv_down(x);  [k, v] = kv_up(norm(c));  k = [k, turned(r)]
#pragma once

#include <array>
#include <optional>
#include <string>

#include "shardwright/frontend/modules/dense.h"
#include "shardwright/frontend/modules/norms.h"

namespace shardwright {

struct LatentOptions {
  std::int64_t query_rank = 0;                          // 0: queries are one product
  std::int64_t rank = 512;                              // of keys and values
  std::int64_t plain = 128, turned = 64, values = 128;  // features of a head
  double epsilon = 1e-6;
  bool bias = false;         // of the products that go down
  bool interleaved = false;  // neighbours turn together
};

/// Dense layers NAME.q.down and NAME.q.up, or NAME.q; NAME.kv.down and NAME.kv.up; norms NAME.q.norm and NAME.kv.norm.
struct LatentHeads {
  LatentHeads(const std::string& name, std::int64_t width, std::int64_t heads, const LatentOptions& options,
              const Operator& rotary, double turned_scale);

  /// Shapes: x [batch, sequence, width] -> queries, keys and values [batch, heads, sequence, features]
  std::array<Traced, 3> operator()(Traced x, const std::optional<Traced>& positions) const;

 private:
  std::string name_;
  std::int64_t heads_;
  LatentOptions options_;
  Operator rotary_;
  double turned_scale_;
  std::optional<Dense> query_down_;
  std::optional<RmsNorm> query_norm_;
  Dense query_, down_;
  RmsNorm norm_;
  Dense up_;
};

}  // namespace shardwright
