// The character map of SentencePiece: a double-array trie from texts to places in a text of replacements.
//
// A unit of the trie is 32 bits: `label` is the byte that leads there, `offset` where its followers begin (a follower's
// place is offset XOR byte), and if it `has_leaf` the follower for byte 0 holds the value. Source: Yata's darts-clone.
//
// What is looked up is each grapheme of less than 6 bytes, and where it has no replacement each of its characters. Of a
// grapheme the shortest beginning that the map has counts, for all of it: so does the library whose ids are the measure.
#include <array>
#include <cstring>
#include <memory>

#include "shardwright/tokenizer/steps.h"
#include "shardwright/tokenizer/unicode.h"

namespace shardwright {
namespace {

std::string from_base64(std::string_view text, const Fields& fields) {
  static constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (const char c : text) {
    const std::size_t digit = digits.find(c);
    if (digit == std::string_view::npos) throw fields.wrong("precompiled_charsmap", "is no base64");
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out.push_back(static_cast<char>(bits >> count & 0xFF));
  }
  return out;
}

struct Unit {
  std::uint32_t bits = 0;
  bool has_leaf() const { return (bits >> 8 & 1) != 0; }
  std::uint32_t value() const { return bits & 0x7FFFFFFF; }
  std::uint32_t label() const { return bits & 0x800000FF; }
  std::uint32_t offset() const { return bits >> 10 << ((bits & 1U << 9) >> 6); }
};

class CharsMap {
 public:
  explicit CharsMap(const Fields& fields) {
    fields.check_known({"type", "precompiled_charsmap"});
    const std::string bytes = from_base64(fields.text("precompiled_charsmap"), fields);
    std::uint32_t size = 0;
    if (bytes.size() >= 4) std::memcpy(&size, bytes.data(), 4);
    if (size == 0 || size % 4 != 0 || size > bytes.size() - 4)
      throw fields.wrong("precompiled_charsmap",
                         "has {} bytes, of which {} should be its trie; cut off or damaged", bytes.size(),
                         size);
    units_.resize(size / 4);
    std::memcpy(units_.data(), bytes.data() + 4, size);
    replacements_ = bytes.substr(4 + std::size_t{size});
  }

  /// Of the shortest beginning that has one.
  std::optional<std::string_view> replacement(std::string_view text) const {
    std::size_t at = units_[0].offset();
    for (const char byte : text) {
      const auto label = static_cast<unsigned char>(byte);
      at ^= label;
      if (label == 0 || at >= units_.size() || units_[at].label() != label) return std::nullopt;
      const Unit unit = units_[at];
      at ^= unit.offset();
      if (!unit.has_leaf()) continue;
      const std::size_t place = at < units_.size() ? units_[at].value() : replacements_.size();
      if (place >= replacements_.size()) return std::nullopt;  // a damaged map
      const std::string_view rest = std::string_view(replacements_).substr(place);
      return rest.substr(0, rest.find('\0'));
    }
    return std::nullopt;
  }

 private:
  std::vector<Unit> units_;
  std::string replacements_;
};

void put_chars(const CharsMap& map, std::string_view grapheme, std::string& out) {
  for (std::size_t at = 0; at < grapheme.size();) {
    const std::string_view own = grapheme.substr(at, char_at(grapheme, at).bytes);
    out.append(map.replacement(own).value_or(own));
    at += own.size();
  }
}

/// The next grapheme is the character at `at`: a boundary stands between two characters of ASCII unless they end a line.
bool stands_alone_at(std::string_view text, std::size_t at) {
  const auto is_plain = [&](std::size_t place) { return static_cast<unsigned char>(text[place]) < 0x80; };
  return is_plain(at) && text[at] != '\r' && (at + 1 == text.size() || is_plain(at + 1));
}

void put_graphemes(const CharsMap& map, std::string_view text, std::string& out) {
  constexpr std::size_t too_long = 6;
  std::size_t begin = 0;
  for (const std::size_t end : grapheme_ends(text)) {
    const std::string_view grapheme = text.substr(begin, end - begin);
    begin = end;
    const auto whole = grapheme.size() < too_long ? map.replacement(grapheme) : std::nullopt;
    if (whole)
      out.append(*whole);
    else
      put_chars(map, grapheme, out);
  }
}

}  // namespace

Normalizer precompiled_normalizer(const Fields& fields) {
  return [map = std::make_shared<const CharsMap>(fields)](std::string& text) {
    const std::string from = repaired(text);
    std::string out;
    out.reserve(from.size());
    for (std::size_t at = 0; at < from.size();) {
      const std::size_t begin = at;
      while (at < from.size() && stands_alone_at(from, at))
        put_chars(*map, std::string_view(from).substr(at++, 1), out);
      if (at == begin) {  // what the library has to look at, up to where a plain character follows another
        while (at < from.size() &&
               (at == begin || !stands_alone_at(from, at) || !stands_alone_at(from, at - 1)))
          ++at;
        put_graphemes(*map, std::string_view(from).substr(begin, at - begin), out);
      }
    }
    text = std::move(out);
  };
}

}  // namespace shardwright
