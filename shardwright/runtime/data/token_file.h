// Texts as files of tokens, of which a model learns the next one.
//
//   *.npy        numpy's format: one dim, of uint8, uint16, uint32, int32 or int64
//   other files  little-endian integers of 2 bytes, or of 4; with a header of 256 int32 in front that starts with
//                20240520, 1 and the number of tokens, or without
#pragma once

#include <cstdint>
#include <string>

#include "shardwright/runtime/data/dataset.h"

namespace shardwright {

struct TokenOptions {
  std::int64_t length = 0;      // of a sample
  std::int64_t bytes = 2;       // of a token, in a file that does not say so
  std::int64_t vocabulary = 0;  // tokens must be below it; 0: any
};

/// Columns `input` and `label`, i32 [length]: the label is the input moved on by one. Samples follow each other; the
/// file is read where they lie. Throws: Error of kind io if it is damaged or holds less than one sample.
Dataset token_dataset(const std::string& path, const TokenOptions& options);

}  // namespace shardwright
