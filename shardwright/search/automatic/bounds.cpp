#include "shardwright/search/automatic/bounds.h"

#include <algorithm>

#include "shardwright/search/automatic/forecast.h"

namespace shardwright::automatic {
namespace {

int smallest_factor(int n) {
  int f = 2;
  while (n % f != 0) ++f;
  return f;
}

}  // namespace

std::vector<Bounds::Step> Bounds::steps(const Structure& s) const {
  std::vector<Step> out{{s, true}};
  Step easier = out.front();
  easier.structure.recompute = RecomputeMode::none;
  easier.structure.repeats_layers = false;
  if (s.recompute != RecomputeMode::none) out.push_back(easier);
  easier.waits = false;
  if (tables_.replicas_wait(s)) out.push_back(easier);
  for (Degrees& d = easier.structure.degrees; d.tensor > 1;) {
    d.tensor /= smallest_factor(d.tensor);
    d.sequence = s.degrees.sequence && d.tensor > 1;
    out.push_back(easier);
  }
  std::ranges::reverse(out);
  return out;
}

std::optional<double> Bounds::seconds(const Structure& s, int i) {
  const Step step = steps(s)[static_cast<std::size_t>(i)];
  const std::optional<Pieces>& least = pieces(step);
  if (!least) return std::nullopt;
  return least_seconds(s.pipelining, tables_.row(s), *least) * step.structure.degrees.tensor /
         s.degrees.tensor;
}

const std::optional<Pieces>& Bounds::pieces(const Step& step) {
  const Structure& s = step.structure;
  const bool waits = step.waits && tables_.replicas_wait(s);
  const auto [it, is_new] =
      known_.try_emplace({s.degrees.data, s.degrees.tensor, s.degrees.sequence, tables_.samples_of_device(s),
                          summed_of(s.pipelining), s.recompute, &tables_.row(s), waits});
  if (is_new) {
    it->second = tables_.at_least(s, fewest_);
    if (it->second && waits) tables_.wait_for_replicas(*it->second, s);
  }
  return it->second;
}

}  // namespace shardwright::automatic
