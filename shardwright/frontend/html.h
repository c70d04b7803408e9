// Text of HTML pages: what users have named is shown as it is, and numbers carry the place in `--json` that they are from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shardwright/plan/json_text.h"

namespace shardwright {

/// Names come from users.
std::string escaped(std::string_view text);

/// The same, with room to break a line behind each comma.
std::string breakable(std::string_view text);
std::string code_html(std::string_view text);

/// A document within a script element: no text in it ends the element.
std::string script_json(const Json& document);

/// `text`, said of the number at `pointer` of `document`: `<span data-json="/step_seconds" data-value="1.5">1.5 s</span>`.
std::string figure(const Json& document, const std::string& pointer, std::string_view text);

/// A cell of a table: `text` as it is, or HTML that is ready; tables sort by `value`, if it is said.
struct HtmlCell {
  std::string html;
  std::string value = {};
  bool is_number = false;
};
HtmlCell text_cell(std::string_view text);
HtmlCell number_cell(std::string html, double value);

struct HtmlTable {
  std::string caption;
  std::vector<HtmlCell> head;  // `is_number`: of the column
  std::vector<std::vector<HtmlCell>> rows;
};
/// In a box of its own, which scrolls where it is too wide. Its script makes it sort.
std::string to_html(const HtmlTable& table);

/// A part of a whole, as one of bars side by side.
struct BarPart {
  std::string style;  // the class that colours it
  std::string name;
  double size = 0;
  std::string text = {};  // with its unit, as HTML
};
/// Parts side by side, and below what each is; `whole` may be more than all of them.
std::string bar_html(const std::vector<BarPart>& parts, double whole, std::string_view label);

}  // namespace shardwright
