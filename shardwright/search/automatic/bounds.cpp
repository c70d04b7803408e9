#include "shardwright/search/automatic/bounds.h"

#include <algorithm>

#include "shardwright/search/automatic/forecast.h"
#include "shardwright/search/space/axes.h"

namespace shardwright::automatic {
namespace {

/// Lets fewer of the several devices share the work of a sample.
void ease(Constraints& s) {
  for (const DegreeKind& kind : degree_kinds) {
    const int degree = s.degrees.of(kind.name);
    if (kind.of != Sharing::work || degree == 1) continue;
    s.degrees.set(kind.name, degree / space::primes_of(degree).back());
    s.sequence_parallel = splits_sequence(s) && shards_of(s) > 1;
    return;
  }
}

/// How often, until there is one.
int eases_of(const Constraints& s) {
  int out = 0;
  for (const DegreeKind& kind : degree_kinds)
    if (kind.of == Sharing::work) out += static_cast<int>(space::primes_of(s.degrees.of(kind.name)).size());
  return out;
}

}  // namespace

int Bounds::count(const Constraints& s) {
  return 1 + (mode_of(s) != RecomputeMode::none) + tables_.replicas_wait(s) + eases_of(s);
}

/// So many steps before it.
Bounds::Step Bounds::step(const Constraints& s, int before) {
  Step out{s, true};
  if (before == 0) return out;
  if (mode_of(s) != RecomputeMode::none) {
    out.structure.recompute = RecomputeMode::none;
    if (--before == 0) return out;
  }
  out.waits = false;
  if (tables_.replicas_wait(s) && --before == 0) return out;
  for (; before > 0; --before) ease(out.structure);
  return out;
}

std::optional<double> Bounds::seconds(const Constraints& s, int i) {
  const Step step = this->step(s, count(s) - 1 - i);
  const std::optional<Pieces>& least = pieces(step);
  if (!least) return std::nullopt;
  return least_seconds(pipelining_of(s), tables_.row(s), *least) * shards_of(step.structure) / shards_of(s);
}

std::optional<double> Bounds::known_seconds(const Constraints& s) {
  const int count = this->count(s);
  for (int before = 0; before < count; ++before)
    if (known_.contains(key(step(s, before)))) {
      const auto out = seconds(s, count - 1 - before);
      if (out || before == 0) return out;  // others may be none where it can be split itself
    }
  for (int i = 0; i < count; ++i)
    if (const auto out = seconds(s, i)) return out;
  return std::nullopt;
}

Bounds::Key Bounds::key(const Step& step) const {
  const Constraints& s = step.structure;
  Constraints kind = of_pieces(s);
  kind.micro_batches.reset();
  kind.zero.reset();
  return {std::move(kind), tables_.samples_of_device(s),           summed_of(pipelining_of(s)),
          &tables_.row(s), step.waits && tables_.replicas_wait(s), tables_.is_on_fastest(s)};
}

const std::optional<Pieces>& Bounds::pieces(const Step& step) {
  const auto [it, is_new] = known_.try_emplace(key(step));
  if (is_new) {
    it->second = tables_.at_least(step.structure, fewest_);
    if (it->second && step.waits && tables_.replicas_wait(step.structure))
      tables_.wait_for_replicas(*it->second, step.structure);
  }
  return it->second;
}

}  // namespace shardwright::automatic
