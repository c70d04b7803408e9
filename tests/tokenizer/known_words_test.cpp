// The words that are found by hand are those of the expression, as a general engine finds them.
#include <gtest/gtest.h>

#include "shardwright/tokenizer/pattern.h"
#include "shardwright/tokenizer/steps.h"
#include "shardwright/tokenizer/unicode.h"
#include "tests/support/changed_text.h"

namespace shardwright {
namespace {

using Texts = std::vector<std::string>;

const std::string gpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const std::string llama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string qwen =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

Texts by_hand(const PreTokenizer& words, const std::string& text) {
  Texts out;
  words({text, true}, [&](const TextPiece& piece) { out.emplace_back(piece.text); });
  return out;
}

Texts by_engine(const Finder& find, const std::string& text) {
  Texts out;
  for (const TextRange& r : pieces(text, find(text), Cut::isolated))
    out.push_back(text.substr(r.begin, r.end - r.begin));
  return out;
}

/// Of what the expressions tell apart, and of anything.
std::string drawn_text(testing::Random& random) {
  static const Texts bits = {
      " ",      " ", "  ", "\n",     "\r",      "\t",         "\u00a0", "\u0085", "\u3000",   "\u200b",
      "'",      "'", "s",  "S",      "\u017f",  "t",          "re",     "VE",     "m",        "lL",
      "d",      "a", "Z",  "\u00e9", "e\u0301", "\u0436",     "\u4e2d", "7",      "42",       "\u0663",
      "\u00bd", "!", ".",  "-",      "\u2581",  "\U0001f600", "_",      "\xff",   "\xe2\x96", "\u2028"};
  std::string out;
  for (std::size_t n = testing::below(random, 14); n > 0; --n)
    if (testing::below(random, 10) > 0)
      out += bits[testing::below(random, bits.size())];
    else
      append_char(out, static_cast<char32_t>(testing::below(random, 0xD800)));
  return out;
}

TEST(KnownWords, are_those_of_the_expression) {
  testing::Random random = testing::random_of(5);
  for (const std::string& expression : {gpt2, llama3, qwen}) {
    const PreTokenizer words = known_words(expression);
    ASSERT_TRUE(words) << expression;
    const Finder find = regular_expression(expression);
    for (int i = 0; i < 4000; ++i) {
      const std::string text = drawn_text(random);
      ASSERT_EQ(by_hand(words, text), by_engine(find, text)) << expression << "\nof '" << text << "'";
    }
  }
  EXPECT_FALSE(known_words(gpt2 + "|x"));
}

TEST(KnownWords, cut_a_text_as_described) {
  const auto of = [](const std::string& expression, const std::string& text) {
    return by_hand(known_words(expression), text);
  };
  EXPECT_EQ(of(gpt2, "it's 42  THEY'RE!\n"), (Texts{"it", "'s", " 42", " ", " THEY", "'", "RE", "!", "\n"}));
  EXPECT_EQ(of(llama3, "it's 12345  THEY'RE!\n\n x"),
            (Texts{"it", "'s", " ", "123", "45", " ", " THEY", "'RE", "!\n\n", " x"}));
  EXPECT_EQ(of(qwen, " 12"), (Texts{" ", "1", "2"}));
}

TEST(Pattern, cuts_by_matches) {
  const std::string text = "--a-b--";
  const auto cut = [&](Cut how) {
    return [&, how](bool inverted) {
      Texts out;
      for (const TextRange& r : pieces(text, literal("-")(text), how, inverted))
        out.push_back(text.substr(r.begin, r.end - r.begin));
      return out;
    };
  };
  EXPECT_EQ(cut(Cut::removed)(false), (Texts{"a", "b"}));
  EXPECT_EQ(cut(Cut::removed)(true), (Texts{"-", "-", "-", "-", "-"}));
  EXPECT_EQ(cut(Cut::isolated)(false), (Texts{"-", "-", "a", "-", "b", "-", "-"}));
  EXPECT_EQ(cut(Cut::contiguous)(false), (Texts{"--", "a", "-", "b", "--"}));
  EXPECT_EQ(cut(Cut::merged_with_previous)(false), (Texts{"-", "-", "a-", "b-", "-"}));
  EXPECT_EQ(cut(Cut::merged_with_next)(false), (Texts{"-", "-a", "-b", "-", "-"}));
}

}  // namespace
}  // namespace shardwright
