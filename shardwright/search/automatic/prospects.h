// What has a forecast, and which of it becomes programs: in the order of the search, and behind it what may be faster than its
// forecast says.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "shardwright/search/automatic/candidates.h"
#include "shardwright/search/automatic/later.h"
#include "shardwright/search/automatic/misses.h"
#include "shardwright/search/automatic/other_plans.h"
#include "shardwright/search/automatic/record.h"
#include "shardwright/search/automatic/trials.h"

namespace shardwright::automatic {

class Prospects {
 public:
  struct Of {
    const PlanRequest& request;
    double worth = 0;  // nothing that takes more seconds is looked for
    Tables& tables;
    Misses& misses;
    Record& record;
    Trials& trials;
    OtherPlans& others;
  };
  /// All must outlive it.
  explicit Prospects(const Of& of) : of_(of) {}

  /// Returns its place.
  std::size_t add(Candidate c);
  Candidate& operator[](std::size_t place) { return all_[place]; }
  const std::vector<Candidate>& all() const { return all_; }

  /// Makes it a program. Returns whether that does not fit, but might with more layers computed again, or cut otherwise.
  bool try_one(Candidate& c);
  /// If no program fits yet, that of what was forecast to be the fastest so far. Returns whether one does.
  bool try_best_forecast();
  /// When a search ends before all that bounds leave open: a few of the degrees that it has not come to. Bounds know of tensor
  /// parallelism's transfers alone, so that on slow networks what waits for replicas comes first.
  void forecast_other_degrees(Candidates& forecasts, std::size_t structures);
  /// And of those for later the first by their bounds that may fit.
  void keep_open(Later& later, Candidates& forecasts, std::size_t structures);
  /// When all others have been tried.
  void try_later(Later& later, Candidates& forecasts);
  /// What may be faster than its forecast.
  void try_further(Candidates& forecasts, std::size_t structures);
  /// Of what does not fit, or was not forecast to. Returns whether time was over before all were tried.
  bool try_least_memory(Candidates& forecasts);

  /// Programs that count as one, and those that did not fit.
  std::size_t usual_cuts() const { return usual_cuts_; }
  std::size_t unfit() const { return unfit_; }

 private:
  /// Programs of small networks are cheap, and their forecasts err more.
  template <class T>
  T by_size(T of_tiny, T of_small, T of_large) {
    return of_.others.is_tiny() ? of_tiny : of_.others.is_small() ? of_small : of_large;
  }
  bool is_late() const { return of_.request.options.deadline.is_over(); }
  double likely_seconds(const Candidate& c) {
    return of_.misses.of(c.structure).seconds * c.forecast.seconds;
  }
  std::optional<Evaluation> evaluated(const Candidate& c);
  void try_usual_cut(const Candidate& c, const Evaluation& e);
  void try_usual_cut(const Candidate& c);
  void try_usual_cuts();
  void try_hopeful();
  void try_near();
  void try_neighbours(Candidates& forecasts, std::size_t structures);
  std::optional<std::size_t> fastest_but(const std::set<std::size_t>& done) const;
  void forecast_neighbours(const Constraints& best, Candidates& forecasts, std::size_t structures);
  void add_chunks_of_programs(Candidates& forecasts);
  void add_other_chunks(const Constraints& best, Candidates& forecasts);
  bool may_be_best(double seconds) const { return seconds < std::min(of_.worth, of_.trials.seconds()); }
  void forecast_some(Candidates& forecasts, std::vector<std::size_t> numbers);
  void add_forecast(std::size_t number, double least_seconds, Candidates& forecasts);
  Candidate* likeliest(double seconds, const std::function<bool(const Candidate&)>& may_be);

  Of of_;
  std::vector<Candidate> all_;
  std::set<std::size_t> usually_cut_;  // numbers of structures
  std::size_t usual_cuts_ = 0;         // programs that these became
  std::size_t unfit_ = 0;
};

/// By as many layers that are computed again, or by other stages.
inline bool may_be_lighter(const Constraints& s) { return repeats_layers(s) || stages_of(s) > 1; }

}  // namespace shardwright::automatic
