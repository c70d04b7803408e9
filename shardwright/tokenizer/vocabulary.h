// Tokens by id and ids by token, and what a model makes of a word.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "shardwright/tokenizer/fields.h"
#include "shardwright/tokenizer/token_ids.h"

namespace shardwright {

/// No tokenizer that is in use has a tenth of these.
constexpr std::int64_t most_tokens = std::int64_t{1} << 22;

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
using TextMap = std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>>;

class Vocabulary {
 public:
  /// Throws: Error if the id or the token is there already, or the id is no id.
  void add(std::string token, std::int64_t id);
  /// As an added token, which may be one that is there.
  void add_again(const std::string& token, std::int64_t id);

  std::optional<std::int32_t> id_of(std::string_view token) const;
  /// Null if there is no such id.
  const std::string* token(std::int64_t id) const;
  /// One more than the largest id.
  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }

 private:
  std::vector<std::optional<std::string>> tokens_;
  TextMap ids_;
};

/// Tokens in which each byte is written as one visible character, as GPT-2 does: the bytes; nothing if a character
/// stands for none.
std::optional<std::string> bytes_of_visible(std::string_view token);
std::string visible_of_bytes(std::string_view bytes);

/// `<0x0A>`
std::string byte_token(unsigned char byte);

/// A model: one word, as pre-tokenizers leave it, to ids that are put behind others. Any thread may ask.
struct WordModel {
  std::function<void(std::string_view word, TokenIds& out)> encode;
  /// Where the part of a word that begins at `at` may end without changing the ids, so that parts that come again need
  /// not be encoded again; null: nowhere.
  std::function<std::size_t(std::string_view word, std::size_t at)> end_of_part;
};

/// Of the kinds of `model.type`, one file each. They fill the vocabulary, which outlives them.
/// `is_of_bytes`: words are bytes, which the vocabulary writes as visible characters.
struct BpeForm {
  bool is_of_bytes = false;
};
WordModel bpe_model(const Fields& model, Vocabulary& vocabulary, const BpeForm& form);
WordModel unigram_model(const Fields& model, Vocabulary& vocabulary);
WordModel word_piece_model(const Fields& model, Vocabulary& vocabulary);

}  // namespace shardwright
