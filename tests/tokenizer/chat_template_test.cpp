// Talks become the texts and ids that transformers makes of them (tests/reference/tokenizer/README.md).
#include "shardwright/tokenizer/chat_template.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "shardwright/tokenizer/jinja.h"
#include "shardwright/tokenizer/tokenizer.h"
#include "tests/support/changed_text.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using nlohmann::ordered_json;

const std::string folder = "tests/reference/tokenizer/";

const ordered_json& templates() {
  static const ordered_json all = ordered_json::parse(std::ifstream(folder + "chat.json"))["templates"];
  return all;
}

ChatTemplate template_of(const ordered_json& said) {
  return {.text = said["template"], .bos_token = said["bos_token"], .eos_token = said["eos_token"]};
}

TEST(ChatTemplate, makes_texts_and_ids_of_talks) {
  int looked_at = 0, refused = 0;
  for (const ordered_json& said : templates()) {
    const ChatTemplate chat = template_of(said);
    const Tokenizer tokenizer = Tokenizer::read(folder + said["tokenizer"].get<std::string>());
    for (const ordered_json& c : said["cases"]) {
      const NextTurn turn = c["add_generation_prompt"] == true ? NextTurn::of_the_answer : NextTurn::nobodys;
      ++looked_at;
      if (c.contains("error")) {
        ++refused;
        EXPECT_NE(error_of([&] { chat_text(chat, c["messages"], turn); }).find("the template refuses it: "),
                  std::string::npos);
        continue;
      }
      const std::string text = chat_text(chat, c["messages"], turn);
      EXPECT_EQ(text, c["text"].get<std::string>()) << said["name"];
      EXPECT_EQ(tokenizer.encode(text), c["ids"].get<TokenIds>()) << said["name"] << ": " << text;
    }
  }
  EXPECT_GE(looked_at, 18);
  EXPECT_LT(refused, looked_at / 2);
}

std::string rendered(const std::string& text, const ordered_json& variables = ordered_json::object()) {
  return jinja::rendered(jinja::parse(text), variables).text;
}

TEST(Jinja, does_what_templates_ask) {
  EXPECT_EQ(
      rendered("{% set ns = namespace(n=1) %}{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}"
               "{% set ns.n = ns.n + x %}{{ x }}{{ ',' if not loop.last }}{% endfor %}={{ ns.n }}"),
      "1,3=5");
  EXPECT_EQ(rendered("{{ 'a' ~ 1 + 2 if false else ' b ' | trim + 'c' }}"), "bc");
  EXPECT_EQ(
      rendered("  {% if x is defined and x is not none %}\n  yes\n  {%- else %}\n  no\n  {% endif %}\n.",
               {{"x", 1}}),
      "  yes.");
  EXPECT_EQ(rendered("{{ x.role }}{{ x['role'][1:] }}{{ x.get('a', 7) }}{{ y | default('-') }}",
                     {{"x", {{"role", "user"}}}}),
            "userser7-");
  EXPECT_EQ(rendered("{% for k, v in x.items() %}{{ k }}={{ v | tojson }};{% endfor %}",
                     {{"x", {{"b", {1, "\u00e9"}}, {"a", nullptr}}}}),
            "b=[1, \"\u00e9\"];a=null;");
  EXPECT_EQ(rendered("{{ 'a,b,c'.split(',')[-1] }}{{ 'x' in 'xy' }}{{ 3 not in [1] }}{{ 7 // 2 }}{{ -7 % 3 "
                     "}}{{ [1, 2] | length }}{{ [3, 4][::-1] | first }}"),
            "cTrueTrue3224");
  EXPECT_EQ(rendered("a{# {{ comment }} #}b{{ '{{' }}"), "ab{{");
  EXPECT_EQ(rendered("{% for x in [] %}1{% else %}none{% endfor %}{% for x in range(5) %}{% if x == 2 %}{% "
                     "break %}{% endif %}{{ x }}{% endfor %}"),
            "none01");
}

TEST(Jinja, tells_what_it_does_not_understand_with_its_line) {
  const auto told = [](const std::string& text) { return error_of([&] { rendered(text); }); };
  EXPECT_EQ(told("a\n{% macro x() %}"),
            "line 2: 'macro' is not understood; there are for, if, set, generation, break, continue");
  EXPECT_EQ(told("{{ 1 | sort }}"), "line 1: the filter 'sort' is not understood");
  EXPECT_EQ(told("\n\n{{ x.y.z }}"), "line 3: an item is asked of what is not defined");
  EXPECT_EQ(told("{% if 1 %}"), "line 1: what is opened there is not closed by endif");
  EXPECT_EQ(told("{% endif %}"), "line 1: 'endif' ends nothing that is open");
  EXPECT_EQ(told("{{ 1 "), "line 1: is opened, and never closed by }}");
  EXPECT_EQ(told("{{ (1 }}"), "line 1: '' stands where ')' should");
  EXPECT_EQ(told("{{ 1 % 0 }}"), "line 1: % by 0");
  EXPECT_EQ(told("{{ '" + std::string(3, 'x') + " }}"), "line 1: is opened, and never closed by }}");
  EXPECT_EQ(told("{{ strftime_now('%Y') }}"), "line 1: 'strftime_now()' is not understood");
}

TEST(Jinja, what_is_too_deep_is_refused) {
  const auto told = [](const std::string& text) { return error_of([&] { rendered(text); }); };
  EXPECT_NE(told("{{ " + std::string(200, '-') + "1 }}").find("nested more than 100 deep"),
            std::string::npos);
  EXPECT_NE(told("{{ " + std::string(200, '(') + "1" + std::string(200, ')') + " }}")
                .find("nested more than 100 deep"),
            std::string::npos);
  std::string filters = "{{ x";
  for (int i = 0; i < 100000; ++i) filters += "|trim";
  EXPECT_NE(told(filters + " }}").find("an expression has more than 500 words"), std::string::npos);
}

TEST(Jinja, changed_templates_are_rendered_or_refused) {
  testing::Random random = testing::random_of(9);
  int refused = 0, done = 0;
  for (const ordered_json& said : templates())
    for (int i = 0; i < 300; ++i) {
      ChatTemplate chat = template_of(said);
      chat.text = testing::changed_text(random, chat.text);
      try {
        chat_text(chat, said["cases"][2]["messages"], NextTurn::of_the_answer);
        ++done;
      } catch (const Error& e) {
        ++refused;
        EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
      }
    }
  EXPECT_GT(refused, 50);
  EXPECT_GT(done, 50);
}

}  // namespace
}  // namespace shardwright
