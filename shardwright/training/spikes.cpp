#include "shardwright/training/spikes.h"

#include <cmath>
#include <utility>

#include "shardwright/base/median.h"

namespace shardwright {

std::optional<double> SpikeWatch::look(double loss) {
  if (!std::isfinite(loss)) return std::nullopt;
  std::optional<double> out;
  if (before_.size() >= least) {
    const double usual = median_of({before_.begin(), before_.end()});
    const bool was_high = std::exchange(is_high_, usual > 0 && loss > factor * usual);
    if (is_high_ && !was_high) out = usual;
  }
  before_.push_back(loss);
  if (before_.size() > most) before_.pop_front();
  return out;
}

}  // namespace shardwright
