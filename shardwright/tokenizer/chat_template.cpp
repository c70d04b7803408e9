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

std::string chat_text(const ChatTemplate& chat, const nlohmann::ordered_json& messages, NextTurn turn) {
  if (!messages.is_array() || messages.empty()) throw error("messages must be a list of them");
  for (const auto& message : messages)
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string() ||
        !message.contains("content"))
      throw error("a message must be an object with role and content");
  try {
    return jinja::render(jinja::parse(chat.text), {{"messages", messages},
                                                   {"add_generation_prompt", turn == NextTurn::of_the_answer},
                                                   {"bos_token", chat.bos_token},
                                                   {"eos_token", chat.eos_token}});
  } catch (const Error& e) {
    throw with_context(Error(one_line(e.what())), "chat template");
  }
}

}  // namespace shardwright
