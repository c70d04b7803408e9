#include "shardwright/tokenizer/unicode.h"

#include <unicode/brkiter.h>
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "shardwright/base/error.h"

namespace shardwright {
namespace {

constexpr std::size_t code_points = 0x110000;

bool is_of(char32_t code, std::uint32_t categories) {
  return code < code_points && (U_GET_GC_MASK(static_cast<UChar32>(code)) & categories) != 0;
}

/// A byte for each code point: asking the library for each character of a text takes longer than all that follows.
std::vector<CharKind> made_kinds() {
  std::vector<CharKind> out(code_points, CharKind::other);
  const auto fill = [](const void* context, UChar32 start, UChar32 limit, UCharCategory category) -> UBool {
    auto& kinds = *static_cast<std::vector<CharKind>*>(const_cast<void*>(context));
    const std::uint32_t mask = U_MASK(category);
    const CharKind kind = (mask & U_GC_L_MASK) != 0   ? CharKind::letter
                          : (mask & U_GC_N_MASK) != 0 ? CharKind::number
                                                      : CharKind::other;
    std::fill(kinds.begin() + start, kinds.begin() + limit, kind);
    return true;
  };
  u_enumCharTypes(fill, &out);
  for (std::size_t code = 0; code < 0x10000; ++code)  // there is no white space behind
    if (u_isUWhiteSpace(static_cast<UChar32>(code))) out[code] = CharKind::space;
  return out;
}

void check_unicode(UErrorCode status) {
  if (U_FAILURE(status)) throw error("the Unicode library: {}", u_errorName(status));
}

const icu::Normalizer2& normalizer(NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* out = nullptr;
  switch (form) {
    case NormalForm::nfc: out = icu::Normalizer2::getNFCInstance(status); break;
    case NormalForm::nfd: out = icu::Normalizer2::getNFDInstance(status); break;
    case NormalForm::nfkc: out = icu::Normalizer2::getNFKCInstance(status); break;
    case NormalForm::nfkd: out = icu::Normalizer2::getNFKDInstance(status); break;
  }
  check_unicode(status);
  return *out;
}

}  // namespace

Char char_at(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {first, 1};
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  std::size_t next = at;
  UChar32 code = 0;
  U8_NEXT(bytes, next, text.size(), code);
  return {code < 0 ? broken_char : static_cast<char32_t>(code), static_cast<std::uint32_t>(next - at)};
}

Char last_char(std::string_view text) {
  std::size_t start = text.size() - 1;
  for (int back = 0; back < 3 && start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80;
       ++back)
    --start;
  const Char found = char_at(text, start);
  if (start + found.bytes == text.size()) return found;
  return {broken_char, 1};
}

void append_char(std::string& to, char32_t code) {
  if (code < 0x80) {
    to.push_back(static_cast<char>(code));
    return;
  }
  std::uint8_t bytes[4];
  int length = 0;
  U8_APPEND_UNSAFE(bytes, length, code);
  to.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
}

std::string utf8_of(char32_t code) {
  std::string out;
  append_char(out, code);
  return out;
}

std::vector<char32_t> chars_of(std::string_view text) {
  std::vector<char32_t> out;
  for (std::size_t at = 0; at < text.size();) {
    const Char c = char_at(text, at);
    out.push_back(c.code);
    at += c.bytes;
  }
  return out;
}

bool is_ascii(std::string_view text) {
  std::size_t at = 0;
  std::uint64_t high = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, text.data() + at, 8);
    high |= eight;
  }
  for (; at < text.size(); ++at) high |= static_cast<unsigned char>(text[at]);
  return (high & 0x8080808080808080) == 0;
}

CharKind kind_of(char32_t code) {
  static const std::vector<CharKind> kinds = made_kinds();
  return code < code_points ? kinds[code] : CharKind::other;
}

bool is_space(char32_t code) { return kind_of(code) == CharKind::space; }
bool is_word(char32_t code) {
  return is_of(code, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK) ||
         (code < code_points &&
          (u_isUAlphabetic(static_cast<UChar32>(code)) || code == 0x200C || code == 0x200D));
}
bool is_punctuation(char32_t code) {
  if (code < 0x80) return code > 0x20 && code < 0x7F && !u_isalnum(static_cast<UChar32>(code));
  return is_of(code, U_GC_P_MASK);
}
bool is_control(char32_t code) {
  if (code < 0x80) return code < 0x20 || code == 0x7F;
  return is_of(code, U_GC_C_MASK);
}
bool is_mark(char32_t code) { return is_of(code, U_GC_M_MASK); }
bool is_nonspacing_mark(char32_t code) { return is_of(code, U_GC_MN_MASK); }
bool is_decimal_digit(char32_t code) { return is_of(code, U_GC_ND_MASK); }

void append_lower(std::string& to, char32_t code) {
  if (code < 0x80) {
    to.push_back(static_cast<char>(code >= 'A' && code <= 'Z' ? code + 32 : code));
    return;
  }
  constexpr char32_t dotted_capital_i = 0x130, dot_above = 0x307;
  if (code >= code_points) return append_char(to, 0xFFFD);
  append_char(to,
              code == dotted_capital_i ? U'i' : static_cast<char32_t>(u_tolower(static_cast<UChar32>(code))));
  if (code == dotted_capital_i) append_char(to, dot_above);
}

std::string repaired(std::string_view text) {
  if (is_ascii(text)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Char c = char_at(text, at);
    if (c.code == broken_char)
      append_char(out, 0xFFFD);
    else
      out.append(text.substr(at, c.bytes));
    at += c.bytes;
  }
  return out;
}

std::string normal_form(std::string_view text, NormalForm form) {
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  UErrorCode status = U_ZERO_ERROR;
  normalizer(form).normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())),
                                 sink, nullptr, status);
  check_unicode(status);
  return out;
}

std::vector<std::size_t> grapheme_ends(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<icu::BreakIterator> breaks(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  UText whole = UTEXT_INITIALIZER;
  utext_openUTF8(&whole, text.data(), static_cast<std::int64_t>(text.size()), &status);
  check_unicode(status);
  breaks->setText(&whole, status);
  std::vector<std::size_t> out;
  breaks->first();
  for (std::int32_t end = breaks->next(); end != icu::BreakIterator::DONE; end = breaks->next())
    out.push_back(static_cast<std::size_t>(end));
  utext_close(&whole);
  check_unicode(status);
  return out;
}

}  // namespace shardwright
