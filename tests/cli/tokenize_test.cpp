// Text to tokens to losses: the same whatever the file is that tokens come in.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shardwright/runtime/data/token_file.h"
#include "shardwright/tokenizer/tokenizer.h"
#include "tests/support/command_outcome.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using Words = std::vector<std::string>;

const std::string tokenizer = "tests/reference/tokenizer/gpt2_style.json";
const std::string decoder = "llama:layers=1,hidden=16,heads=4,ffn=16,vocab=900,seq=8,batch=4";

using Ran = testing::CommandOutcome;

Ran run(const Words& words) { return testing::outcome_of(words); }

std::string told_by(const Words& words) {
  const Ran ran = run(words);
  EXPECT_EQ(ran.status, 2) << ran.out;
  EXPECT_EQ(ran.out, "");
  return ran.err;
}

const std::string texts[] = {"the quiet river builds a simple bridge\n\n",
                             "The teacher answers; the READER watches 42 \u0436 "};

/// Files of the two documents, in a folder of the test's own.
class TokenizeVerb : public ::testing::Test {
 protected:
  TokenizeVerb() {
    for (int times = 0; times < 8; ++times)
      for (const std::string& text : texts) {
        write_bytes(at(fmt::format("{}{}.txt", times, text[0])), text);
        lines_ += nlohmann::json{{"id", times}, {"text", text}}.dump() + "\n";
      }
    write_bytes(at("all.jsonl"), lines_);
  }
  std::string at(const std::string& name) const { return folder_ + "/" + name; }
  Words text_files() const {
    Words out;
    for (int times = 0; times < 8; ++times)
      for (const std::string& text : texts) out.push_back(at(fmt::format("{}{}.txt", times, text[0])));
    return out;
  }
  std::string tokenize(const Words& files, const std::string& to, const Words& flags = {}) const {
    Words words{"tokenize", tokenizer};
    words.insert(words.end(), files.begin(), files.end());
    words.insert(words.end(), {"-o", at(to)});
    words.insert(words.end(), flags.begin(), flags.end());
    const Ran ran = run(words);
    EXPECT_EQ(ran.status, 0) << ran.err;
    return ran.out;
  }
  static TokenIds expected() {
    const Tokenizer made = Tokenizer::read(tokenizer);
    TokenIds out;
    for (int times = 0; times < 8; ++times)
      for (const std::string& text : texts) {
        const TokenIds ids = made.encode(text);
        out.insert(out.end(), ids.begin(), ids.end());
        out.push_back(897);  // <|endoftext|>
      }
    return out;
  }

  std::string folder_ = scratch_folder();
  std::string lines_;
};

template <class T>
std::vector<T> numbers_in(const std::string& bytes, std::size_t from = 0) {
  std::vector<T> out((bytes.size() - from) / sizeof(T));
  std::memcpy(out.data(), bytes.data() + from, out.size() * sizeof(T));
  return out;
}

TEST_F(TokenizeVerb, writes_tokens_of_all_documents) {
  tokenize(text_files(), "t.bin");
  const auto tokens = numbers_in<std::uint16_t>(read_bytes(at("t.bin")));
  EXPECT_EQ(TokenIds(tokens.begin(), tokens.end()), expected());
  const std::string told = tokenize({at("all.jsonl")}, "j.bin", {"--json"});
  EXPECT_EQ(read_bytes(at("j.bin")), read_bytes(at("t.bin")));
  const auto json = nlohmann::json::parse(told);
  EXPECT_EQ(json["documents"], 16);
  EXPECT_EQ(json["tokens"], expected().size());
  EXPECT_EQ(json["end"], "<|endoftext|>");
  EXPECT_EQ(json["token_bytes"], 2);
}

