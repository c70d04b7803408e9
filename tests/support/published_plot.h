// A picture of prices beside what others have measured: a column a source, by year, and in it a point a run.
#pragma once

#include <string>
#include <vector>

namespace shardwright {

/// One run of a source: predicted over measured.
struct PublishedPoint {
  std::string source;
  int year = 0;
  double ratio = 1;
};

struct PublishedPanel {
  std::string title;
  std::vector<PublishedPoint> points;
};

/// As SVG: panels one under the other, ratios on a logarithmic axis with a line at 1 and a band of 10 %.
std::string published_plot(const std::vector<PublishedPanel>& panels);

}  // namespace shardwright
