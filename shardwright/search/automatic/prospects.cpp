#include "shardwright/search/automatic/prospects.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "shardwright/search/automatic/neighbours.h"

namespace shardwright::automatic {
namespace {

/// Of which no more is known than bounds.
bool is_left_open(const Tried& look) { return look.fate == Fate::open && look.by == KnownBy::bound; }

/// So often the same structure is made lighter.
constexpr int most_times_too_large = 4;

/// A schedule of which a program takes so many times as long is not tried again.
constexpr double far_of_later = 1.08;

/// What cuts backwards of tiny networks takes as many times less than its forecast, and what neighbours of their best do.
constexpr double near_of_tiny = 1.45;

/// And those of small networks.
constexpr double near_of_small = 1.3;

/// And so many of each schedule are tried: their forecasts say little of which is the fastest.
constexpr int most_later_of_tiny = 6, most_later_of_small = 4;

/// Neighbours of the best that are forecast to take no more times as long may be faster.
constexpr double near_of_neighbours = 1.12;
/// Of degrees that the search has not come to, so many become forecasts, of so many of each number of micro-batches.
constexpr std::size_t most_of_degrees = 4;
constexpr int most_looked_at = 4;
/// Found among as many, of which some do not fit.
constexpr int most_tries = 32;
/// What takes no more times the memory that there is may fit where its stages are cut otherwise.
constexpr double nearly_fits = 1.03;
/// As the best: whose neighbours are looked at, too.
constexpr double as_fast = 1.005;

}  // namespace

std::size_t Prospects::add(Candidate c) {
  all_.push_back(std::move(c));
  return all_.size() - 1;
}

bool Prospects::try_one(Candidate& c) {
  c.is_tried = true;
  const std::optional<Evaluation> e = evaluated(c);
  if (!e) return false;
  c.fits = e->fits();
  of_.misses.learn(c, *e);
  unfit_ += !c.fits;
  if (static_cast<double>(e->estimate.arena_bytes) <= nearly_fits * static_cast<double>(e->cap_bytes))
    try_usual_cut(c, *e);
  if (c.fits) return false;
  const std::int64_t before = std::exchange(c.program_bytes, e->estimate.arena_bytes);
  const bool helps = before != c.program_bytes && ++c.times_too_large <= most_times_too_large;
  return may_be_lighter(c.structure) && helps;
}

/// What its program takes, if there is such a plan.
std::optional<Evaluation> Prospects::evaluated(const Candidate& c) {
  const Graph* graph = of_.tables.graph(*c.structure.micro_batches);
  if (!graph) return {};
  return of_.trials.run(*graph, with_candidate(of_.request, c, *graph, of_.tables.row(c.structure)),
                        c.number);
}

/// Of what is among the best, the first few.
void Prospects::try_usual_cut(const Candidate& c, const Evaluation& e) {
  constexpr std::size_t trials = 4;
  if (usual_cuts_ < trials && e.estimate.step_seconds() <= of_.misses.near() * of_.trials.seconds())
    try_usual_cut(c);
}

/// With its stages as they are cut where only the structure is said.
void Prospects::try_usual_cut(const Candidate& c) {
  if (stages_of(c.structure) == 1 || repeats_layers(c.structure) || is_late()) return;
  if (!usually_cut_.insert(c.number).second) return;
  const std::size_t before = of_.trials.count();
  of_.trials.run(*of_.tables.graph(*c.structure.micro_batches), with_structure(of_.request, c.structure),
                 c.number);
  usual_cuts_ += of_.trials.count() - before;
}

/// Of the fastest that have not been cut so, at the end.
void Prospects::try_usual_cuts() {
  constexpr int trials = 3;
  for (int i = 0; i < trials && of_.trials.does_fit() && !is_late(); ++i) {
    const Candidate* next = nullptr;
    double seconds = of_.misses.near() * of_.trials.seconds();
    for (const Candidate& c : all_) {
      const Tried& t = of_.record[c.number];
      const bool may_be_cut =
          stages_of(c.structure) > 1 && !repeats_layers(c.structure) && !usually_cut_.contains(c.number);
      if (c.is_tried && c.fits && may_be_cut && t.seconds < seconds) next = &c, seconds = t.seconds;
    }
    if (!next) return;
    try_usual_cut(*next);
  }
}

bool Prospects::try_best_forecast() {
  if (of_.trials.does_fit()) return true;
  if (Candidate* best = fastest_untried(all_, &Forecast::seconds)) try_one(*best);
  return of_.trials.does_fit();
}

void Prospects::forecast_other_degrees(Candidates& forecasts, std::size_t structures) {
  std::map<Degrees, std::vector<std::size_t>> open;
  std::set<Degrees> seen;
  for (std::size_t i = 0; i < structures; ++i) {
    const Tried& look = of_.record[i];
    const Constraints& s = look.structure;
    if (look.by != KnownBy::bound) seen.insert(s.degrees);
    if (is_left_open(look) && may_be_best(look.least_seconds) && !is_for_later(s, of_.request.constraints))
      open[s.degrees].push_back(i);
  }
  for (auto& [degrees, numbers] : open)
    if (!seen.contains(degrees) && !is_late()) forecast_some(forecasts, std::move(numbers));
}

/// Those of which it is sure that they take least, of the likeliest few of each number of micro-batches.
void Prospects::forecast_some(Candidates& forecasts, std::vector<std::size_t> numbers) {
  std::ranges::stable_sort(numbers, {}, [&](std::size_t i) { return of_.record[i].least_seconds; });
  std::map<int, int> looks, tries;  // by micro-batches
  std::vector<std::pair<double, std::size_t>> sure;
  for (std::size_t i : numbers) {
    const Constraints& s = of_.record[i].structure;
    if (looks[*s.micro_batches] >= most_looked_at || ++tries[*s.micro_batches] > most_tries || is_late())
      continue;
    const auto least = forecasts.at_least(s);
    if (!least || !least->fits || !may_be_best(least->seconds) || forecasts.is_needless(s)) continue;
    ++looks[*s.micro_batches];
    const auto seconds = forecasts.sure_seconds(s);
    if (seconds && may_be_best(*seconds)) sure.emplace_back(*seconds, i);
  }
  std::ranges::stable_sort(sure, {}, &std::pair<double, std::size_t>::first);
  sure.resize(std::min(sure.size(), most_of_degrees));
  for (const auto& [seconds, i] : sure) add_forecast(i, of_.record[i].least_seconds, forecasts);
}

void Prospects::keep_open(Later& later, Candidates& forecasts, std::size_t structures) {
  constexpr std::size_t most = 2000;
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < structures; ++i) {
    const Tried& look = of_.record[i];
    if (is_left_open(look) && !later.has(i) && is_for_later(look.structure, of_.request.constraints) &&
        may_be_best(look.least_seconds))
      open.push_back(i);
  }
  std::ranges::stable_sort(open, {}, [&](std::size_t i) { return of_.record[i].least_seconds; });
  open.resize(std::min(open.size(), most));
  for (std::size_t i : open) {
    const auto least = is_late() ? std::nullopt : forecasts.at_least(of_.record[i].structure);
    if (least && least->fits) later.keep(i, of_.record[i].least_seconds);
  }
}

