// The words of two expressions that nearly all byte-level tokenizers have, found by looking at each character once.
// `|` takes the first that matches, so the order of the questions is that of the alternatives.
//
//   GPT-2:    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   Llama 3:  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
//             \s*[\r\n]+|\s+(?!\S)|\s+                               and Qwen's, with \p{N}
//
// Every character is in some word. tests/tokenizer/known_words_test.cpp holds them to the general engine.
#include <array>

#include "shardwright/tokenizer/steps.h"
#include "shardwright/tokenizer/unicode.h"

namespace shardwright {
namespace {

constexpr std::string_view gpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view llama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view qwen =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// A character with its kind; at the end of the text one of no bytes.
struct Seen {
  char32_t code = 0;
  std::uint32_t bytes = 0;
  CharKind kind = CharKind::other;
  bool is(CharKind k) const { return bytes > 0 && kind == k; }
  bool is_line_end() const { return bytes > 0 && (code == U'\r' || code == U'\n'); }
};

class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  Seen seen(std::size_t at) const {
    if (at >= text_.size()) return {};
    const Char c = char_at(text_, at);
    return {c.code, c.bytes, kind_of(c.code)};
  }
  std::size_t skip(std::size_t at, CharKind kind) const {
    for (Seen c = seen(at); c.is(kind); c = seen(at)) at += c.bytes;
    return at;
  }
  std::size_t skip_line_ends(std::size_t at) const {
    while (at < text_.size() && (text_[at] == '\r' || text_[at] == '\n')) ++at;
    return at;
  }

  /// Of `'s`, `'t` and so on; `at` if there is none.
  std::size_t end_of_contraction(std::size_t at, char32_t (*folded)(char32_t)) const {
    if (at >= text_.size() || text_[at] != '\'') return at;
    const Seen first = seen(at + 1);
    if (first.bytes == 0) return at;
    const char32_t a = folded(first.code);
    const std::size_t next = at + 1 + first.bytes;
    if (a == U's' || a == U't' || a == U'm' || a == U'd') return next;
    const Seen second = seen(next);
    if (second.bytes == 0) return at;
    const char32_t b = folded(second.code);
    const bool is_one = (a == U'r' && b == U'e') || (a == U'v' && b == U'e') || (a == U'l' && b == U'l');
    return is_one ? next + second.bytes : at;
  }

  /// Of white space: all but the last character where something follows, or that one alone.
  std::size_t end_of_space(std::size_t at) const {
    std::size_t last = at, end = at;
    for (Seen c = seen(end); c.is(CharKind::space); c = seen(end)) {
      last = end;
      end += c.bytes;
    }
    return end == text_.size() || last == at ? end : last;
  }
  /// Behind the last line end of a run of white space; `at` if there is none.
  std::size_t end_of_lines(std::size_t at) const {
    std::size_t out = at;
    for (Seen c = seen(at); c.is(CharKind::space); c = seen(at)) {
      at += c.bytes;
      if (c.is_line_end()) out = at;
    }
    return out;
  }

 private:
  std::string_view text_;
};

char32_t same(char32_t c) { return c; }
char32_t folded(char32_t c) {
  constexpr char32_t long_s = 0x17F;
  if (c == long_s) return U's';
  return c >= U'A' && c <= U'Z' ? c + 32 : c;
}

std::size_t end_of_gpt2(const Words& words, std::size_t at) {
  if (const std::size_t end = words.end_of_contraction(at, same); end > at) return end;
  const Seen first = words.seen(at);
  const Seen head = first.code == U' ' ? words.seen(at + 1) : first;
  if (head.bytes > 0 && head.kind != CharKind::space)
    return words.skip(first.code == U' ' ? at + 1 : at, head.kind);
  return words.end_of_space(at);
}

template <int most_digits>
std::size_t end_of_llama3(const Words& words, std::size_t at) {
  if (const std::size_t end = words.end_of_contraction(at, folded); end > at) return end;
  const Seen first = words.seen(at);
  if (first.kind == CharKind::letter) return words.skip(at, CharKind::letter);
  if (first.kind != CharKind::number && !first.is_line_end() &&
      words.seen(at + first.bytes).is(CharKind::letter))
    return words.skip(at + first.bytes, CharKind::letter);
  if (first.kind == CharKind::number) {
    std::size_t end = at;
    for (int i = 0; i < most_digits && words.seen(end).is(CharKind::number); ++i)
      end += words.seen(end).bytes;
    return end;
  }
  const bool has_blank = first.code == U' ';
  if (first.kind == CharKind::other || (has_blank && words.seen(at + 1).is(CharKind::other)))
    return words.skip_line_ends(words.skip(has_blank ? at + 1 : at, CharKind::other));
  if (const std::size_t end = words.end_of_lines(at); end > at) return end;
  return words.end_of_space(at);
}

template <class End>
PreTokenizer cutting(End end_of) {
  return [end_of](const TextPiece& piece, const TakePiece& take) {
    const Words words(piece.text);
    for (std::size_t at = 0; at < piece.text.size();) {
      const std::size_t end = end_of(words, at);
      take({piece.text.substr(at, end - at), piece.begins_text && at == 0});
      at = end;
    }
  };
}

}  // namespace

PreTokenizer known_words(std::string_view expression) {
  if (expression == gpt2) return cutting(end_of_gpt2);
  if (expression == llama3) return cutting(end_of_llama3<3>);
  if (expression == qwen) return cutting(end_of_llama3<1>);
  return nullptr;
}

}  // namespace shardwright
