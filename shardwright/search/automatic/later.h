// Structures that are tried when others have been: schedules that cut backwards in two. How a backward falls apart, and how
// much of its communication the first part then waits for, figures of whole backwards do not say, so that these are forecast
// less well and would take the trials of others.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "shardwright/search/automatic/candidates.h"
#include "shardwright/search/automatic/record.h"

namespace shardwright::automatic {

class Later {
 public:
  /// A structure, of which no step is shorter than `bound`.
  void keep(std::size_t number, double bound);
  /// Those that fit, forecast, the fastest first; until it is late.
  std::vector<Candidate> candidates(Candidates& forecasts, Record& record,
                                    const std::function<bool()>& is_late);
  /// No step of a structure that was kept, and is not among the candidates, is shorter.
  double bound() const { return bound_; }

 private:
  struct Kept {
    std::size_t number = 0;
    double bound = 0;
  };
  std::vector<Kept> all_;
  double bound_ = std::numeric_limits<double>::infinity();
};

/// So many of each schedule are tried.
constexpr int most_later_of_schedule = 2;

}  // namespace shardwright::automatic
