#include "shardwright/exchange/option_text.h"

#include <algorithm>
#include <cctype>

#include "shardwright/base/text.h"

namespace shardwright {
namespace {

bool is_path_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

class AssignmentScanner {
 public:
  explicit AssignmentScanner(std::string_view text) : text_(text) {}

  std::vector<Assigned> run() {
    while (at_ < text_.size()) step();
    return std::move(out_);
  }

 private:
  void step() {
    const char c = text_[at_];
    if (c == '#')
      skip_line();
    else if (c == '"' || c == '\'')
      take_string();
    else if (c == '-' && text_.substr(at_).starts_with("--"))
      take_flag();
    else if (c == '[' && is_line_begin())
      take_table();
    else if (c == '(' || c == '[' || c == '{')
      open_.emplace_back(), ++at_;
    else if (c == ')' || c == ']' || c == '}')
      close();
    else if (is_path_char(c))
      take_path();
    else
      ++at_;
  }

  void close() {
    if (!open_.empty()) open_.pop_back();
    ++at_;
  }
  void skip_line() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool is_line_begin() const {
    return open_.empty() && (at_ == 0 || text_[at_ - 1] == '\n') && at_ + 1 < text_.size() &&
           std::isalpha(static_cast<unsigned char>(text_[at_ + 1]));
  }

  std::string take_string() {
    const std::string_view mark =
        text_.substr(at_).starts_with("\"\"\"") ? text_.substr(at_, 3) : text_.substr(at_, 1);
    const std::size_t begin = at_ + mark.size(), end = std::min(text_.find(mark, begin), text_.size());
    at_ = std::min(end + mark.size(), text_.size());
    return std::string(text_.substr(begin, end - begin));
  }
  std::string take_word(bool (*is_part)(char)) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_part(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  /// `[parallelism]` at the begin of a line.
  void take_table() {
    ++at_;
    table_ = take_word(is_path_char);
    skip_line();
  }

  /// `--parallelism.tensor_parallel_degree 4`
  void take_flag() {
    at_ += 2;
    std::string path = take_word([](char c) { return is_path_char(c) || c == '-'; });
    std::ranges::replace(path, '-', '_');
    if (at_ < text_.size() && text_[at_] == '=') ++at_;
    skip_blanks();
    const bool has_value = at_ < text_.size() && !text_.substr(at_).starts_with("--") && text_[at_] != '\n' &&
                           text_[at_] != '\\';
    add(path, has_value ? take_value(" \t\n\\") : "true", "");
  }

  void take_path() {
    const std::string path = take_word(is_path_char);
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == '(') {
      open_.push_back(path);
      ++at_;
      return;
    }
    const bool is_set = at_ + 1 < text_.size() && text_[at_] == '=' && text_[at_ + 1] != '=';
    if (!is_set) return;
    ++at_;
    skip_blanks();
    const std::string call = open_.empty() ? table_ : open_.back();
    const std::size_t begin = at_;
    if (at_ < text_.size() && std::isalpha(static_cast<unsigned char>(text_[at_]))) {
      const std::string word = take_word(is_path_char);
      if (at_ < text_.size() && text_[at_] == '(') {  // what stands in it is read, too
        add(path, word, call);
        at_ = begin;
        return;
      }
      at_ = begin;
    }
    add(path, take_value(",)\n#"), call);
  }

  /// Up to one of `ends`, or the whole of a list.
  std::string take_value(std::string_view ends) {
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) return take_string();
    const std::size_t begin = at_;
    int depth = 0;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '[' || c == '(') ++depth;
      if (depth == 0 && ends.find(c) != ends.npos) break;
      if (c == ']' || c == ')') --depth;
    }
    return std::string(trim(text_.substr(begin, at_ - begin)));
  }

  void add(const std::string& path, std::string value, const std::string& call) {
    const std::size_t dot = path.rfind('.');
    if (dot == path.npos) {
      out_.push_back(
          {call.substr(call.rfind('.') == call.npos ? 0 : call.rfind('.') + 1), path, std::move(value)});
      return;
    }
    const std::string of = path.substr(0, dot);
    out_.push_back({of.substr(of.rfind('.') == of.npos ? 0 : of.rfind('.') + 1), path.substr(dot + 1),
                    std::move(value)});
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::string> open_;  // calls, and brackets without a name
  std::string table_;
  std::vector<Assigned> out_;
};

}  // namespace

std::vector<Assigned> assignments_in(std::string_view text) { return AssignmentScanner(text).run(); }

}  // namespace shardwright
