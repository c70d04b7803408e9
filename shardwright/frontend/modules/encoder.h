// Layers of encoders: every element sees every other. Norms stand before the networks (as in ViT) or behind the sums (as in BERT):
//
//   before: x = x + attention(norm1(x));  x = x + ffn(norm2(x))       behind: x = norm1(x + attention(x));  x = norm2(x + ffn(x))
#pragma once

#include <string>

#include "shardwright/frontend/modules/feed_forward.h"
#include "shardwright/frontend/modules/norms.h"
#include "shardwright/frontend/modules/self_attention.h"

namespace shardwright {

struct EncoderOptions {
  std::int64_t hidden = 768, heads = 12, ffn = 3072;
  double epsilon = 1e-12;
  bool norms_before = false;
  bool qkv_bias = true;
  bool explicit_attention = false;
  double dropout = 0;            // of what a layer's networks make
  double attention_dropout = 0;  // of attention's weights
};

/// Modules NAME.norm1, NAME.attention, NAME.norm2 and NAME.ffn, as those of a decoder's layer.
/// Shapes: [batch, sequence, hidden] -> the same
struct EncoderLayer {
  EncoderLayer(const std::string& name, const EncoderOptions& options, Operator activation);
  Traced operator()(Traced x, const Seen& seen = {}) const;

  bool norms_before;
  LayerNorm norm1;
  SelfAttention attention;
  Operator add1;
  LayerNorm norm2;
  PlainFeedForward ffn;
  Operator add2;
  double dropout;
};

}  // namespace shardwright
