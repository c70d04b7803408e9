// What is wrong with a tokenizer.json is told in one line, with its place; changed files are read, or refused so.
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "shardwright/tokenizer/tokenizer.h"
#include "tests/support/changed_text.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using nlohmann::json;

const std::string folder = "tests/reference/tokenizer/";

struct Broken {
  const char* place;  // JSON pointer of what is set
  const char* value;  // JSON
  const char* told;   // the beginning of the message
};

void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.place << " = " << broken.value; }

class BrokenTokenizers : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenTokenizers, are_refused_in_a_line) {
  json document = json::parse(read_bytes(folder + "llama3_11.json"));
  document[json::json_pointer(GetParam().place)] = json::parse(GetParam().value);
  const std::string told = error_of([&] { Tokenizer::parse(document.dump()); });
  EXPECT_TRUE(told.starts_with(GetParam().told)) << told;
  EXPECT_EQ(told.find('\n'), std::string::npos) << told;
}

INSTANTIATE_TEST_SUITE_P(
    All, BrokenTokenizers,
    ::testing::Values(
        Broken{"/model/type", R"("WordLevel")",
               "model.type: model 'WordLevel' does not exist; there are BPE, Unigram, WordPiece"},
        Broken{"/model", "3", "model: is 3, must be an object"},
        Broken{"/model/merges/7", R"("abc")", "model.merges[7]: must be two tokens"},
        Broken{"/model/merges/7", R"(["a", "zzzz"])", "model.merges[7]: 'azzzz' is not in the vocabulary"},
        Broken{"/model/vocab/a", "-1", "model.vocab.a: is -1, must be an integer from 0"},
        Broken{"/model/vocab/a", "900000000",
               "model.vocab.a: is 900000000, must be an integer from 0 to 4194303"},
        Broken{"/model/vocab/a", "2.5", "model.vocab.a: is 2.5, must be an integer"},
        Broken{"/model/vocab/zz9", "5", "id 5 is that of '&' and of 'zz9'"},
        Broken{"/model/dropout", "0.1", "model.dropout: leaves out merges by chance"},
        Broken{"/model/unk_token", R"("nobody")", "model.unk_token: 'nobody' is not in the vocabulary"},
        Broken{"/model/fuse", "true", "model.fuse: is not understood (did you mean fuse_unk?)"},
        Broken{"/normalizer", R"({"type": "NFCK"})",
               "normalizer.type: normalizer 'NFCK' does not exist (did you mean NFC"},
        Broken{"/normalizer", R"({"type": "Prepend"})", "normalizer.prepend: is missing"},
        Broken{"/normalizer", R"({"type": "Replace", "pattern": {"String": ""}, "content": ""})",
               "the pattern is empty"},
        Broken{"/normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "a b"})",
               "normalizer.precompiled_charsmap: is no base64"},
        Broken{"/normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "AAAAAA"})",
               "normalizer.precompiled_charsmap: has 4 bytes, of which 0 should be its trie"},
        Broken{"/pre_tokenizer", R"({"type": "UnicodeScripts"})",
               "pre_tokenizer.type: pre-tokenizer 'UnicodeScripts' does not exist"},
        Broken{"/pre_tokenizer/pretokenizers/0/pattern/Regex", R"("a(b")",
               "the pattern 'a(b' is not understood at character"},
        Broken{"/pre_tokenizer/pretokenizers/0/behavior", R"("Kept")",
               "pre_tokenizer.pretokenizers[0].behavior: behavior 'Kept' does not exist"},
        Broken{"/pre_tokenizer/pretokenizers/2", R"({"type": "Digits"})",
               "pre_tokenizer.pretokenizers[2]: must stand before ByteLevel"},
        Broken{"/post_processor",
               R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}], "pair": []})",
               "post_processor.single[0].SpecialToken.id: '<s>' is not among the special_tokens"},
        Broken{"/decoder", R"({"type": "CTC"})", "decoder.type: decoder 'CTC' does not exist"},
        Broken{"/added_tokens/0/id", "3", "added_tokens[0]: id 3 is that of"},
        Broken{"/added_tokens/0/content", R"("")", "added_tokens[0].content: is empty"},
        Broken{"/added_tokens", "{}", "added_tokens: is {}, must be an array"},
        Broken{"/masks", "1", "masks: is not understood"}));

TEST(TokenizerFiles, are_refused_with_their_path) {
  const std::string path = scratch_folder();
  write_bytes(path + "/tokenizer.json", "{\n\"version\": }");
  EXPECT_EQ(
      error_of([&] { Tokenizer::read(path); }).find(path + "/tokenizer.json: is no JSON: line 2, byte "), 0U);
  write_bytes(path + "/tokenizer.json", R"({"model": {"type": "BPE", "vocab": {}, "vocab": {}}})");
  EXPECT_EQ(error_of([&] { Tokenizer::read(path); }),
            path + "/tokenizer.json: key \"vocab\" stands twice in one object");
  write_bytes(path + "/tokenizer.json", std::string(1000, '[') + std::string(1000, ']'));
  EXPECT_EQ(error_of([&] { Tokenizer::read(path); }), path + "/tokenizer.json: is nested more than 32 deep");
  EXPECT_TRUE(error_of([&] { Tokenizer::read(path + "/none"); }).starts_with(path + "/none: cannot be read"));
}

TEST(TokenizerFiles, say_what_ends_a_document) {
  const std::string path = scratch_folder();
  write_bytes(path + "/tokenizer.json", read_bytes(folder + "llama3_11.json"));
  EXPECT_EQ(Tokenizer::read(path).end_of_document(), 701);  // by its name
  write_bytes(path + "/tokenizer_config.json", R"({"eos_token": {"content": "<|eot_id|>"}, "x": 1})");
  EXPECT_EQ(Tokenizer::read(path).end_of_document(), 704);
  write_bytes(path + "/tokenizer_config.json", R"({"eos_token": "<none>"})");
  EXPECT_EQ(error_of([&] { Tokenizer::read(path); }),
            path + "/tokenizer_config.json: eos_token: '<none>' is not in the vocabulary");
}

TEST(TokenizerFiles, changed_at_random_are_read_or_refused) {
  testing::Random random = testing::random_of(8);
  int taken = 0, refused = 0;
  for (const char* file : {"gpt2_11", "llama3_11", "llama2_metaspace_11", "t5_precompiled_11", "bert_11"}) {
    json document = json::parse(read_bytes(folder + file + ".json"));
    json& vocab = document["model"]["vocab"];
    // Most of what is changed shall be something else than one of many tokens.
    if (vocab.is_array()) vocab.erase(vocab.begin() + 60, vocab.end());
    if (document["model"].contains("merges"))
      document["model"]["merges"].erase(document["model"]["merges"].begin() + 5,
                                        document["model"]["merges"].end());
    const std::string text = document.dump();
    for (int i = 0; i < 60; ++i) {
      const std::string other =
          i % 3 > 0 ? testing::changed_json(random, text) : testing::changed_text(random, text);
      const auto start = std::chrono::steady_clock::now();
      try {
        const Tokenizer tokenizer = Tokenizer::parse(other);
        ++taken;
        for (const char* bytes : {"the <s> caf\u00e9 's\n\n 42 \xff\u2581<extra_id_0> [MASK]", "  "})
          tokenizer.decode(tokenizer.encode(bytes, Around::special_tokens));
        tokenizer.encode_pair("a", "b");
      } catch (const Error& e) {
        ++refused;
        EXPECT_LT(std::string(e.what()).size(), 1000U) << e.what();
        EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
      }
      EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 5);
    }
  }
  EXPECT_GT(taken, 20);
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace shardwright
