// Of talks the tokens are learnt that transformers marks (tests/reference/tokenizer/README.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "shardwright/runtime/data/token_file.h"
#include "shardwright/runtime/data/tokenized.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using nlohmann::ordered_json;

const std::string folder = "tests/reference/tokenizer/";

ordered_json templates() { return ordered_json::parse(std::ifstream(folder + "chat.json"))["templates"]; }

ChatTemplate template_of(const ordered_json& said) {
  return {.text = said["template"], .bos_token = said["bos_token"], .eos_token = said["eos_token"]};
}

std::string without(std::string text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word))
    text.erase(at, word.size());
  return text;
}

struct Read {
  TokenIds ids;
  std::vector<int> asked;
};

Read read_talk(const Tokenizer& tokenizer, const ChatTemplate& chat, const ordered_json& messages) {
  const std::string path = scratch_folder() + "/talk.jsonl";
  write_bytes(path, ordered_json{{"messages", messages}}.dump() + "\n");
  const MarkedTokens made = talks_of(tokenizer, path, chat);
  Read out{.ids = made.ids};
  for (std::size_t i = 0; i < made.marks.size(); ++i) {
    out.asked.push_back(made.marks[i].is_asked ? 1 : 0);
    EXPECT_EQ(made.marks[i].begins, i == 0);
  }
  return out;
}

TEST(Talks, ask_for_what_the_assistant_says) {
  int looked_at = 0;
  for (const ordered_json& said : templates()) {
    const Tokenizer tokenizer = Tokenizer::read(folder + said["tokenizer"].get<std::string>());
    const ChatTemplate marked = template_of(said);
    ChatTemplate plain = marked;
    for (const char* word :
         {"{% generation %}", "{% endgeneration %}", "{%- generation %}\n", "{%- endgeneration %}\n"})
      plain.text = without(plain.text, word);
    for (const ordered_json& c : said["cases"]) {
      if (c["add_generation_prompt"] == true || c.contains("error")) continue;
      const auto want = c["assistant_mask"].get<std::vector<int>>();
      if (std::ranges::count(want, 1) == 0) {
        EXPECT_NE(error_of([&] {
                    read_talk(tokenizer, marked, c["messages"]);
                  }).find("talk.jsonl: line 1 chat template: nobody answers in the talk"),
                  std::string::npos);
        continue;
      }
      ++looked_at;
      const Read own = read_talk(tokenizer, marked, c["messages"]);
      EXPECT_EQ(own.ids, c["ids"].get<TokenIds>()) << said["name"];
      EXPECT_EQ(own.asked, want) << said["name"];
      // Of a template that marks nothing what ends a turn is learnt, too: of chatml the line's end.
      std::vector<int> with_end = want;
      for (std::size_t i = 1; i < want.size() && said["name"] == "chatml"; ++i)
        if (want[i - 1] == 1 && want[i] == 0) with_end[i] = 1;
      const Read other = read_talk(tokenizer, plain, c["messages"]);
      EXPECT_EQ(other.ids, own.ids) << said["name"];
      EXPECT_EQ(other.asked, with_end) << said["name"];
    }
  }
  EXPECT_EQ(looked_at, 6);
}

TEST(Talks, whose_answers_cannot_be_told_apart_are_refused) {
  const Tokenizer tokenizer = Tokenizer::read(folder + "gpt2_style.json");
  const ChatTemplate counting{
      .text = "{{ messages | length }}{% for m in messages %}{{ m['content'] }}{% endfor %}"};
  const ordered_json messages = {{{"role", "user"}, {"content", "a"}},
                                 {{"role", "assistant"}, {"content", "b"}},
                                 {{"role", "user"}, {"content", "c"}}};
  EXPECT_NE(error_of([&] { read_talk(tokenizer, counting, messages); })
                .find("line 1 chat template: of the first 1 messages it makes other text than stands in the "
                      "whole talk, so that answers are not told apart; mark them in the template by "
                      "{% generation %}"),
            std::string::npos);
  const ordered_json answer = {{{"role", "assistant"}, {"content", "b"}}};
  EXPECT_NE(error_of([&] { read_talk(tokenizer, counting, answer); }).find("the talk begins with an answer"),
            std::string::npos);
}

std::vector<double> column(const Dataset& data, std::int64_t sample, std::size_t column) {
  return to_doubles(data.rows().row(0, sample)->values[column]);
}

TEST(Documents, begin_again_where_they_are_apart) {
  MarkedTokens tokens{.ids = {5, 6, 7, 1, 2, 3, 4, 8, 9}};
  for (const int i : {0, 3, 5}) {
    tokens.marks.resize(9);
    tokens.marks[static_cast<std::size_t>(i)].begins = true;
  }
  tokens.marks[7].is_asked = false;
  const Dataset data = token_dataset(tokens, "t", {.length = 4, .are_apart = true});
  EXPECT_EQ(data.columns(), (std::vector<std::string>{"input", "label", "position_ids"}));
  EXPECT_EQ(column(data, 0, 1), (std::vector<double>{6, 7, -100, 2}));
  EXPECT_EQ(column(data, 0, 2), (std::vector<double>{0, 1, 2, 0}));
  EXPECT_EQ(column(data, 1, 0), (std::vector<double>{2, 3, 4, 8}));
  EXPECT_EQ(column(data, 1, 1), (std::vector<double>{-100, 4, -100, 9}));
  EXPECT_EQ(column(data, 1, 2), (std::vector<double>{0, 0, 1, 2}));
  // Together all are asked for but who is marked.
  const Dataset together = token_dataset(tokens, "t", {.length = 4});
  EXPECT_EQ(together.columns().size(), 2U);
  EXPECT_EQ(column(together, 1, 1), (std::vector<double>{3, 4, -100, 9}));
  // In a file they are told apart by what ends them.
  const std::vector<std::uint16_t> ids{5, 6, 0, 1, 0, 3, 4, 8, 9};
  const std::string path = scratch_folder() + "/t.bin";
  write_bytes(path, {reinterpret_cast<const char*>(ids.data()), ids.size() * 2});
  const Dataset read = token_dataset(path, {.length = 4, .bytes = 2, .are_apart = true, .end = 0});
  EXPECT_EQ(column(read, 0, 1), (std::vector<double>{6, 0, -100, 0}));
  EXPECT_EQ(column(read, 0, 2), (std::vector<double>{0, 1, 2, 0}));
  EXPECT_EQ(column(read, 1, 2), (std::vector<double>{0, 0, 1, 2}));
}

}  // namespace
}  // namespace shardwright
