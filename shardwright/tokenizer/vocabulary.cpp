#include "shardwright/tokenizer/vocabulary.h"

#include <array>

#include "shardwright/tokenizer/unicode.h"

namespace shardwright {
namespace {

/// The character that stands for each byte: itself where it is visible, else one from U+0100 on, in order.
struct VisibleBytes {
  std::array<char32_t, 256> of_byte{};
  std::array<int, 0x200> byte_of{};  // -1: none

  VisibleBytes() {
    byte_of.fill(-1);
    char32_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool is_visible = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      const char32_t code = is_visible ? static_cast<char32_t>(b) : next++;
      of_byte[static_cast<std::size_t>(b)] = code;
      byte_of[code] = b;
    }
  }
};

const VisibleBytes& visible_bytes() {
  static const VisibleBytes table;
  return table;
}

}  // namespace

std::optional<std::string> bytes_of_visible(std::string_view token) {
  std::string out;
  for (std::size_t at = 0; at < token.size();) {
    const Char c = char_at(token, at);
    const int byte = c.code < visible_bytes().byte_of.size() ? visible_bytes().byte_of[c.code] : -1;
    if (byte < 0) return std::nullopt;
    out.push_back(static_cast<char>(byte));
    at += c.bytes;
  }
  return out;
}

std::string visible_of_bytes(std::string_view bytes) {
  std::string out;
  for (const char b : bytes) append_char(out, visible_bytes().of_byte[static_cast<unsigned char>(b)]);
  return out;
}

std::string byte_token(unsigned char byte) { return fmt::format("<0x{:02X}>", byte); }

void Vocabulary::add(std::string token, std::int64_t id) {
  if (id < 0 || id >= most_tokens) throw error("id {} of '{}' must be 0 to {}", id, token, most_tokens - 1);
  const auto place = static_cast<std::size_t>(id);
  if (place >= tokens_.size()) tokens_.resize(place + 1);
  if (tokens_[place]) throw error("id {} is that of '{}' and of '{}'", id, *tokens_[place], token);
  if (!ids_.emplace(token, static_cast<std::int32_t>(id)).second)
    throw error("token '{}' stands there twice", token);
  tokens_[place] = std::move(token);
}

void Vocabulary::add_again(const std::string& token, std::int64_t id) {
  const std::string* known = this->token(id);
  if (known == nullptr) return add(token, id);
  if (*known != token) throw error("id {} is that of '{}' and of '{}'", id, *known, token);
}

std::optional<std::int32_t> Vocabulary::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const std::string* Vocabulary::token(std::int64_t id) const {
  if (id < 0 || id >= size()) return nullptr;
  const auto& token = tokens_[static_cast<std::size_t>(id)];
  return token ? &*token : nullptr;
}

}  // namespace shardwright
