// Structures that are tried when others have been: schedules that cut backwards in two. How a backward falls apart takes
// pieces compiled once more, which is done of the likeliest alone; until then bounds say little of them, and they would take the
// trials of others.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <vector>

#include "shardwright/search/automatic/candidates.h"
#include "shardwright/search/automatic/record.h"

namespace shardwright::automatic {

class Later {
 public:
  /// A structure, of which no step is shorter than `bound`.
  void keep(std::size_t number, double bound);
  bool has(std::size_t number) const { return numbers_.contains(number); }
  struct Want {
    double worth = 0;          // seconds that they may take
    bool is_of_large = false;  // networks, of which programs join few transfers of pieces
    const std::function<bool()>& is_late;
  };
  /// Those that fit, forecast, the fastest first.
  std::vector<Candidate> candidates(Candidates& forecasts, Record& record, const Want& want);
  /// No step of a structure that was kept, and is not among the candidates, is shorter.
  double bound() const { return bound_; }

 private:
  struct Kept {
    std::size_t number = 0;
    double bound = 0;
  };
  std::vector<Kept> likely(Candidates& forecasts, const Record& record, const Want& want);
  void drop(const Kept& kept) { bound_ = std::min(bound_, kept.bound); }

  std::vector<Kept> all_;
  std::set<std::size_t> numbers_;  // all that came
  double bound_ = std::numeric_limits<double>::infinity();
};

inline bool is_for_later(const Constraints& s, const Constraints& fixed) {
  return !fixed.schedule && schedule_of(s).splits_backward;
}

/// No step of `s` is shorter than so much of its forecast. Of cut backwards the last sums of each half are waited for by some, and
/// where starting kernels takes most, pieces start more than programs.
inline double sureness_of(const Constraints& s, bool is_large) {
  return !schedule_of(s).splits_backward ? 0.99 : is_large ? 0.9 : 0.8;
}

/// So many of each schedule are tried.
constexpr int most_later_of_schedule = 2;

}  // namespace shardwright::automatic
