// Texts as tokens, in a file (token_lay.h) or in memory, of which a model learns the next one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/runtime/data/dataset.h"

namespace shardwright {

struct TokenOptions {
  std::int64_t length = 0;      // of a sample
  std::int64_t bytes = 0;       // of a token, in a file that does not say so; 0: by what fits the vocabulary
  std::int64_t vocabulary = 0;  // tokens must be below it; 0: any
};

/// Columns `input` and `label`, i32 [length]: the label is the input moved on by one. Samples follow each other; the
/// file is read where they lie. Throws: Error of kind io if it is damaged or holds less than one sample.
Dataset token_dataset(const std::string& path, const TokenOptions& options);
/// The same of tokens in memory, which messages call `name`.
Dataset token_dataset(std::vector<std::int32_t> tokens, const std::string& name, const TokenOptions& options);

}  // namespace shardwright