void Prospects::try_later(Later& later, Candidates& forecasts) {
  std::map<Schedule, int> trials;  // of each
  const int most_alike = by_size(most_later_of_tiny, most_later_of_small, most_later_of_schedule);
  const double near = by_size(near_of_tiny, std::max(near_of_small, of_.misses.near()), of_.misses.near());
  double most = near * std::min(of_.worth, of_.trials.does_fit() ? of_.trials.seconds() : of_.worth);
  if (!of_.others.is_small() && of_.trials.does_fit())
    most = std::min(most, of_.others.seconds_to_beat() / of_.misses.least_seconds());
  const std::function<bool()> is_late = [this] { return this->is_late(); };
  for (Candidate& c : later.candidates(forecasts, of_.record, {most, !of_.others.is_small(), is_late})) {
    Candidate& own = all_[add(std::move(c))];
    const bool fits = of_.trials.does_fit();
    const double seconds = likely_seconds(own);
    const bool may_be_best = seconds < of_.worth && (!fits || seconds < near * of_.trials.seconds());
    int& alike = trials[schedule_of(own.structure)];
    if (!may_be_best || is_late() || alike >= most_alike) continue;
    ++alike;
    try_one(own);
    const bool is_far = of_.record[own.number].seconds > far_of_later * of_.trials.seconds();
    if (of_.trials.does_fit() && is_far) alike = most_alike;
  }
}