TEST_F(TokenizeVerb, writes_what_numpy_and_megatron_read) {
  tokenize({at("all.jsonl")}, "t.bin", {"--index"});
  tokenize({at("all.jsonl")}, "t.npy");
  const std::string bin = read_bytes(at("t.bin")), npy = read_bytes(at("t.npy")),
                    idx = read_bytes(at("t.idx"));
  EXPECT_EQ(npy.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(npy.substr(10, npy.find('}') - 9),
            fmt::format("{{'descr': '<u2', 'fortran_order': False, 'shape': ({},), }}", expected().size()));
  EXPECT_EQ(npy.substr(128), bin);
  EXPECT_EQ(idx.substr(0, 18), std::string("MMIDIDX\0\0\1\0\0\0\0\0\0\0\10", 18));
  EXPECT_EQ(numbers_in<std::int64_t>(idx.substr(18, 16)), (std::vector<std::int64_t>{16, 17}));
  const auto lengths = numbers_in<std::int32_t>(idx.substr(34, 64));
  const auto places = numbers_in<std::int64_t>(idx.substr(98, 128));
  const auto documents = numbers_in<std::int64_t>(idx, 226);
  ASSERT_EQ(documents.size(), 17U);
  EXPECT_EQ(documents.back(), 16);
  for (std::size_t i = 0; i + 1 < 16; ++i) EXPECT_EQ(places[i] + 2 * lengths[i], places[i + 1]);
  EXPECT_EQ(places[15] + 2 * lengths[15], static_cast<std::int64_t>(bin.size()));
  EXPECT_EQ(expected()[static_cast<std::size_t>(places[1] / 2 - 1)], 897);
}

/// The losses that `train` prints.
std::string losses(const Words& more) {
  Words words{"train", decoder, "--optimizer", "adamw", "--lr", "0.01", "--json"};
  for (const auto& [flag, value] : {std::pair{"--steps", "9"}, {"--seed", "3"}})
    if (std::ranges::find(more, flag) == more.end()) words.insert(words.end(), {flag, value});
  words.insert(words.end(), more.begin(), more.end());
  const Ran ran = run(words);
  EXPECT_EQ(ran.status, 0) << ran.err;
  std::string out;
  std::istringstream lines(ran.out);
  for (std::string line; std::getline(lines, line);)
    if (const auto json = nlohmann::json::parse(line); json.contains("loss") && json.contains("step"))
      out += fmt::format("{} {}\n", json["step"].dump(), json["loss"].dump());
  return out;
}

using EndToEndTokens = TokenizeVerb;

TEST_F(EndToEndTokens, train_alike_from_any_file) {
  for (const char* file : {"t.bin", "t.npy"}) tokenize({at("all.jsonl")}, file);
  tokenize({at("all.jsonl")}, "i.bin", {"--index"});
  const std::string want = losses({"--data", at("t.bin")});
  EXPECT_EQ(std::ranges::count(want, '\n'), 9) << want;
  for (const char* file : {"t.npy", "i.bin"}) EXPECT_EQ(losses({"--data", at(file)}), want) << file;
  EXPECT_EQ(losses({"--data", at("all.jsonl"), "--tokenizer", tokenizer}), want);
  // Of 4 bytes, with and without an index: what Megatron and numpy write of large vocabularies.
  const TokenIds tokens = expected();
  write_bytes(at("four.bin"), {reinterpret_cast<const char*>(tokens.data()), tokens.size() * 4});
  EXPECT_EQ(losses({"--data", at("four.bin")}), want);
  EXPECT_NE(losses({"--data", at("four.bin"), "--seed", "4"}), want);
}

TEST_F(EndToEndTokens, go_on_in_the_middle_of_an_epoch_with_the_same_samples) {
  const Words data{"--data", at("all.jsonl"), "--tokenizer", tokenizer};
  const std::string whole = losses(data);
  const std::string first =
      losses({"--data", at("all.jsonl"), "--tokenizer", tokenizer, "--steps", "5", "--save", at("run")});
  const std::string rest =
      losses({"--data", at("all.jsonl"), "--tokenizer", tokenizer, "--resume", at("run"), "--devices", "2"});
  EXPECT_EQ(first, whole.substr(0, first.size()));
  EXPECT_EQ(std::ranges::count(rest, '\n'), 4) << rest;
  // Two devices sum in another order.
  std::istringstream a(rest), b(whole.substr(first.size()));
  for (std::string x, y; std::getline(a, x) && std::getline(b, y);) {
    EXPECT_EQ(x.substr(0, x.find(' ')), y.substr(0, y.find(' ')));
    EXPECT_NEAR(std::stod(x.substr(x.find(' '))), std::stod(y.substr(y.find(' '))), 1e-4);
  }
}

TEST_F(EndToEndTokens, become_text_again) {
  losses({"--data", at("all.jsonl"), "--tokenizer", tokenizer, "--save", at("run")});
  const Ran text = run({"generate", decoder, "--checkpoint", at("run"), "--tokenizer", tokenizer, "--text",
                        "the quiet", "--tokens", "3", "--json"});
  ASSERT_EQ(text.status, 0) << text.err;
  const auto json = nlohmann::json::parse(text.out);
  EXPECT_EQ(json["text"],
            Tokenizer::read(tokenizer).decode(json["tokens"].get<TokenIds>(), Special::skipped));
  std::string prompt;
  for (const std::int32_t id : Tokenizer::read(tokenizer).encode("the quiet"))
    prompt += fmt::format("{}{}", prompt.empty() ? "" : ",", id);
  const Ran tokens = run({"generate", decoder, "--checkpoint", at("run"), "--prompt", prompt, "--tokens", "3",
                          "--json", "--stop", "897"});
  EXPECT_EQ(nlohmann::json::parse(tokens.out)["tokens"], json["tokens"]);
  EXPECT_EQ(told_by({"generate", "llama:layers=1,hidden=16,heads=4,ffn=16,vocab=64,seq=8", "--checkpoint",
                     at("none"), "--tokenizer", tokenizer, "--text", "t", "--tokens", "2"}),
            "shardwright: --tokenizer " + tokenizer + ": 't' is token 83, but the decoder knows 64 tokens\n");
}

TEST_F(TokenizeVerb, makes_text_of_talks) {
  const auto said =
      nlohmann::ordered_json::parse(read_bytes("tests/reference/tokenizer/chat.json"))["templates"][0];
  std::filesystem::copy_file("tests/reference/tokenizer/" + said["tokenizer"].get<std::string>(),
                             at("tokenizer.json"));
  write_bytes(at("tokenizer_config.json"), nlohmann::json{{"chat_template", said["template"]},
                                                          {"bos_token", said["bos_token"]},
                                                          {"eos_token", {{"content", said["eos_token"]}}}}
                                               .dump());
  write_bytes(at("talks.jsonl"), nlohmann::json{{"messages", said["cases"][2]["messages"]}}.dump() + "\n");
  const Ran ran = run({"tokenize", folder_, at("talks.jsonl"), "-o", at("t.bin"), "--chat"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto tokens = numbers_in<std::uint16_t>(read_bytes(at("t.bin")));
  EXPECT_EQ(TokenIds(tokens.begin(), tokens.end()), said["cases"][2]["ids"].get<TokenIds>());
  write_bytes(at("talks.jsonl"), "{\"messages\": [{\"role\": \"user\"}]}\n");
  EXPECT_EQ(
      told_by({"tokenize", folder_, at("talks.jsonl"), "-o", at("x.bin"), "--chat"}),
      "shardwright: " + at("talks.jsonl") + ": line 1 a message must be an object with role and content\n");
  EXPECT_EQ(told_by({"tokenize", folder_, at("0t.txt"), "-o", at("x.bin"), "--chat"}),
            "shardwright: --chat: " + at("0t.txt") + " holds no talks; they are JSON lines (*.jsonl)\n");
}

TEST_F(TokenizeVerb, tells_what_is_wrong_in_a_line) {
  const auto tokenizing = [&](const std::string& file) {
    return told_by({"tokenize", tokenizer, at(file), "-o", at("x.bin")});
  };
  write_bytes(at("a.jsonl"), "{\"text\": \"a\"}\n\n{\"txt\": \"b\"}\n");
  EXPECT_EQ(tokenizing("a.jsonl"), "shardwright: " + at("a.jsonl") + ": line 3 has no 'text'; it has txt\n");
  EXPECT_FALSE(std::filesystem::exists(at("x.bin")));
  write_bytes(at("a.jsonl"), "{\"text\": 3}\n");
  EXPECT_EQ(tokenizing("a.jsonl"), "shardwright: " + at("a.jsonl") + ": line 1 'text' is no text\n");
  write_bytes(at("a.jsonl"), "[1]\n");
  EXPECT_EQ(tokenizing("a.jsonl"),
            "shardwright: " + at("a.jsonl") +
                ": line 1 is no JSON object; each line should be one, as {\"text\": \"...\"}\n");
  write_bytes(at("a.jsonl"), "{\"text\": \"a\"");
  EXPECT_EQ(tokenizing("a.jsonl"), "shardwright: " + at("a.jsonl") +
                                       ": line 1 is no JSON: byte 13 is not what should stand there\n");
  write_bytes(at("a.jsonl"), "{\"text\": \"a\xff\"}");
  EXPECT_EQ(tokenizing("a.jsonl"), "shardwright: " + at("a.jsonl") + ": line 1 is not UTF-8 at byte 12\n");
  write_bytes(at("a.txt"), "");
  EXPECT_EQ(tokenizing("a.txt"), "shardwright: " + at("a.txt") + ": holds no text\n");
  EXPECT_EQ(told_by({"tokenize", tokenizer, at("0t.txt"), "-o", at("x.pt")}),
            "shardwright: " + at("x.pt") + ": tokens are written as .bin, or as .npy for numpy\n");
  EXPECT_EQ(told_by({"tokenize", tokenizer, at("0t.txt")}),
            "shardwright: tokenize needs -o FILE.bin, or FILE.npy\n");
  EXPECT_EQ(told_by({"tokenize", tokenizer}), "shardwright: tokenize needs FILE...\n");
  EXPECT_EQ(told_by({"tokenize", tokenizer, at("0t.txt"), "-o", at("x.bin"), "--end", "stop"}),
            "shardwright: --end stop: there is no such token in " + tokenizer +
                "; give one of its tokens, or none\n");
}

TEST_F(TokenizeVerb, tokens_must_fit_the_model) {
  const std::string small = "llama:layers=1,hidden=16,heads=4,ffn=16,vocab=64,seq=8,batch=4";
  EXPECT_EQ(
      told_by({"train", small, "--data", at("all.jsonl")}),
      fmt::format(
          "shardwright: tokens for model '{}': {} is text; --tokenizer FOLDER|tokenizer.json says how it "
          "becomes tokens\n",
          small, at("all.jsonl")));
  EXPECT_EQ(told_by({"train", small, "--data", at("all.jsonl"), "--tokenizer", tokenizer}),
            fmt::format("shardwright: tokens for model '{}': {}: token 0 is 83 ('t') by {}, but the model "
                        "knows 64; it takes vocab=899 or more\n",
                        small, at("all.jsonl"), tokenizer));
  tokenize({at("all.jsonl")}, "t.bin");
  const std::string told =
      run({"train", small, "--data", at("t.bin"), "--steps", "1"}).err;  // behind the plan
  EXPECT_NE(told.find(at("t.bin") + ": token "), std::string::npos) << told;
  EXPECT_NE(told.find(", must be 0 to 63"), std::string::npos) << told;
}

TEST_F(TokenizeVerb, an_index_must_be_that_of_its_file) {
  tokenize({at("all.jsonl")}, "t.bin", {"--index"});
  const std::string bin = read_bytes(at("t.bin")), idx = read_bytes(at("t.idx"));
  const auto told = [&] { return error_of([&] { token_dataset(at("t.bin"), {.length = 8}); }); };
  EXPECT_EQ(told(), "no error");
  write_bytes(at("t.bin"), bin.substr(2));
  EXPECT_TRUE(told().starts_with(at("t.idx") + ": says that tokens end elsewhere than ")) << told();
  write_bytes(at("t.bin"), bin);
  write_bytes(at("t.idx"), idx.substr(0, 20));
  EXPECT_EQ(told(), at("t.idx") + ": is too short for an index; cut off");
  write_bytes(at("t.idx"), idx.substr(0, 60));
  EXPECT_EQ(told(),
            at("t.idx") + ": claims 16 sequences of 17 documents, for which it is too short; cut off");
  write_bytes(at("t.idx"), "MMIDIDY" + idx.substr(7));
  EXPECT_EQ(told(), at("t.idx") + ": is no index of tokens, as its name says");
  std::string other = idx;
  other[17] = 7;
  write_bytes(at("t.idx"), other);
  EXPECT_EQ(told(), at("t.idx") + ": says that numbers are of type 7, which are no integers");
}

}  // namespace
}  // namespace shardwright
