// Cells of a page's tables.

#include "shardwright/frontend/html.h"
#include "shardwright/frontend/page_parts.h"
#include "shardwright/frontend/table.h"

namespace shardwright {

HtmlCell seconds_cell(const Json& document, const std::string& pointer) {
  const double seconds = document.at(Json::json_pointer(pointer)).get<double>();
  return number_cell(figure(document, pointer, seconds == 0 ? "0 s" : seconds_text(seconds)), seconds);
}
HtmlCell bytes_cell(const Json& document, const std::string& pointer) {
  const auto bytes = document.at(Json::json_pointer(pointer)).get<std::int64_t>();
  return number_cell(figure(document, pointer, bytes_text(bytes)), static_cast<double>(bytes));
}

std::vector<HtmlCell> heads(const std::vector<std::string_view>& names, std::size_t first_number,
                            std::size_t end_number) {
  std::vector<HtmlCell> out;
  for (std::size_t i = 0; i < names.size(); ++i)
    out.push_back({.html = std::string(names[i]), .is_number = i >= first_number && i < end_number});
  return out;
}

}  // namespace shardwright
