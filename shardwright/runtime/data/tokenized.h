// Files of texts to one row of tokens: each document with what its tokenizer puts around it, and the token that ends it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shardwright/runtime/data/documents.h"
#include "shardwright/runtime/data/marked_tokens.h"
#include "shardwright/tokenizer/chat_template.h"
#include "shardwright/tokenizer/tokenizer.h"

namespace shardwright {

struct TokenizeOptions {
  LineText line = {};                    // of JSON lines
  std::optional<std::int32_t> end = {};  // put behind a document that does not end in it
  Around around = Around::special_tokens;
};

struct Tokenized {
  std::int64_t documents = 0, tokens = 0, text_bytes = 0;
};

/// Gives the tokens of each document. Throws: Error as for_each_document does.
Tokenized tokenize(const Tokenizer& tokenizer, std::span<const std::string> paths,
                   const TokenizeOptions& options,
                   const std::function<void(std::span<const std::int32_t> tokens)>& take);

/// All of a file in memory, each document with `end` behind it.
MarkedTokens tokens_of(const Tokenizer& tokenizer, const std::string& path, std::optional<std::int32_t> end);

/// Of a file of JSON lines that hold `messages`: each talk as its template has it, of which only answers are asked. A token that
/// stands across the border of an answer is part of it.
/// Throws: Error of kind io with the path and the line, if something is no talk.
MarkedTokens talks_of(const Tokenizer& tokenizer, const std::string& path, const ChatTemplate& chat);

}  // namespace shardwright
