#include "shardwright/base/text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>
#include <tuple>

#include "shardwright/base/unknown.h"

namespace shardwright {
namespace {

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '/';
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

Attribute parse_attribute(Scanner& in) {
  if (in.peek("[")) return parse_shape(in);
  if (in.accept("true")) return true;
  if (in.accept("false")) return false;
  if (in.peek_name() || in.peek("-")) {
    const std::string sign = in.accept("-") ? "-" : "";
    std::string word = in.name("a value");
    // `1e-05` scans as the name `1e`, then its exponent.
    if (word.size() > 1 && std::isdigit(static_cast<unsigned char>(word[0])) && word.back() == 'e') {
      if (in.accept("-")) word += "-";
      in.accept("+");
      word += in.name("an exponent");
    }
    word = sign + word;
    if (auto i = to_integer(word)) return *i;
    if (auto d = to_number(word)) return *d;
    if (sign.empty()) return word;
  }
  in.fail("a value");
}

}  // namespace

void Scanner::skip_blanks() {
  while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
}

bool Scanner::at_end() {
  skip_blanks();
  return at_ == text_.size();
}

bool Scanner::peek(std::string_view token) {
  skip_blanks();
  if (!text_.substr(at_).starts_with(token)) return false;
  const std::size_t end = at_ + token.size();
  const bool is_word = is_name_char(token.back()) && token.back() != '.';
  return !is_word || end == text_.size() || !is_name_char(text_[end]);
}

bool Scanner::accept(std::string_view token) {
  if (!peek(token)) return false;
  at_ += token.size();
  return true;
}

void Scanner::expect(std::string_view token) {
  if (!accept(token)) fail(fmt::format("'{}'", token));
}

bool Scanner::peek_name() {
  skip_blanks();
  return at_ < text_.size() && is_name_char(text_[at_]);
}

std::string Scanner::name(std::string_view what) {
  if (!peek_name()) fail(what);
  const std::size_t start = at_;
  while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
  return std::string(text_.substr(start, at_ - start));
}

std::int64_t Scanner::integer(std::string_view what) {
  skip_blanks();
  std::int64_t value = 0;
  const auto [end, bad] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (bad != std::errc{}) fail(what);
  at_ = static_cast<std::size_t>(end - text_.data());
  return value;
}

double Scanner::number(std::string_view what) {
  skip_blanks();
  double value = 0;
  const auto [end, bad] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (bad != std::errc{}) fail(what);
  at_ = static_cast<std::size_t>(end - text_.data());
  return value;
}

std::string_view Scanner::rest() {
  skip_blanks();
  const std::string_view out = text_.substr(at_);
  at_ = text_.size();
  return out;
}

void Scanner::fail(std::string_view wanted) {
  skip_blanks();
  const std::string_view found = text_.substr(at_, 20);
  constexpr std::size_t longest = 200;
  const std::string text(text_.size() > longest ? std::string(text_.substr(0, longest)) + "..." : text_);
  if (found.empty()) throw error("{}: expected {} at the end of '{}'", what_, wanted, text);
  throw error("{}: expected {} at '{}' in '{}'", what_, wanted, found, text);
}

Shape parse_shape(Scanner& in) {
  Shape shape;
  in.expect("[");
  if (in.accept("]")) return shape;
  do shape.push_back(in.integer("an integer"));
  while (in.accept(","));
  in.expect("]");
  return shape;
}

Type parse_type(Scanner& in) {
  const std::string word = in.name("an element type");
  const auto dtype = dtype_of(word);
  if (!dtype)
    throw error("element type '{}' is unknown; there are f32, f64, f16, bf16, i32, i64, u8, bool", word);
  return {*dtype, parse_shape(in)};
}

Attributes parse_attributes(Scanner& in) {
  Attributes out;
  if (!in.accept("(")) return out;
  do {
    std::string name = in.name("an attribute");
    if (out.find(name)) throw error("attribute '{}' is given twice", name);
    in.expect("=");
    out.set(std::move(name), parse_attribute(in));
  } while (in.accept(","));
  in.expect(")");
  return out;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t start = 0;;) {
    const std::size_t end = text.find(separator, start);
    parts.push_back(text.substr(start, end - start));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i) out += separator;
    out += parts[i];
  }
  return out;
}

std::optional<std::size_t> end_of_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  for (std::size_t at = 0; at < text.size();) {
    const unsigned first = byte(at), second = byte(at + 1);
    const std::size_t length = first < 0x80   ? 1
                               : first < 0xc2 ? 0
                               : first < 0xe0 ? 2
                               : first < 0xf0 ? 3
                               : first < 0xf5 ? 4
                                              : 0;
    // Neither more bytes than needed, nor halves of pairs (U+D800 to U+DFFF), nor beyond U+10FFFF.
    const bool is_code = !(first == 0xe0 && second < 0xa0) && !(first == 0xed && second >= 0xa0) &&
                         !(first == 0xf0 && second < 0x90) && !(first == 0xf4 && second >= 0x90);
    if (length == 0 || !is_code) return at;
    for (std::size_t i = 1; i < length; ++i)
      if ((byte(at + i) & 0xc0) != 0x80) return at;
    at += length;
  }
  return std::nullopt;
}

std::optional<std::int64_t> to_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (bad != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> to_number(std::string_view text) {
  double value = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (bad != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string near_names(std::string_view written, std::span<const std::string> known) {
  const std::string name = lower(written);  // who writes H100 means h100
  constexpr std::size_t longest = 200;      // of what a person may have mistyped
  struct Near {
    std::tuple<bool, std::size_t, std::string_view> rank;
    std::string_view name;
  };
  std::vector<Near> near;
  if (name.empty() || name.size() > longest) return "";
  for (const std::string& k : known) {
    if (k.size() > 2 * longest) continue;
    const std::string small = lower(k);
    const std::size_t d = edit_distance(name, small);
    if (small.starts_with(name))  // it may have been cut short: those come first, alike ones in their order
      near.push_back({{false, d, ""}, k});
    else if (d <= std::min(std::max<std::size_t>(2, name.size() / 3),
                           std::max<std::size_t>(1, (name.size() - 1) / 2)))
      near.push_back({{true, d, k}, k});
  }
  std::ranges::stable_sort(near, {}, &Near::rank);
  if (near.empty()) return "";
  return near.size() == 1 ? fmt::format(" (did you mean {}?)", near[0].name)
                          : fmt::format(" (did you mean {} or {}?)", near[0].name, near[1].name);
}

std::string shell_quoted(std::string_view word) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+.,:/@%^";
  if (!word.empty() && word.find_first_not_of(plain) == word.npos) return std::string(word);
  std::string out;
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return "'" + out + "'";
}

}  // namespace shardwright
