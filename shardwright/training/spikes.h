// Losses that leap: many times the median of those before.
#pragma once

#include <deque>
#include <optional>

namespace shardwright {

class SpikeWatch {
 public:
  static constexpr double factor = 10;

  /// The next loss: what losses were, if this is the first of some that are `factor` times that. Losses of 0 or less, as of
  /// logarithms, have no such factor.
  std::optional<double> look(double loss);

 private:
  static constexpr std::size_t most = 33, least = 5;  // of losses before
  std::deque<double> before_;
  bool is_high_ = false;
};

}  // namespace shardwright
