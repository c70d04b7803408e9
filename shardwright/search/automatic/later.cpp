#include "shardwright/search/automatic/later.h"

#include <algorithm>
#include <utility>

namespace shardwright::automatic {
namespace {

constexpr std::size_t most_kept = 64;

/// Of forecasts, for which gradients of inputs are half of a backward: they are hardly less, and then stages idle for less.
constexpr double sureness = 0.9;

}  // namespace

void Later::keep(std::size_t number, double bound) {
  if (all_.size() < most_kept)
    all_.push_back({number, bound});
  else
    bound_ = std::min(bound_, bound);
}

std::vector<Candidate> Later::candidates(Candidates& forecasts, Record& record,
                                         const std::function<bool()>& is_late) {
  std::vector<Candidate> out;
  for (const Kept& kept : std::exchange(all_, {})) {
    std::optional<Candidate> c;
    if (!is_late()) c = forecasts.forecast(record[kept.number].structure);
    if (!c) {
      bound_ = std::min(bound_, kept.bound);
      continue;
    }
    c->number = kept.number;
    c->least_seconds = std::max(kept.bound, sureness * c->forecast.hopeful_seconds);
    record.forecast(kept.number, *c, c->least_seconds);
    if (c->forecast.fits) out.push_back(*std::move(c));
  }
  std::ranges::stable_sort(out, {}, [](const Candidate& c) { return c.forecast.seconds; });
  return out;
}

}  // namespace shardwright::automatic
