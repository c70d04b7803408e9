#include "tests/support/published_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace shardwright {
namespace {

constexpr double column = 62, height = 220, left = 70, top = 40, labels = 215, low = 0.4, high = 2.5;

double y_of(double ratio) {
  const double place = std::log(std::clamp(ratio, low, high) / low) / std::log(high / low);
  return height * (1 - place);
}

std::string text(double x, double y, std::string_view anchor, std::string_view words,
                 std::string_view more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                     words);
}

std::string axis(double width) {
  std::string out =
      fmt::format("<rect x=\"0\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#eef4ee\"/>\n",
                  y_of(1.1), width, y_of(1 / 1.1) - y_of(1.1));
  for (const double ratio : {0.5, 0.67, 0.8, 1.0, 1.25, 1.5, 2.0}) {
    out += fmt::format("<line x1=\"0\" y1=\"{0:.1f}\" x2=\"{1:.1f}\" y2=\"{0:.1f}\" stroke=\"{2}\"/>\n",
                       y_of(ratio), width, ratio == 1 ? "#666" : "#ddd");
    out += text(-8, y_of(ratio) + 4, "end", fmt::format("{}", ratio));
  }
  return out;
}

/// Points side by side, in their order, so that many at one place are seen.
std::string points_of(const std::vector<double>& ratios, double x, int hue) {
  std::string out;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    const double place =
        x + column * (0.15 + 0.7 * static_cast<double>(i) /
                                 static_cast<double>(std::max<std::size_t>(1, ratios.size() - 1)));
    out += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"hsl({}, 70%, 40%)\" fill-opacity=\"0.6\"/>\n",
        place, y_of(ratios[i]), hue);
  }
  return out;
}

using Column = std::pair<int, std::string>;  // year, source

std::map<Column, std::vector<double>> columns_of(const PublishedPanel& panel) {
  std::map<Column, std::vector<double>> out;
  for (const PublishedPoint& p : panel.points) out[{p.year, p.source}].push_back(p.ratio);
  return out;
}

std::string panel_text(const PublishedPanel& panel, double y) {
  const auto columns = columns_of(panel);
  const double width = column * static_cast<double>(columns.size());
  std::string out = fmt::format("<g transform=\"translate({:.1f} {:.1f})\">\n", left, y);
  out += text(0, -14, "start", panel.title, " font-size=\"13\"") + axis(width);
  double x = 0;
  for (const auto& [at, ratios] : columns) {
    out += points_of(ratios, x, at.first * 47 % 360);
    const std::string turned =
        fmt::format(" transform=\"rotate(40 {0:.1f} {1:.1f})\" font-size=\"10\"", x + 10, height + 14);
    out += text(x + 10, height + 14, "start", fmt::format("{} {} ({})", at.first, at.second, ratios.size()),
                turned);
    x += column;
  }
  return out + "</g>\n";
}

}  // namespace

std::string published_plot(const std::vector<PublishedPanel>& panels) {
  std::size_t most = 1;
  for (const PublishedPanel& panel : panels) most = std::max(most, columns_of(panel).size());
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" "
      "font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      left + column * static_cast<double>(most) + labels,
      static_cast<double>(panels.size()) * (top + height + labels));
  double y = top;
  for (const PublishedPanel& panel : panels) {
    out += panel_text(panel, y);
    y += top + height + labels;
  }
  return out + "</svg>\n";
}

}  // namespace shardwright
