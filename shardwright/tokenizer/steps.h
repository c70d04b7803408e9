// What stands around a model in tokenizer.json: what changes a text before, cuts it into words, puts tokens around ids,
// and makes text of tokens again. Each is a function that is made of its object in the file; an unknown kind is an error.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/tokenizer/fields.h"
#include "shardwright/tokenizer/vocabulary.h"

namespace shardwright {

/// The text becomes what the tokens are of.
using Normalizer = std::function<void(std::string& text)>;
Normalizer normalizer_of(const Fields& fields);
/// The map of SentencePiece, as `precompiled_charsmap` holds it in base64.
Normalizer precompiled_normalizer(const Fields& fields);

/// A piece of a text. Where the whole begins, some put a blank in front.
struct TextPiece {
  std::string_view text;
  bool begins_text = false;
};
using TakePiece = std::function<void(const TextPiece&)>;
/// Gives the words of a piece, in their order. They are valid during the call.
using PreTokenizer = std::function<void(const TextPiece&, const TakePiece&)>;
/// All of a Sequence, or one. `is_of_bytes` is set if words are bytes, and not characters, from there on.
struct PreTokenizing {
  std::vector<PreTokenizer> steps;
  bool is_of_bytes = false;
};
PreTokenizing pre_tokenizing_of(const Fields& fields);
/// The words of GPT-2's expression, or of that of Llama 3 and its like, without a general engine: ten times as fast.
/// Nothing: the expression is another one.
PreTokenizer known_words(std::string_view expression);

/// What becomes of bytes that are no UTF-8: they stay, or become U+FFFD.
enum class Broken { kept, replaced };
/// Tokens become texts that are put behind each other.
using Decoder = std::function<void(std::vector<std::string>& tokens, Broken broken)>;
Decoder decoder_of(const Fields& fields);

/// A token that stands around texts, or a text.
struct TemplatePart {
  int text = -1;  // 0: the first, 1: the second; -1: these ids
  TokenIds ids;
  std::int32_t type = 0;
};
struct Template {
  std::vector<TemplatePart> single, pair;
};
Template template_of(const Fields& fields);

}  // namespace shardwright