void Prospects::try_further(Candidates& forecasts, std::size_t structures) {
  try_hopeful();
  add_chunks_of_programs(forecasts);
  try_near();
  for (double before = 0; of_.trials.does_fit() && of_.trials.seconds() != before;) {
    before = of_.trials.seconds();
    try_neighbours(forecasts, structures);
    try_near();  // what neighbours were forecast, and were not come to
    try_usual_cuts();
  }
}

/// Forecasts of transfers that are waited for may be too high: what may be faster all the same.
void Prospects::try_hopeful() {
  constexpr int trials = 2;
  for (int i = 0; i < trials && of_.trials.does_fit() && !is_late(); ++i) {
    Candidate* best = fastest_untried(all_, &Forecast::hopeful_seconds);
    if (!best || best->forecast.hopeful_seconds >= of_.trials.seconds()) return;
    try_one(*best);
  }
}

/// Forecasts err: what is forecast to take little longer than the best may be faster. Those of tiny networks, where starting
/// kernels takes most and pieces start more of them than programs, err more.
void Prospects::try_near() {
  const bool is_tiny = of_.others.is_tiny();
  const int trials = is_tiny ? 12 : 3;
  const double near = is_tiny ? 1.5 : of_.misses.near();
  for (int i = 0; i < trials && of_.trials.does_fit() && !is_late(); ++i) {
    Candidate* next = likeliest(near * of_.trials.seconds(), [&](const Candidate& c) {
      return !c.is_close && c.times_too_large == 0 && !is_like_one_that_fits(c, all_);
    });
    if (!next) return;
    try_one(*next);
  }
}

/// What differs in one decision from the best, or from what is as fast as the best with other decisions; the likeliest of all first.
void Prospects::try_neighbours(Candidates& forecasts, std::size_t structures) {
  int trials = by_size(16, 8, 4);
  const double near = by_size(near_of_tiny, near_of_small, near_of_neighbours);
  const int most_alike = of_.others.is_tiny() ? trials : 2;  // schedules with other numbers of chunks
  std::set<std::size_t> starts;
  std::map<const ScheduleDef*, int> alike;
  for (;;) {
    while (const auto from = fastest_but(starts)) {
      starts.insert(*from);
      forecast_neighbours(Constraints(of_.record[*from].structure), forecasts, structures);
    }
    if (!of_.trials.does_fit() || trials <= 0 || is_late()) return;
    const double seconds = of_.trials.seconds();
    Candidate* next = likeliest(near * seconds, [&](const Candidate& c) {
      const auto tried = alike.find(&def_of(schedule_of(c.structure)));
      return (tried == alike.end() || tried->second < most_alike) &&
             std::ranges::any_of(starts, [&](std::size_t from) {
               const Tried& start = of_.record[from];
               return start.seconds < as_fast * seconds && are_neighbours(start.structure, c.structure);
             });
    });
    if (!next) return;
    int& as_it = alike[&def_of(schedule_of(next->structure))];
    try_one(*next);
    const bool is_better = of_.trials.seconds() < seconds;
    as_it = is_better ? 0 : as_it + 1;
    if (!is_better) --trials;
  }
}

/// Of structures that became programs that fit, about as fast as the best; none if all are `done`.
std::optional<std::size_t> Prospects::fastest_but(const std::set<std::size_t>& done) const {
  if (!of_.trials.does_fit() || is_late()) return {};
  std::optional<std::size_t> out;
  double seconds = as_fast * of_.trials.seconds();
  const auto look = [&](std::size_t number) {
    const Tried& t = of_.record[number];
    const bool is_one = t.words.empty() && t.by == KnownBy::program && t.fate != Fate::misfit;
    if (is_one && t.seconds < seconds && !done.contains(number)) out = number, seconds = t.seconds;
  };
  look(of_.trials.best_number());
  for (const Candidate& c : all_) look(c.number);
  return out;
}

void Prospects::forecast_neighbours(const Constraints& best, Candidates& forecasts, std::size_t structures) {
  add_other_chunks(best, forecasts);
  for (std::size_t i = 0; i < structures && !is_late(); ++i) {
    const Tried& look = of_.record[i];
    const bool is_spared =
        look.fate == Fate::needless && look.by == KnownBy::bound && copies_activations(look.structure);
    if ((is_left_open(look) || is_spared) && look.least_seconds <= of_.trials.seconds() &&
        are_neighbours(best, look.structure))
      add_forecast(i, look.least_seconds, forecasts);
  }
}

