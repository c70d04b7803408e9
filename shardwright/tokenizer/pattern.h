// Regular expressions as tokenizer.json writes them, and the cutting of a text by what they match.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace shardwright {

struct TextRange {
  std::size_t begin = 0, end = 0;
};

/// Where something stands in a text, in order and not overlapping. Any thread may ask.
using Finder = std::function<std::vector<TextRange>(std::string_view)>;

/// Throws: Error that shows the expression if it is none, or none that is understood.
Finder regular_expression(const std::string& pattern);
Finder literal(std::string what);

/// What becomes of a match that cuts a text.
enum class Cut { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// The pieces of a text, without empty ones. `inverted`: what does not match cuts.
std::vector<TextRange> pieces(std::string_view text, const std::vector<TextRange>& matches, Cut cut,
                              bool inverted = false);

/// The text with `content` for every match.
std::string replaced(std::string_view text, const std::vector<TextRange>& matches, std::string_view content);

}  // namespace shardwright
