// Expressions of templates, as they stand between {{ }} and behind the words of statements.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shardwright/tokenizer/jinja.h"

namespace shardwright::jinja {

/// Throws: Error without a line.
Expression parse_expression(std::string_view text);
/// `a, b`, or with another separator.
std::vector<std::string> parse_names(std::string_view text, std::string_view separator);

}  // namespace shardwright::jinja
