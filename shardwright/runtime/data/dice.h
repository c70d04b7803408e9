// The random numbers that one drawn thing uses, each once.
#pragma once

#include <cstdint>

#include "shardwright/base/random.h"

namespace shardwright {

class Dice {
 public:
  /// Of thing number `index`; things that are drawn from one stream share none of their numbers.
  Dice(const RandomStream& stream, std::int64_t index)
      : stream_(stream), next_(static_cast<std::uint64_t>(index) * draws_per_thing) {}
  double between(double low, double high) { return low + (high - low) * stream_.uniform(next_++); }
  std::int64_t below(std::int64_t n) { return stream_.below(next_++, n); }
  double normal() { return stream_.normal(next_++); }

 private:
  static constexpr std::uint64_t draws_per_thing = 1U << 12U;
  const RandomStream& stream_;
  std::uint64_t next_;
};

}  // namespace shardwright
