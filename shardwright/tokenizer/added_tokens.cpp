#include "shardwright/tokenizer/added_tokens.h"

#include <algorithm>

#include "shardwright/tokenizer/unicode.h"

namespace shardwright {
namespace {

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  const bool is_free_before = begin == 0 || !is_word(last_char(text.substr(0, begin)).code);
  return is_free_before && (end == text.size() || !is_word(char_at(text, end).code));
}

std::size_t left_of_space(std::string_view text, std::size_t end, std::size_t least) {
  while (end > least) {
    const Char c = last_char(text.substr(0, end));
    if (!is_space(c.code)) break;
    end -= c.bytes;
  }
  return std::max(end, least);
}

std::size_t right_of_space(std::string_view text, std::size_t at) {
  while (at < text.size() && is_space(char_at(text, at).code)) at += char_at(text, at).bytes;
  return at;
}

}  // namespace

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens, const std::vector<std::string>& contents)
    : tokens_(tokens) {
  for (std::size_t i = 0; i < contents.size(); ++i) {
    if (contents[i].empty()) continue;
    begins_[static_cast<unsigned char>(contents[i][0])] = true;
    tree_.add(contents[i], static_cast<std::int32_t>(i));
  }
}

AddedTokens::Match AddedTokens::longest_at(std::string_view text, std::size_t at) const {
  Match out;
  TextTree::Node node = TextTree::root();
  for (std::size_t end = at; end < text.size();) {
    node = tree_.next(node, text[end++]);
    if (node == TextTree::none) break;
    if (const std::int32_t i = tree_.value(node); i >= 0)
      out = {end - at, &tokens_[static_cast<std::size_t>(i)]};
  }
  return out;
}

void AddedTokens::split(std::string_view text,
                        const std::function<void(std::string_view, std::size_t)>& take_text,
                        const std::function<void(std::int32_t)>& take_token) const {
  std::size_t given = 0;
  for (std::size_t at = 0; at < text.size() && !tokens_.empty();) {
    if (!begins_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const Match match = longest_at(text, at);
    if (match.token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + match.bytes;
    at = end;
    if (begin < given || (match.token->is_word && !stands_alone(text, begin, end))) continue;
    if (match.token->takes_left) begin = left_of_space(text, begin, given);
    if (match.token->takes_right) end = right_of_space(text, end);
    if (begin > given) take_text(text.substr(given, begin - given), given);
    take_token(match.token->id);
    given = end;
  }
  if (given < text.size()) take_text(text.substr(given), given);
}

}  // namespace shardwright
