// Texts to ids and back, as a file tokenizer.json says.
//
//   text ─► added tokens are cut out ─► normalizer ─► pre-tokenizers: words ─► model: ids ─► template around them
//
// The measure is the library that writes these files (tests/reference/tokenizer). A part of a kind that is not known,
// and a key that could change ids, is an error that names it. Texts are UTF-8; where bytes are not, a byte-level or
// byte-fallback tokenizer keeps them, and others read U+FFFD.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/tokenizer/token_ids.h"

namespace shardwright {

/// Whether the tokens stand around a text that its template puts there.
enum class Around { nothing, special_tokens };
/// Whether tokens that are special are part of a decoded text.
enum class Special { kept, skipped };

struct EncodedPair {
  TokenIds ids, types;  // type: which of the two texts
};

struct TokenizerParts;

class Tokenizer {
 public:
  /// The file, or tokenizer.json in a folder. What else the folder says of tokens (`eos_token` in
  /// tokenizer_config.json) is read, too. Throws: Error in one line that begins with the path.
  static Tokenizer read(const std::string& path);
  /// Throws: Error that names the place in the JSON.
  static Tokenizer parse(std::string_view json);

  TokenIds encode(std::string_view text, Around around = Around::nothing) const;
  /// With its template.
  EncodedPair encode_pair(std::string_view text, std::string_view second) const;

  /// Ids that there are not leave no trace. Bytes that are no UTF-8 become U+FFFD.
  std::string decode(std::span<const std::int32_t> ids, Special special = Special::kept) const;
  /// The same with bytes as they are: of a byte-level tokenizer the inverse of `encode`, whatever the bytes.
  std::string decode_bytes(std::span<const std::int32_t> ids, Special special = Special::kept) const;

  /// One more than the largest id.
  std::int64_t vocabulary() const;
  std::optional<std::int32_t> id_of(std::string_view token) const;
  /// What ends a document: by tokenizer_config.json, or the first added token that is usually called so.
  std::optional<std::int32_t> end_of_document() const { return end_; }
  std::string token(std::int32_t id) const;

 private:
  friend class Encoder;
  explicit Tokenizer(std::shared_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<const TokenizerParts> parts_;
  std::optional<std::int32_t> end_;
};

/// For many texts: words that come again are looked up. One thread.
class Encoder {
 public:
  explicit Encoder(const Tokenizer& tokenizer);
  ~Encoder();
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  void encode(std::string_view text, Around around, TokenIds& out);

 private:
  struct Words;
  std::shared_ptr<const TokenizerParts> parts_;
  std::unique_ptr<Words> words_;
};

}  // namespace shardwright
