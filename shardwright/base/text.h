// Reading text forms: one scanner for every grammar of the project, and the near names of error messages.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/base/attributes.h"
#include "shardwright/base/error.h"
#include "shardwright/base/shape.h"
#include "shardwright/base/tensor.h"

namespace shardwright {

/// Walks over a text; skips blanks between tokens (not line ends). Errors carry the line and what stood
/// there.
class Scanner {
 public:
  explicit Scanner(std::string_view text, std::string_view what = "text") : text_(text), what_(what) {}
  /// It reads where the text stands, so what ends with the call cannot be read.
  template <std::same_as<std::string> Text>
  explicit Scanner(Text&& text, std::string_view what = "text") = delete;

  /// Nothing but blanks is left.
  bool at_end();
  /// The next token starts with `token`; nothing is consumed.
  bool peek(std::string_view token);
  /// Consumes `token` if it is next. A word is taken only whole.
  bool accept(std::string_view token);
  /// Consumes `token`. Throws: Error that says what stood there instead.
  void expect(std::string_view token);
  /// Letters, digits, `_`, `.`, `/` and `-` inside (never as its end before `>`). Throws if there is none.
  std::string name(std::string_view what);
  bool peek_name();
  std::int64_t integer(std::string_view what);
  double number(std::string_view what);
  /// Everything up to the end.
  std::string_view rest();
  [[noreturn]] void fail(std::string_view wanted);

 private:
  void skip_blanks();
  std::string_view text_;
  std::string what_;
  std::size_t at_ = 0;
};

/// `[4, 8]`
Shape parse_shape(Scanner& in);
/// `f32[4, 8]`
Type parse_type(Scanner& in);
/// `(a=1, b=[2, 3], c=word)`, or nothing.
Attributes parse_attributes(Scanner& in);

std::vector<std::string_view> split(std::string_view text, char separator);
/// As a shell reads it back: in quotes where it needs them.
std::string shell_quoted(std::string_view word);
std::string_view trim(std::string_view text);
std::string join(std::span<const std::string> parts, std::string_view separator);

/// Where the text stops being UTF-8 (bytes before it are), or nothing. Source: RFC 3629, section 4.
std::optional<std::size_t> end_of_utf8(std::string_view text);

/// An integer written in full, or nothing.
std::optional<std::int64_t> to_integer(std::string_view text);
std::optional<double> to_number(std::string_view text);

/// ` (did you mean dense1.matmul?)` with the nearest names by edit distance, or nothing when none is near.
std::string near_names(std::string_view name, std::span<const std::string> known);

}  // namespace shardwright
