#include "shardwright/search/automatic/record.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"

namespace shardwright::automatic {
namespace {

constexpr double gigabyte = 1e9;

std::string what_of(const Tried& t) { return t.words.empty() ? structure_text(t.structure) : t.words; }

/// `dp=4,..: at least 1.2 s, forecast 1.3 s and 40 GB`; `dp=4,..: simulated 1.31 s and 41 GB`
std::string line_of(const Tried& t) {
  const bool is_simulated = t.by == KnownBy::program;
  const std::string least = is_simulated ? "" : fmt::format("at least {:.4g} s, ", t.least_seconds);
  return fmt::format(
      "{}: {}{} {:.4g} s and {:.4g} GB{}{}", what_of(t), least, is_simulated ? "simulated" : "forecast",
      t.seconds, t.bytes / gigabyte,
      !is_simulated && t.layers_again > 0 ? fmt::format(", {} layers computed again", t.layers_again) : "",
      t.fate == Fate::misfit        ? ", which does not fit"
      : !is_simulated && t.is_close ? ", which hardly fits"
                                    : "");
}

bool is_same(const Tried& a, const Tried& b) { return a.words == b.words && a.structure == b.structure; }

}  // namespace

void Record::add(std::vector<Constraints> structures) {
  require(entries_.empty(), "structures come after other plans");
  entries_.reserve(structures.size());
  for (Constraints& s : structures) entries_.push_back({.structure = std::move(s)});
}

std::size_t Record::add(std::string words) {
  entries_.push_back({.words = std::move(words)});
  return entries_.size() - 1;
}

std::size_t Record::add(Constraints structure) {
  entries_.push_back({.structure = std::move(structure)});
  return entries_.size() - 1;
}

bool Record::has(const Constraints& structure) const {
  return std::ranges::any_of(entries_,
                             [&](const Tried& t) { return t.words.empty() && t.structure == structure; });
}

void Record::add_misfit(const std::vector<Tried>& of_other, std::string_view words) {
  const Tried* best = nullptr;
  for (const Tried& t : of_other)
    if (t.fate == Fate::misfit && t.by == KnownBy::program && (!best || t.seconds < best->seconds)) best = &t;
  if (!best) return;
  Tried told = *best;
  told.words = fmt::format("{}: {}", words, best->words);  // before entries move
  entries_.push_back(std::move(told));
}

std::size_t Record::number_of(const Constraints& structure) const {
  const auto it = std::ranges::find_if(
      entries_, [&](const Tried& t) { return t.words.empty() && t.structure == structure; });
  require(it != entries_.end(), "{} is no structure of the search", to_text(structure));
  return static_cast<std::size_t>(it - entries_.begin());
}

std::vector<Constraints> Record::structures() const {
  std::vector<Constraints> out;
  for (const Tried& t : entries_)
    if (t.words.empty()) out.push_back(t.structure);
  return out;
}

double Record::needless(std::size_t number, double least_seconds) {
  entries_[number].fate = Fate::needless;
  return copies_activations(entries_[number].structure) ? least_seconds
                                                        : std::numeric_limits<double>::infinity();
}

void Record::forecast(std::size_t number, const Candidate& c, double least_seconds) {
  Tried& t = entries_[number];
  t.by = KnownBy::forecast;
  t.fate = c.forecast.fits ? Fate::open : Fate::misfit;
  t.least_seconds = least_seconds;
  t.seconds = c.forecast.seconds;
  t.bytes = c.forecast.bytes;
  t.layers_again = c.layers_again;
  t.is_close = c.is_close;
  tell(t);
}

void Record::simulated(std::size_t number, double seconds, double bytes, bool fits) {
  Tried& t = entries_[number];
  if (t.by == KnownBy::program && t.fate == Fate::slower && (!fits || t.seconds <= seconds)) {
    Tried other = t;  // of the same with stages cut otherwise, which does not count
    other.seconds = seconds, other.bytes = bytes, other.fate = fits ? Fate::slower : Fate::misfit;
    return tell(other);
  }
  t.by = KnownBy::program;
  t.fate = fits ? Fate::slower : Fate::misfit;
  t.seconds = seconds;
  t.bytes = bytes;
  tell(t);
}

void Record::tell(const Tried& t) {
  if (writes_log_) log_.push_back(line_of(t));
}

std::vector<Tried> Record::settled(std::size_t taken) && {
  const double best = entries_[taken].seconds;
  for (Tried& t : entries_)
    if (t.fate == Fate::open && std::max(t.least_seconds, t.seconds) >= best)
      t.fate = t.by == KnownBy::bound ? Fate::beyond : Fate::slower;
  entries_[taken].fate = Fate::taken;
  return std::move(entries_);
}

std::vector<Tried> with_taken(std::vector<Tried> of_first, const std::vector<Tried>& of_taken, double cap) {
  for (Tried& t : of_first)
    if (t.fate == Fate::taken) t.fate = Fate::slower;
  for (const Tried& t : of_taken) {
    if (t.by != KnownBy::program) continue;
    auto known = std::ranges::find_if(of_first, [&](const Tried& other) { return is_same(t, other); });
    if (known == of_first.end()) known = of_first.insert(known, Tried{});
    const bool is_known = known->by == KnownBy::program && known->bytes <= cap && known->seconds <= t.seconds;
    if (is_known && t.fate != Fate::taken) continue;
    *known = t;
    if (t.fate != Fate::taken) known->fate = t.bytes <= cap ? Fate::slower : Fate::misfit;
  }
  return of_first;
}

}  // namespace shardwright::automatic
