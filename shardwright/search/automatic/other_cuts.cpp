#include "shardwright/search/automatic/other_cuts.h"

#include <algorithm>
#include <cstdlib>

#include "shardwright/base/index.h"

namespace shardwright::automatic {
namespace {

/// The layers of a row, with what is before and behind them.
struct Layers {
  int begin = 0, end = 0;
  explicit Layers(const Row& row) : end(row.size()) {
    while (begin < end && !row.is_layer(row.kinds[at(begin)])) ++begin;
    while (end > begin && !row.is_layer(row.kinds[at(end - 1)])) --end;
  }
};

/// Layers of each part, as many as there can be; empty if there are too few.
std::vector<int> even_counts(const Layers& layers, int parts) {
  const int count = layers.end - layers.begin;
  if (count < parts) return {};
  std::vector<int> out;
  for (int part = 0; part < parts; ++part) out.push_back((part + 1) * count / parts - part * count / parts);
  return out;
}

/// What is before and behind the layers is in the first and the last part.
std::vector<int> first_of(const Layers& layers, const std::vector<int>& counts) {
  std::vector<int> out{0};
  int piece = layers.begin;
  for (std::size_t part = 0; part + 1 < counts.size(); ++part) out.push_back(piece += counts[part]);
  return out;
}

/// Layers of each part such that devices take equally long in all of theirs: one after the other goes from the slowest to the
/// fastest device, while that helps.
std::vector<int> balanced_counts(const Layers& layers, const Pipelining& p, const ForecastOf& what) {
  std::vector<int> out = even_counts(layers, p.parts());
  if (out.empty()) return out;
  const auto seconds = [&](int begin, int end, int stage) {
    double sum = 0;
    for (int i = begin; i < end; ++i) {
      const Figures& f = (*what.of(stage).figures)[at(what.row.kinds[at(i)])];
      sum += f.forward + f.backward;
    }
    return sum;
  };
  std::vector<double> load(at(p.stages), 0), layer;  // of a device, and what a layer takes there
  for (int stage = 0; stage < p.stages; ++stage)
    layer.push_back(seconds(layers.begin, layers.end, stage) / (layers.end - layers.begin));
  const int first = p.stage_of(0), last = p.stage_of(p.parts() - 1);
  load[at(first)] += seconds(0, layers.begin, first);
  load[at(last)] += seconds(layers.end, what.row.size(), last);
  for (int part = 0; part < p.parts(); ++part)
    load[at(p.stage_of(part))] += layer[at(p.stage_of(part))] * out[at(part)];
  const auto part_of = [&](std::size_t device, bool is_longest) {
    const std::vector<int> parts = p.parts_of(static_cast<int>(device));
    const auto shorter = [&](int a, int b) { return out[at(a)] < out[at(b)]; };
    return is_longest ? *std::ranges::max_element(parts, shorter) : *std::ranges::min_element(parts, shorter);
  };
  for (int moves = 0; moves < layers.end - layers.begin; ++moves) {
    const auto most = std::ranges::max_element(load), least = std::ranges::min_element(load);
    const double gone = layer[at(most - load.begin())], more = layer[at(least - load.begin())];
    const int from = part_of(at(most - load.begin()), true), to = part_of(at(least - load.begin()), false);
    if (*most - *least <= more * (1 + 1e-9) || out[at(from)] == 1) break;
    --out[at(from)], ++out[at(to)];
    *most -= gone, *least += more;
  }
  return out;
}

double received(const ForecastOf& what, int piece) {
  return what.figures[at(what.row.kinds[at(piece)])].received;
}

/// Pieces in front of which `more` values more than the fewest cross, at most.
std::vector<int> narrow_places(const Row& row, int more = 0) {
  std::vector<int> out;
  if (row.size() < 2 || row.crossing.empty()) return out;
  const int fewest = *std::min_element(row.crossing.begin() + 1, row.crossing.end());
  for (int i = 1; i < row.size(); ++i)
    if (row.crossing[at(i)] <= fewest + more) out.push_back(i);
  return out;
}

/// Each part but the first begins at the nearest of `places` behind the one before; empty if there are too few.
std::vector<int> moved_to(const std::vector<int>& places, const std::vector<int>& first) {
  std::vector<int> out{0};
  auto from = places.begin();
  for (std::size_t part = 1; part < first.size(); ++part) {
    const auto left = static_cast<std::ptrdiff_t>(first.size() - part);  // parts that begin there or behind
    if (places.end() - from < left) return {};
    from = std::ranges::min_element(from, places.end() - left + 1, {},
                                    [&](int place) { return std::abs(place - first[part]); });
    out.push_back(*from++);
  }
  return out;
}

}  // namespace

std::vector<double> crossing_bytes(const ForecastOf& what, const std::vector<int>& first) {
  const std::vector<int> narrow = narrow_places(what.row);
  std::vector<double> out;
  for (std::size_t part = 1; part < first.size(); ++part) {
    const auto next = std::ranges::lower_bound(narrow, first[part]);
    const int end = next == narrow.end() ? what.row.size() : *next;
    double& bytes = out.emplace_back(received(what, first[part]));
    for (int i = first[part]; i < end; ++i) bytes = std::max(bytes, received(what, i));
  }
  return out;
}

std::vector<std::vector<int>> other_cuts(const ForecastOf& what, const Pipelining& p,
                                         const std::vector<int>& first) {
  const Layers layers(what.row);
  std::vector<std::vector<int>> out;
  for (const std::vector<int>& counts : {even_counts(layers, p.parts()), balanced_counts(layers, p, what)})
    if (!counts.empty()) out.push_back(first_of(layers, counts));
  // A mask, or positions, may cross everywhere but at the end.
  for (int more : {0, 1}) out.push_back(moved_to(narrow_places(what.row, more), first));
  std::erase_if(out, [&](const std::vector<int>& cut) { return cut.empty() || cut == first; });
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace shardwright::automatic
