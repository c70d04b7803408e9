// Data as Python writes them.
#pragma once

#include <string>

#include "shardwright/plan/json_text.h"

namespace shardwright {

/// `{"a": [1, True, None]}`
std::string python_text(const Json& value);

/// The same, of which an element stands on a line each, `depth` levels deep.
std::string python_lines(const Json& value, int depth, const std::string& indent = "");

}  // namespace shardwright
