#include "shardwright/search/automatic/bounds.h"

#include <algorithm>

#include "shardwright/search/automatic/forecast.h"
#include "shardwright/search/space/axes.h"

namespace shardwright::automatic {
namespace {

/// Lets fewer devices share the work of a sample. Returns whether there were several.
bool ease(Constraints& s) {
  for (const DegreeKind& kind : degree_kinds) {
    const int degree = s.degrees.of(kind.name);
    if (kind.of != Sharing::work || degree == 1) continue;
    s.degrees.set(kind.name, degree / space::primes_of(degree).back());
    s.sequence_parallel = splits_sequence(s) && shards_of(s) > 1;
    return true;
  }
  return false;
}

}  // namespace

std::vector<Bounds::Step> Bounds::steps(const Constraints& s) const {
  std::vector<Step> out{{s, true}};
  Step easier = out.front();
  easier.structure.recompute = RecomputeMode::none;
  if (mode_of(s) != RecomputeMode::none) out.push_back(easier);
  easier.waits = false;
  if (tables_.replicas_wait(s)) out.push_back(easier);
  while (ease(easier.structure)) out.push_back(easier);
  std::ranges::reverse(out);
  return out;
}

std::optional<double> Bounds::seconds(const Constraints& s, int i) {
  const Step step = steps(s)[static_cast<std::size_t>(i)];
  const std::optional<Pieces>& least = pieces(step);
  if (!least) return std::nullopt;
  return least_seconds(pipelining_of(s), tables_.row(s), *least) * shards_of(step.structure) / shards_of(s);
}

const std::optional<Pieces>& Bounds::pieces(const Step& step) {
  const Constraints& s = step.structure;
  const bool waits = step.waits && tables_.replicas_wait(s);
  Constraints kind = of_pieces(s);
  kind.micro_batches.reset();
  kind.zero.reset();
  const auto [it, is_new] = known_.try_emplace(
      {kind, tables_.samples_of_device(s), summed_of(pipelining_of(s)), &tables_.row(s), waits});
  if (is_new) {
    it->second = tables_.at_least(s, fewest_);
    if (it->second && waits) tables_.wait_for_replicas(*it->second, s);
  }
  return it->second;
}

}  // namespace shardwright::automatic
