// Texts as tokens, in a file (token_lay.h) or in memory, of which a model learns the next one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "shardwright/runtime/data/dataset.h"
#include "shardwright/runtime/data/marked_tokens.h"

namespace shardwright {

struct TokenOptions {
  std::int64_t length = 0;      // of a sample
  std::int64_t bytes = 0;       // of a token, in a file that does not say so; 0: by what fits the vocabulary
  std::int64_t vocabulary = 0;  // tokens must be below it; 0: any
  /// Whether documents are kept apart: there is a column of places, which count from 0 again where a document or the sample begins,
  /// and nobody is asked for a document's first token.
  bool are_apart = false;
  std::optional<std::int32_t> end = {};  // of a file: what ends a document
};

/// Columns `input` and `label`, and `position_ids` where documents are apart, i32 [length]: the label is the input moved on by one.
/// Samples follow each other; the file is read where they lie. Throws: Error of kind io if it is damaged or holds less than one sample.
Dataset token_dataset(const std::string& path, const TokenOptions& options);
/// All tokens of a file, in memory; a document begins behind each `options.end`.
MarkedTokens read_marked(const std::string& path, const TokenOptions& options);
/// The same of tokens in memory, which messages call `name`.
Dataset token_dataset(MarkedTokens tokens, const std::string& name, const TokenOptions& options);

}  // namespace shardwright
