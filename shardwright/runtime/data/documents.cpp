#include "shardwright/runtime/data/documents.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "shardwright/base/file.h"
#include "shardwright/base/text.h"
#include "shardwright/runtime/data/open_file.h"

namespace shardwright {
namespace {

constexpr std::int64_t longest_text = std::int64_t{1} << 36;
constexpr std::int64_t longest_line = std::int64_t{1} << 30;

/// A file line by line, of which only a block and the line are in memory.
class Lines {
 public:
  explicit Lines(const std::string& path) : file_(path) {}

  /// False behind the last.
  bool next(std::string& line) {
    line.clear();
    for (;;) {
      if (at_ == block_.size() && !read_block()) return !line.empty();
      const std::size_t end = block_.find('\n', at_);
      line.append(block_, at_, end == std::string::npos ? end : end - at_);
      if (std::ssize(line) > longest_line)
        throw io_error("{}: has a line of more than {} bytes", file_.path(), longest_line);
      at_ = end == std::string::npos ? block_.size() : end + 1;
      if (end != std::string::npos) return true;
    }
  }

 private:
  bool read_block() {
    constexpr std::int64_t block_bytes = 1 << 20;
    block_.resize(static_cast<std::size_t>(std::min(block_bytes, file_.bytes() - given_)));
    file_.read(given_, std::as_writable_bytes(std::span(block_)));
    given_ += std::ssize(block_);
    at_ = 0;
    return !block_.empty();
  }

  OpenFile file_;
  std::string block_;
  std::size_t at_ = 0;
  std::int64_t given_ = 0;
};

bool stops_at_depth(int depth, nlohmann::ordered_json::parse_event_t event, const nlohmann::ordered_json&) {
  constexpr int deepest = 64;
  const bool opens = event == nlohmann::ordered_json::parse_event_t::object_start ||
                     event == nlohmann::ordered_json::parse_event_t::array_start;
  if (opens && depth > deepest) throw error("is nested more than {} deep", deepest);
  return true;
}

/// The text of a line. Throws: Error without its place.
std::string text_in(const std::string& line, const LineText& how) {
  const std::string& key = how.key;
  if (const auto end = end_of_utf8(line)) throw error("is not UTF-8 at byte {}", *end + 1);
  nlohmann::ordered_json value;
  try {
    value = nlohmann::ordered_json::parse(line, stops_at_depth);
  } catch (const nlohmann::ordered_json::parse_error& e) {
    throw error("is no JSON: byte {} is not what should stand there", e.byte);
  }
  if (!value.is_object())
    throw error("is no JSON object; each line should be one, as {{\"{}\": \"...\"}}", key);
  const auto found = value.find(key);
  if (found != value.end() && how.made) return how.made(*found);
  if (found != value.end() && found->is_string()) return found->get<std::string>();
  if (found != value.end()) throw error("'{}' is no text", key);
  std::vector<std::string> keys;
  for (const auto& [name, part] : value.items())
    if (keys.size() < 8) keys.push_back(name);
  throw error("has no '{}'; it has {}", key, keys.empty() ? "nothing" : join(keys, ", "));
}

}  // namespace

bool are_json_lines(std::string_view path) { return path.ends_with(".jsonl"); }

bool is_text_file(std::string_view path) {
  return path.ends_with(".txt") || path.ends_with(".md") || are_json_lines(path);
}

void for_each_document(const std::string& path, const LineText& how,
                       const std::function<void(std::string_view)>& take) {
  if (!are_json_lines(path)) {
    const std::string text = read_text(path, longest_text);
    if (!text.empty()) take(text);
    return;
  }
  Lines lines(path);
  std::string line;
  for (std::int64_t number = 1; lines.next(line); ++number) {
    if (trim(line).empty()) continue;
    std::string text;
    try {
      text = text_in(line, how);
    } catch (const Error& e) {
      throw io_error("{}: line {} {}", path, number, e.what());
    }
    take(text);
  }
}

}  // namespace shardwright
