// Texts in files: a text file is one document; of JSON lines (*.jsonl) each is one, with the text under a key.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace shardwright {

bool are_json_lines(std::string_view path);
/// Whether it is a file of texts by its name: *.txt, *.md, *.jsonl.
bool is_text_file(std::string_view path);

/// What a line of JSON lines is a text by.
struct LineText {
  std::string key = "text";
  /// What stands under the key is no text, but this makes one of it; null: it is one.
  std::function<std::string(const nlohmann::ordered_json&)> made = {};
};

/// Gives the documents in their order; blank lines are none. JSON lines may be more than there is memory for.
/// Throws: Error of kind io with the path, and the line, if something is no UTF-8, no JSON or has no such key.
void for_each_document(const std::string& path, const LineText& line,
                       const std::function<void(std::string_view text)>& take);

}  // namespace shardwright
