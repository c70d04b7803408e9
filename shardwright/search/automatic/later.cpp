#include "shardwright/search/automatic/later.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace shardwright::automatic {
namespace {

/// So many become forecasts; of more is known what they take whatever the order of their tasks, and of still more what their
/// passes take.
constexpr std::size_t most_forecast = 64, most_forecast_of_small = 256, most_kept = 4000;
/// And of each schedule so many degrees and micro-batches that none of these has with it, and that fit, of not many more: bounds see
/// little of what ranks send each other, and of some schedules less than of others.
constexpr int most_others_of_schedule = 10, most_looked_at = 20;
/// Of the same degrees and micro-batches, until one fits.
constexpr int most_of_kind = 2;

using Kind = std::tuple<Degrees, std::optional<int>, Schedule>;

Kind kind_of(const Constraints& s) { return {s.degrees, s.micro_batches, schedule_of(s)}; }

/// Which are forecast, as they come: the first ones, and behind these the first of other degrees and micro-batches.
class Chosen {
 public:
  explicit Chosen(std::size_t first) : first_(first) {}

  bool has(const Constraints& s) {
    const Kind kind = kind_of(s);
    if (count_++ < first_) return true;
    Others& own = others_[schedule_of(s)];
    int& looks = looks_[kind];
    const bool is_full = own.fit == most_others_of_schedule || (looks == 0 && own.kinds == most_looked_at);
    if (is_full || fit_.contains(kind) || looks == most_of_kind) return false;
    if (looks++ == 0) ++own.kinds;
    return true;
  }
  void fits(const Constraints& s) {
    if (fit_.insert(kind_of(s)).second && count_ > first_) ++others_[schedule_of(s)].fit;
  }

 private:
  struct Others {
    int kinds = 0, fit = 0;
  };
  std::size_t first_, count_ = 0;
  std::set<Kind> fit_;
  std::map<Kind, int> looks_;  // behind the first ones
  std::map<Schedule, Others> others_;
};

}  // namespace

void Later::keep(std::size_t number, double bound) {
  numbers_.insert(number);
  if (all_.size() < most_kept)
    all_.push_back({number, bound});
  else
    drop({number, bound});
}

std::vector<Later::Kept> Later::likely(Candidates& forecasts, const Record& record, const Want& want) {
  std::vector<Kept> out;
  for (Kept kept : std::exchange(all_, {})) {
    const Constraints& s = record[kept.number].structure;
    if (want.is_of_large && kept.bound < want.worth && !want.is_late())
      if (const auto sure = forecasts.sure_seconds(s))
        kept.bound = std::max(kept.bound, sureness_of(s, true) * *sure);
    if (kept.bound * (want.is_of_large ? 1 : sureness_of(s, false)) < want.worth)
      out.push_back(kept);
    else
      drop(kept);
  }
  std::ranges::stable_sort(out, {}, &Kept::bound);
  return out;
}

std::vector<Candidate> Later::candidates(Candidates& forecasts, Record& record, const Want& want) {
  std::vector<Candidate> out;
  const std::vector<Kept> all = likely(forecasts, record, want);
  Chosen chosen(want.is_of_large ? most_forecast : most_forecast_of_small);
  for (const Kept& kept : all) {
    if (forecasts.is_needless(record[kept.number].structure)) {
      if (copies_activations(record[kept.number].structure)) drop(kept);
      continue;  // it stays open, for neighbours
    }
    std::optional<Candidate> c;
    if (chosen.has(record[kept.number].structure) && !want.is_late())
      c = forecasts.forecast(record[kept.number].structure);
    if (!c) {
      drop(kept);
      continue;
    }
    c->number = kept.number;
    c->least_seconds =
        std::max(kept.bound, sureness_of(c->structure, want.is_of_large) * c->forecast.hopeful_seconds);
    record.forecast(kept.number, *c, c->least_seconds);
    if (!c->forecast.fits) continue;
    chosen.fits(c->structure);
    out.push_back(*std::move(c));
  }
  std::ranges::stable_sort(out, {}, [](const Candidate& c) { return c.forecast.seconds; });
  // Of one micro-batch several schedules are the same, and of no layers whatever computes them again.
  const auto is_same = [](const Candidate& a, const Candidate& b) {
    return a.forecast.seconds == b.forecast.seconds && a.forecast.bytes == b.forecast.bytes &&
           a.structure.degrees == b.structure.degrees;
  };
  for (std::size_t i = 1; i < out.size(); ++i)
    if (Tried& t = record[out[i].number]; is_same(out[i - 1], out[i]))
      t.fate = Fate::needless, t.by = KnownBy::bound;
  std::erase_if(out, [&](const Candidate& c) { return record[c.number].fate == Fate::needless; });
  return out;
}

}  // namespace shardwright::automatic
