// Decoding inverts encoding, whatever the bytes; long words are merged as short ones, and as the definition says.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "shardwright/tokenizer/tokenizer.h"
#include "tests/support/changed_text.h"

namespace shardwright {
namespace {

using nlohmann::json;
using testing::below;
using testing::Random;

const std::string folder = "tests/reference/tokenizer/";
constexpr const char* block = "\u2581";

std::string drawn_bytes(Random& random) {
  std::string out;
  for (std::size_t n = below(random, 60); n > 0; --n) {
    switch (below(random, 4)) {
      case 0: out.push_back(static_cast<char>(random())); break;
      case 1: out += std::string(1 + below(random, 4), " \n\t.7"[below(random, 5)]); break;
      case 2:
        out += std::vector<std::string>{"\u00e9", "\u4e2d\u6587", "\U0001f600", "\u0436",
                                        "e\u0301"}[below(random, 5)];
        break;
      default: out += std::vector<std::string>{"the", " and", "ing", "Zq", "'s"}[below(random, 5)];
    }
  }
  return out;
}

TEST(TokenizerRoundTrip, bytes_come_back_from_byte_level_and_byte_fallback) {
  Random random = testing::random_of(3);
  for (const char* file : {"gpt2_style", "llama3_style", "llama3_11", "llama2_style", "llama2_11"}) {
    const Tokenizer tokenizer = Tokenizer::read(folder + file + ".json");
    const bool has_blocks = std::string(file).starts_with("llama2");
    Encoder encoder(tokenizer);
    for (int i = 0; i < 3000; ++i) {
      const std::string bytes = drawn_bytes(random);
      if (has_blocks && bytes.find(block) != std::string::npos) continue;  // it becomes a blank
      const TokenIds ids = tokenizer.encode(bytes);
      ASSERT_EQ(tokenizer.decode_bytes(ids), bytes) << file;
      TokenIds again;
      encoder.encode(bytes, Around::nothing, again);
      ASSERT_EQ(again, ids) << file;
    }
  }
}

TEST(TokenizerRoundTrip, any_bytes_have_ids_and_any_ids_a_text) {
  Random random = testing::random_of(4);
  for (const char* file :
       {"gpt2_11", "llama2_metaspace_11", "t5_11", "t5_precompiled_11", "bert_11", "bert_uncased_11"}) {
    const Tokenizer tokenizer = Tokenizer::read(folder + file + ".json");
    for (int i = 0; i < 1000; ++i) {
      for (const std::int32_t id : tokenizer.encode(drawn_bytes(random), Around::special_tokens))
        ASSERT_TRUE(0 <= id && id < tokenizer.vocabulary()) << file;
      TokenIds ids;
      for (std::size_t n = below(random, 20); n > 0; --n)
        ids.push_back(static_cast<std::int32_t>(below(random, 1000)) - 50);
      tokenizer.decode(ids, Special::skipped);
      tokenizer.decode_bytes(ids);
    }
  }
}

/// By the definition: of all pairs the first in the list, the leftmost of them, again and again.
TokenIds merged(const json& model, std::vector<std::string> symbols) {
  std::map<std::pair<std::string, std::string>, std::size_t> ranks;
  for (std::size_t i = 0; i < model["merges"].size(); ++i)
    ranks.emplace(std::pair(model["merges"][i][0], model["merges"][i][1]), i);
  for (;;) {
    std::size_t best = ranks.size(), at = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i)
      if (const auto found = ranks.find({symbols[i], symbols[i + 1]});
          found != ranks.end() && found->second < best)
        best = found->second, at = i;
    if (best == ranks.size()) break;
    symbols[at] += symbols[at + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  TokenIds out;
  for (const std::string& s : symbols) out.push_back(model["vocab"][s]);
  return out;
}

TEST(Bpe, merges_short_and_long_words_alike) {
  const json file = json::parse(std::ifstream(folder + "llama2_11.json"));
  const Tokenizer tokenizer = Tokenizer::read(folder + "llama2_11.json");
  Random random = testing::random_of(6);
  for (const std::size_t length : {1, 2, 3, 10, 47, 48, 49, 50, 200, 1000}) {
    std::vector<std::string> symbols = {block};
    std::string text;
    while (symbols.size() < length) {
      const bool is_blank = below(random, 8) == 0;
      const std::string letter(1, "aeioutnglsbdk"[below(random, 13)]);
      symbols.push_back(is_blank ? block : letter);
      text += is_blank ? " " : letter;
    }
    if (text.empty()) continue;
    EXPECT_EQ(tokenizer.encode(text), merged(file["model"], symbols)) << text;
  }
}

}  // namespace
}  // namespace shardwright
