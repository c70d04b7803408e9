// Characters of UTF-8 and their kinds. A text may hold bytes that are no UTF-8: each broken part is one character of
// kind `other`, so that whoever cuts a text into pieces keeps every byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardwright {

enum class CharKind : std::uint8_t { other, letter, number, space };

constexpr char32_t broken_char = 0xFFFFFFFF;

struct Char {
  char32_t code = 0;  // broken_char: no UTF-8
  std::uint32_t bytes = 1;
};

/// The character that begins at a byte. `at` is inside the text.
Char char_at(std::string_view text, std::size_t at);
/// The character that ends where the text does. The text is not empty.
Char last_char(std::string_view text);
void append_char(std::string& to, char32_t code);
std::string utf8_of(char32_t code);
std::vector<char32_t> chars_of(std::string_view text);

bool is_ascii(std::string_view text);

/// Letter, number or white space as regular expressions have them: \p{L}, \p{N}, \s.
CharKind kind_of(char32_t code);
bool is_space(char32_t code);
/// \w: letters, marks, digits, connecting punctuation.
bool is_word(char32_t code);
/// Of ASCII or of \p{P}.
bool is_punctuation(char32_t code);
/// Of \p{C}: control characters, formats, what is private or not assigned.
bool is_control(char32_t code);
/// Of \p{M}, of \p{Mn}.
bool is_mark(char32_t code);
bool is_nonspacing_mark(char32_t code);
bool is_decimal_digit(char32_t code);
/// Of one character, wherever it stands; İ becomes two.
void append_lower(std::string& to, char32_t code);

/// With U+FFFD for each broken part.
std::string repaired(std::string_view text);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
/// Of a text whose broken parts are repaired.
std::string normal_form(std::string_view text, NormalForm form);

/// What a reader takes for one character: where each ends.
std::vector<std::size_t> grapheme_ends(std::string_view text);

}  // namespace shardwright
