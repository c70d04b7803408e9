#include "shardwright/search/automatic/bounds.h"

#include <algorithm>

#include "shardwright/search/automatic/forecast.h"

namespace shardwright::search {
namespace {

int smallest_factor(int n) {
  int f = 2;
  while (n % f != 0) ++f;
  return f;
}

}  // namespace

std::vector<Structure> Bounds::steps(const Structure& s) {
  std::vector<Structure> out{s};
  Structure easier = s;
  easier.recompute = RecomputeMode::none;
  if (s.recompute != easier.recompute) out.push_back(easier);
  while (easier.degrees.tensor > 1) {
    easier.degrees.tensor /= smallest_factor(easier.degrees.tensor);
    easier.degrees.sequence = s.degrees.sequence && easier.degrees.tensor > 1;
    out.push_back(easier);
  }
  std::ranges::reverse(out);
  return out;
}

std::optional<double> Bounds::seconds(const Structure& s, int i) {
  const Structure step = steps(s)[static_cast<std::size_t>(i)];
  const std::optional<Pieces>& least = pieces(step);
  if (!least) return std::nullopt;
  return least_seconds(s.pipelining, tables_.row(s), *least) * step.degrees.tensor / s.degrees.tensor;
}

const std::optional<Pieces>& Bounds::pieces(const Structure& s) {
  const auto [it, is_new] =
      known_.try_emplace({s.degrees.data, s.degrees.tensor, s.degrees.sequence, tables_.samples_of_device(s),
                          summed_of(s.pipelining), s.recompute, &tables_.row(s)});
  if (is_new) it->second = tables_.at_least(s, fewest_);
  return it->second;
}

}  // namespace shardwright::search
