#include "shardwright/exchange/python/text.h"

#include <vector>

#include "shardwright/base/text.h"

namespace shardwright {

std::string python_text(const Json& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (!value.is_structured()) return value.dump();
  std::vector<std::string> parts;
  for (const auto& [key, part] : value.items())
    parts.push_back(value.is_object() ? Json(key).dump() + ": " + python_text(part) : python_text(part));
  return value.is_object() ? "{" + join(parts, ", ") + "}" : "[" + join(parts, ", ") + "]";
}

std::string python_lines(const Json& value, int depth, const std::string& indent) {
  if (depth == 0 || !value.is_structured() || value.empty()) return python_text(value);
  const std::string inner = indent + "    ";
  std::string out;
  for (const auto& [key, part] : value.items())
    out += inner + (value.is_object() ? Json(key).dump() + ": " : "") + python_lines(part, depth - 1, inner) +
           ",\n";
  return (value.is_object() ? "{\n" : "[\n") + out + indent + (value.is_object() ? "}" : "]");
}

}  // namespace shardwright
