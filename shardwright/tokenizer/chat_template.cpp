#include "shardwright/tokenizer/chat_template.h"

#include <filesystem>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/base/one_line.h"
#include "shardwright/tokenizer/fields.h"
#include "shardwright/tokenizer/jinja.h"

namespace shardwright {
namespace {

/// A text, or an object with `content`.
std::string token_in(const Fields& config, const std::string& key) {
  if (!config.has(key)) return "";
  return config.value(key).is_string() ? config.text(key) : config.object(key).text("content");
}

/// One template, or several with names, of which one is the default.
std::string template_in(const Fields& config) {
  const std::string key = "chat_template";
  if (!config.has(key)) throw error("has no chat_template");
  if (!config.value(key).is_array()) return config.text(key);
  for (const Fields& each : config.objects(key))
    if (each.text("name") == "default") return each.text("template");
  throw error("chat_template: none of them is called default");
}

}  // namespace

ChatTemplate read_chat_template(const std::string& folder) {
  const std::string path = folder + "/tokenizer_config.json", own = folder + "/chat_template.jinja";
  const std::string text = read_text(path);
  try {
    const nlohmann::json document = parse_tokenizer_json(text);
    const Fields config(document, "");
    std::error_code none;
    const bool has_own = std::filesystem::exists(own, none);
    return {.text = has_own ? read_text(own) : template_in(config),
            .bos_token = token_in(config, "bos_token"),
            .eos_token = token_in(config, "eos_token")};
  } catch (const Error& e) {
    throw with_context(e, path);
  }
}

namespace {

void check_messages(const nlohmann::ordered_json& messages) {
  if (!messages.is_array() || messages.empty()) throw error("messages must be a list of them");
  for (const auto& message : messages)
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string() ||
        !message.contains("content"))
      throw error("a message must be an object with role and content");
}

/// Calls `make`, whose errors are the template's.
template <class F>
auto of_template(F make) {
  try {
    return make();
  } catch (const Error& e) {
    throw with_context(Error(one_line(e.what())), "chat template");
  }
}

jinja::Rendered rendered(const std::vector<jinja::Node>& nodes, const ChatTemplate& chat,
                         const nlohmann::ordered_json& messages, NextTurn turn) {
  return jinja::rendered(nodes, {{"messages", messages},
                                 {"add_generation_prompt", turn == NextTurn::of_the_answer},
                                 {"bos_token", chat.bos_token},
                                 {"eos_token", chat.eos_token}});
}

/// Answers of a template that does not mark them.
std::vector<TextPart> answers_in(const std::string& whole, const std::vector<jinja::Node>& nodes,
                                 const ChatTemplate& chat, const nlohmann::ordered_json& messages) {
  std::vector<TextPart> out;
  nlohmann::ordered_json before = nlohmann::ordered_json::array();
  const auto length = [&](NextTurn turn) {
    const std::string text = rendered(nodes, chat, before, turn).text;
    if (!whole.starts_with(text))
      throw error(
          "of the first {} messages it makes other text than stands in the whole talk, so that answers are "
          "not "
          "told apart; mark them in the template by {{% generation %}}",
          before.size());
    return text.size();
  };
  for (const auto& message : messages) {
    const bool is_answer = message["role"] == "assistant";
    if (is_answer && before.empty()) throw error("the talk begins with an answer");
    TextPart part{.begin = is_answer ? length(NextTurn::of_the_answer) : 0};
    before.push_back(message);
    part.end = before.size() == messages.size() ? whole.size() : is_answer ? length(NextTurn::nobodys) : 0;
    if (is_answer) out.push_back(part);
  }
  return out;
}

}  // namespace

std::string chat_text(const ChatTemplate& chat, const nlohmann::ordered_json& messages, NextTurn turn) {
  check_messages(messages);
  return of_template([&] { return rendered(jinja::parse(chat.text), chat, messages, turn).text; });
}

Talk talk_of(const ChatTemplate& chat, const nlohmann::ordered_json& messages) {
  check_messages(messages);
  return of_template([&]() -> Talk {
    const std::vector<jinja::Node> nodes = jinja::parse(chat.text);
    auto [text, answers] = rendered(nodes, chat, messages, NextTurn::nobodys);
    if (!jinja::marks_generation(nodes)) answers = answers_in(text, nodes, chat, messages);
    std::erase_if(answers, [](const TextPart& part) { return part.begin == part.end; });
    if (answers.empty()) throw error("nobody answers in the talk: no message of the role assistant");
    return {std::move(text), std::move(answers)};
  });
}

}  // namespace shardwright
