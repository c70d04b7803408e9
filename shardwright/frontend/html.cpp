#include "shardwright/frontend/html.h"

#include <fmt/format.h>

namespace shardwright {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  return out;
}

std::string breakable(std::string_view text) {
  std::string out;
  const std::string whole = escaped(text);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    out += whole[i];
    if (whole[i] == ',' && i + 1 < whole.size() && whole[i + 1] != ' ') out += "<wbr>";
  }
  return out;
}

std::string code_html(std::string_view text) { return "<code>" + breakable(text) + "</code>"; }

std::string script_json(const Json& document) {
  std::string out;
  for (const char c : document.dump(-1, ' ', false, Json::error_handler_t::replace))
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  return out;
}

std::string figure(const Json& document, const std::string& pointer, std::string_view text) {
  const Json::json_pointer place(pointer);
  return fmt::format("<span data-json=\"{}\" data-value=\"{}\">{}</span>", escaped(pointer),
                     escaped(document.at(place).dump()), escaped(text));
}

HtmlCell text_cell(std::string_view text) { return {.html = escaped(text)}; }

HtmlCell number_cell(std::string html, double value) {
  return {.html = std::move(html), .value = fmt::format("{}", value), .is_number = true};
}

std::string to_html(const HtmlTable& table) {
  std::string out = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table>"
      "<caption>{0}</caption>\n<thead><tr>",
      escaped(table.caption));
  for (const HtmlCell& cell : table.head)
    out += fmt::format("<th scope=\"col\"{}>{}</th>", cell.is_number ? " class=\"number\"" : "", cell.html);
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (const HtmlCell& cell : row) {
      out += cell.is_number ? "<td class=\"number\"" : "<td";
      if (!cell.value.empty()) out += fmt::format(" data-sort=\"{}\"", escaped(cell.value));
      out += ">" + cell.html + "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string bar_html(const std::vector<BarPart>& parts, double whole, std::string_view label) {
  std::string bar, key;
  for (const BarPart& part : parts) {
    if (part.size <= 0) continue;
    const double percent = whole > 0 ? 100 * part.size / whole : 0;
    bar += fmt::format("<i class=\"{}\" style=\"width:{:.2f}%\"></i>", part.style, percent);
    key += fmt::format("<li><i class=\"key {}\"></i>{} <b>{}</b> <span class=\"share\">{:.1f}%</span></li>\n",
                       part.style, escaped(part.name), part.text, percent);
  }
  return fmt::format(
      "<div class=\"bar\" role=\"img\" aria-label=\"{}\">{}</div>\n<ul class=\"keys\">\n{}</ul>\n",
      escaped(label), bar, key);
}

}  // namespace shardwright
