// Talks as texts: what stands around the words of each who speaks, as the people who made a model have it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "shardwright/tokenizer/text_part.h"

namespace shardwright {

struct ChatTemplate {
  std::string text;  // in Jinja, see jinja.h
  std::string bos_token, eos_token;
};

/// Of a tokenizer's folder: `chat_template.jinja`, else `chat_template` of tokenizer_config.json.
/// Throws: Error if there is none.
ChatTemplate read_chat_template(const std::string& folder);

/// Whose turn is next: nobody's, or that of who answers, which the text ends with then.
enum class NextTurn { nobodys, of_the_answer };

/// `messages`: [{"role": "user", "content": "..."}, ...]. The text has its special tokens: it is encoded without more.
/// Throws: Error in a line if they are no messages, or the template refuses them.
std::string chat_text(const ChatTemplate& chat, const nlohmann::ordered_json& messages, NextTurn turn);

/// A whole talk as a text, and what of it is to be learnt: what those say who answer (`assistant`), with what ends it.
struct Talk {
  std::string text;
  std::vector<TextPart> answers;
};
/// Answers are what the template puts into {% generation %}; of one without that, what stands behind the beginning of a turn of who
/// answers, up to what it makes of the talk so far. Of n messages that takes n texts.
/// Throws: Error as chat_text does; if there is no answer, or the template makes other text of a talk's beginning than of the whole.
Talk talk_of(const ChatTemplate& chat, const nlohmann::ordered_json& messages);

}  // namespace shardwright