/// Of the fastest few, none far behind the best.
void Prospects::add_chunks_of_programs(Candidates& forecasts) {
  constexpr std::size_t most = 3;
  std::vector<std::pair<double, std::size_t>> programs;
  for (const Candidate& c : all_) {
    const Tried& t = of_.record[c.number];
    if (t.by == KnownBy::program && t.fate != Fate::misfit &&
        t.seconds < near_of_neighbours * of_.trials.seconds())
      programs.emplace_back(t.seconds, c.number);
  }
  std::ranges::sort(programs);
  programs.resize(std::min(programs.size(), most));
  for (const auto& [seconds, number] : programs)
    if (!is_late()) add_other_chunks(Constraints(of_.record[number].structure), forecasts);
}

/// Schedules with other numbers of chunks than all structures are tried with.
void Prospects::add_other_chunks(const Constraints& best, Candidates& forecasts) {
  if (of_.request.constraints.schedule) return;
  for (const int argument : def_of(schedule_of(best)).near) {
    Constraints s = best;
    s.schedule = schedule_of(def_of(schedule_of(best)), argument);
    const Pipelining p = pipelining_of(s);
    if (!refusal_of(p).empty() || of_.tables.row(s).size() < p.parts() || of_.record.has(s)) continue;
    add_forecast(of_.record.add(std::move(s)), 0, forecasts);
  }
}

void Prospects::add_forecast(std::size_t number, double least_seconds, Candidates& forecasts) {
  std::optional<Candidate> c = forecasts.forecast(of_.record[number].structure);
  if (!c || c->forecast.hopeful_seconds > of_.worth) return;
  c->number = number;
  c->least_seconds = std::max(
      least_seconds, sureness_of(c->structure, !of_.others.is_small()) * c->forecast.hopeful_seconds);
  of_.record.forecast(number, *c, c->least_seconds);
  if (c->forecast.fits) add(*std::move(c));
}

/// Of what may be tried and is likely to take less than `seconds`; null if nothing is. Where no layer needs to be computed again
/// the same is there without.
Candidate* Prospects::likeliest(double seconds, const std::function<bool(const Candidate&)>& may_be) {
  Candidate* out = nullptr;
  const double to_beat = of_.others.seconds_to_beat();
  for (Candidate& c : all_) {
    const bool is_other = !repeats_layers(c.structure) || c.layers_again > 0;
    if (c.is_tried || !is_other || likely_seconds(c) >= seconds || !may_be(c)) continue;
    const bool is_as_good = !of_.others.is_small() && of_.misses.least_seconds() * c.least_seconds > to_beat;
    if (is_as_good && likely_seconds(c) >= of_.trials.seconds()) continue;
    out = &c, seconds = likely_seconds(c);
  }
  return out;
}

bool Prospects::try_least_memory(Candidates& forecasts) {
  constexpr std::size_t trials = 3;
  std::erase_if(all_, [](const Candidate& c) { return c.is_tried; });
  for (const Candidate& c : forecasts.misfits()) {
    all_.push_back(c);
    all_.back().number = of_.record.number_of(c.structure);
  }
  for (Candidate& c : all_)
    if (repeats_layers(c.structure)) {
      c = with_more_again(c, forecasts.lightest(c.structure));
      c.least_seconds = 0;  // that of others is not known
    }
  std::ranges::stable_sort(all_, {}, [](const Candidate& c) { return c.forecast.bytes; });
  const auto is_same = [](const Candidate& a,
                          const Candidate& b) {  // called otherwise: all layers are computed again
    return a.forecast.bytes == b.forecast.bytes && a.forecast.first == b.forecast.first &&
           a.forecast.again == b.forecast.again;
  };
  all_.erase(std::unique(all_.begin(), all_.end(), is_same), all_.end());
  all_.resize(std::min(all_.size(), trials));
  for (Candidate& c : all_) {
    if (of_.trials.best() && is_late()) return true;
    evaluated(c);
    c.is_tried = true;
  }
  return false;
}

}  // namespace shardwright::automatic
