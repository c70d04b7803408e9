// A tokenizer taken apart, as tokenizer.json has it.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "shardwright/tokenizer/added_tokens.h"
#include "shardwright/tokenizer/steps.h"
#include "shardwright/tokenizer/vocabulary.h"

namespace shardwright {

struct TokenizerParts {
  Vocabulary vocabulary;
  std::vector<AddedToken> added;
  std::optional<AddedTokens> in_text,
      in_normalized;      // where they are found; nothing: there are none of that kind
  Normalizer normalizer;  // null: none
  PreTokenizing pre;
  WordModel model;
  Template around;
  Decoder decoder;               // null: tokens with blanks between
  std::vector<bool> is_special;  // by id
};

/// Throws: Error that names the place in the JSON.
std::shared_ptr<TokenizerParts> parts_of_tokenizer(std::string_view json);

}  // namespace shardwright
