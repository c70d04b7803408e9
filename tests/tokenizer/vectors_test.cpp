// What another implementation, which nobody here wrote, makes of texts (tests/reference/tokenizer/README.md).
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "shardwright/tokenizer/tokenizer.h"

namespace shardwright {
namespace {

using nlohmann::json;

const std::string folder = "tests/reference/tokenizer/";

/// By the tokenizer's name.
const std::map<std::string, json>& groups() {
  static const std::map<std::string, json> all = [] {
    std::map<std::string, json> out;
    for (const char* file : {"vectors.json", "vectors_11.json"})
      for (json& group : json::parse(std::ifstream(folder + file))) {
        const std::string name = group["file"];
        out.emplace(name.substr(0, name.find('.')), std::move(group));
      }
    return out;
  }();
  return all;
}

class TokenizerVectors : public ::testing::TestWithParam<const char*> {
 protected:
  const json& group_ = groups().at(GetParam());
  Tokenizer tokenizer_ = Tokenizer::read(folder + GetParam() + ".json");
};

INSTANTIATE_TEST_SUITE_P(All, TokenizerVectors,
                         ::testing::Values("gpt2_style", "llama3_style", "llama2_style", "gpt2_11",
                                           "llama3_11", "llama2_11", "llama2_metaspace_11", "t5_11",
                                           "t5_precompiled_11", "bert_11", "bert_uncased_11"),
                         [](const auto& test) { return std::string(test.param); });

TEST(TokenizerReference, are_all_looked_at) { EXPECT_EQ(groups().size(), 11U); }

TEST_P(TokenizerVectors, texts_become_their_ids) {
  ASSERT_GE(group_["cases"].size(), 49U);
  Encoder encoder(tokenizer_);  // of words that it has seen it looks the ids up
  for (int round = 0; round < 2; ++round)
    for (const json& c : group_["cases"]) {
      const std::string text = c["text"];
      EXPECT_EQ(tokenizer_.encode(text), c["ids"].get<TokenIds>()) << c["text"];
      EXPECT_EQ(tokenizer_.encode(text, Around::special_tokens), c["ids_with_special"].get<TokenIds>())
          << c["text"];
      TokenIds seen;
      encoder.encode(text, Around::special_tokens, seen);
      EXPECT_EQ(seen, c["ids_with_special"].get<TokenIds>()) << c["text"];
    }
}

TEST_P(TokenizerVectors, ids_become_their_texts) {
  for (const json& c : group_["cases"]) {
    EXPECT_EQ(tokenizer_.decode(c["ids"].get<TokenIds>()), c["decoded"].get<std::string>()) << c["text"];
    EXPECT_EQ(tokenizer_.decode(c["ids_with_special"].get<TokenIds>(), Special::skipped),
              c["decoded_skip_special"].get<std::string>())
        << c["text"];
  }
  for (const json& c : group_.value("decode_cases", json::array())) {
    EXPECT_EQ(tokenizer_.decode(c["ids"].get<TokenIds>()), c["decoded"].get<std::string>()) << c["ids"];
    EXPECT_EQ(tokenizer_.decode(c["ids"].get<TokenIds>(), Special::skipped),
              c["decoded_skip_special"].get<std::string>())
        << c["ids"];
  }
}

TEST_P(TokenizerVectors, two_texts_stand_in_their_template) {
  for (const json& c : group_.value("pair_cases", json::array())) {
    const EncodedPair pair =
        tokenizer_.encode_pair(c["text"].get<std::string>(), c["pair"].get<std::string>());
    EXPECT_EQ(pair.ids, c["ids_with_special"].get<TokenIds>()) << c["text"];
    EXPECT_EQ(pair.types, c["type_ids"].get<TokenIds>()) << c["text"];
  }
}

}  // namespace
}  // namespace shardwright
