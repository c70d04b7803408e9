// Small sums of tables with bytes beside them, of small integers, and what is best by looking at all choices.
#pragma once

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "shardwright/search/space/minimum.h"

namespace shardwright::testing {

struct DrawnTables {
  space::TableSum seconds;
  std::vector<std::vector<double>> bytes;

  double bytes_of(const std::vector<int>& choices) const {
    double out = 0;
    for (std::size_t v = 0; v < bytes.size(); ++v) out += bytes[v][static_cast<std::size_t>(choices[v])];
    return out;
  }

  /// (seconds, bytes) that no other choice beats, fastest first.
  std::vector<std::pair<double, double>> pareto_set() const {
    std::vector<std::pair<double, double>> all, out;
    std::vector<int> x(bytes.size(), 0);
    for (;;) {
      all.emplace_back(seconds.value(x), bytes_of(x));
      std::size_t v = 0;
      while (v < x.size() && ++x[v] == seconds.choices_of(static_cast<int>(v))) x[v++] = 0;
      if (v == x.size()) break;
    }
    std::sort(all.begin(), all.end());
    for (const auto& p : all)
      if (out.empty() || p.second < out.back().second) out.push_back(p);
    return out;
  }
};

/// A chain with skips over one operator, its last now and then by itself: series and parallel.
inline DrawnTables drawn_tables(int variables, std::mt19937& random) {
  DrawnTables out;
  std::uniform_int_distribution<int> number(0, 20), count(1, 4);
  for (int v = 0; v < variables; ++v) {
    out.seconds.add_variable(count(random));
    auto& bytes = out.bytes.emplace_back();
    for (double& x : out.seconds.single(v)) x = number(random), bytes.push_back(number(random));
  }
  const auto connect = [&](int u, int v) {
    std::vector<double> table(
        static_cast<std::size_t>(out.seconds.choices_of(u) * out.seconds.choices_of(v)));
    for (double& x : table) x = number(random);
    out.seconds.add(u, v, table);
  };
  for (int v = 1; v < variables - static_cast<int>(random() % 2); ++v) connect(v - 1, v);
  for (int v = 2; v + 1 < variables; v += 3) connect(v - 2, v);
  return out;
}

}  // namespace shardwright::testing
