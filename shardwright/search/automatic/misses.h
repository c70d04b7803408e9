// How much more programs took than was forecast: those of such degrees, schedule and level err alike.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>

#include "shardwright/search/automatic/candidates.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright::automatic {

struct Miss {
  double seconds = 1, bytes = 1;
};

class Misses {
 public:
  Miss& of(const Constraints& s) {
    Constraints kind = of_pieces(s);
    kind.schedule = s.schedule;
    kind.micro_batches.reset();
    kind.recompute.reset();
    return by_kind_[kind];
  }
  /// Of seconds, of all; at most 1.
  double least_seconds() const { return least_seconds_; }

  /// What is forecast to take no more times the best may be faster, as far as forecasts were seen to err; at most 1.04.
  double near() const { return 1 + std::min(0.04, most_error_); }

  void learn(const Candidate& c, const Evaluation& e) {
    Miss& miss = of(c.structure);
    const double seconds = e.estimate.step_seconds() / c.forecast.seconds;
    miss.seconds = std::max(miss.seconds, seconds);
    least_seconds_ = std::min(least_seconds_, seconds);
    most_error_ = std::max(most_error_, std::abs(seconds - 1));
    miss.bytes =
        std::max(miss.bytes, static_cast<double>(e.estimate.arena_bytes) / e.room / c.forecast.bytes);
  }

 private:
  std::map<Constraints, Miss> by_kind_;
  double least_seconds_ = 1, most_error_ = 0;
};

}  // namespace shardwright::automatic
