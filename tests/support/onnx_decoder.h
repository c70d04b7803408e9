// Decoders as other frameworks export them: GPT-2 layer by layer in ONNX's own operators, whose attention is products,
// a mask and a softmax. Nothing in the file says that it is a decoder.
#pragma once

#include <string>

namespace shardwright {

/// Its first output is scores [batch, seq, vocab] of ids [batch, seq], to be trained with --loss cross_entropy.
struct OnnxDecoder {
  int layers = 2, hidden = 32, heads = 4, vocab = 48, seq = 8;
};

/// Writes it into `folder`, with weights, and says how to call it with `batch` samples.
std::string onnx_decoder(const std::string& folder, const OnnxDecoder& decoder, int batch);

}  // namespace shardwright
