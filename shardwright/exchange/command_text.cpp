#include "shardwright/exchange/command_text.h"

#include <algorithm>
#include <cctype>

namespace shardwright {
namespace {

bool is_word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Words as a shell cuts them; what ends a list or a command stands alone as `)`.
class ShellWords {
 public:
  explicit ShellWords(std::string_view text) : text_(text) {}

  std::vector<std::string> run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n')
        at_ += 2;
      else if (c == '#' && word_.empty() && !is_open_)
        skip_comment();
      else if (c == '"' || c == '\'')
        take_quoted(c);
      else if (c == '\n' || c == ';' || c == '&' || c == '(' || c == ')')
        end_list();
      else if (std::isspace(static_cast<unsigned char>(c)))
        end(), ++at_;
      else
        word_ += c, ++at_, is_open_ = true;
    }
    end();
    return std::move(out_);
  }

 private:
  void end() {
    if (is_open_) out_.push_back(std::exchange(word_, {}));
    is_open_ = false;
  }
  /// Lines of a list go on; a command's ends it, but who writes one flag a line means them all. Of `Et|(t|)*3` without
  /// quotes brackets are part of the word, of `ARGS=(` and `rope)` they are not.
  void end_list() {
    const char c = text_[at_++];
    const bool opens = c == '(' && is_open_ && !word_.ends_with('=');
    const bool closes = c == ')' && std::ranges::count(word_, '(') > std::ranges::count(word_, ')');
    if (opens || closes) {
      word_ += c;
      return;
    }
    end();
    if (c != '\n') out_.emplace_back(")");
  }
  void skip_comment() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }
  void take_quoted(char quote) {
    is_open_ = true;
    const std::size_t end = std::min(text_.find(quote, at_ + 1), text_.size());
    word_ += text_.substr(at_ + 1, end - at_ - 1);
    at_ = std::min(end + 1, text_.size());
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string word_;
  bool is_open_ = false;
  std::vector<std::string> out_;
};

using Variables = std::map<std::string, std::string, std::less<>>;

/// `NAME=value`, which sets a variable.
bool is_setting(std::string_view word) {
  const std::size_t eq = word.find('=');
  return eq != word.npos && eq > 0 && !std::isdigit(static_cast<unsigned char>(word[0])) &&
         std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(eq), is_word_char);
}

/// `$NAME`, `${NAME}` and `${NAME:-otherwise}` with what the text sets.
std::string replaced(std::string_view word, const Variables& variables) {
  std::string out;
  for (std::size_t at = 0; at < word.size();) {
    if (word[at] != '$') {
      out += word[at++];
      continue;
    }
    const bool has_braces = at + 1 < word.size() && word[at + 1] == '{';
    const std::size_t begin = at + (has_braces ? 2 : 1);
    std::size_t end = begin;
    while (end < word.size() && is_word_char(word[end])) ++end;
    const std::size_t close = has_braces ? word.find('}', end) : end;
    if (close == word.npos || end == begin) {
      out += word[at++];
      continue;
    }
    const auto it = variables.find(word.substr(begin, end - begin));
    const std::string_view otherwise = word.substr(end, close - end);
    const std::size_t next = has_braces ? close + 1 : close;
    if (it != variables.end() && (otherwise.empty() || otherwise.starts_with(":-")))
      out += it->second;
    else if (otherwise.starts_with(":-"))
      out += otherwise.substr(2);
    else
      out += word.substr(at, next - at);
    at = next;
  }
  return out;
}

}  // namespace

std::vector<CommandFlag> flags_in(std::string_view text) {
  Variables variables;
  std::vector<CommandFlag> out;
  bool takes_values = false;
  for (const std::string& written : ShellWords(text).run()) {
    if (!takes_values && is_setting(written)) {
      const std::size_t eq = written.find('=');
      variables[written.substr(0, eq)] = replaced(std::string_view(written).substr(eq + 1), variables);
      continue;
    }
    const std::string word = replaced(written, variables);
    if (word.starts_with("--") && word.size() > 2) {
      const std::size_t eq = word.find('=');
      CommandFlag flag{.name = word.substr(2, eq == word.npos ? eq : eq - 2), .values = {}};
      std::ranges::replace(flag.name, '_', '-');
      if (eq != word.npos) flag.values.push_back(word.substr(eq + 1));
      out.push_back(std::move(flag));
      takes_values = true;
    } else if (word == ")") {
      takes_values = false;
    } else if (takes_values) {
      out.back().values.push_back(word);
    }
  }
  return out;
}

}  // namespace shardwright
