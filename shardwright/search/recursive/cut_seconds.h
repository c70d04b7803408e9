// What cuts cost in seconds along the axis at hand: the work of parts, collectives over this axis, reductions of parameters'
// gradients, and memory at a price.
//
// What a device sends over this axis is 1 / inner of what it holds after the cuts so far: whether the inner axes shard a
// tensor or reduce it in steps (reduce_scatter inside, all_reduce across, all_gather inside), only that part crosses. The
// sum over all axes is then what the whole collective moves.
#pragma once

#include "shardwright/search/recursive/cut_tables.h"
#include "shardwright/search/space/part_costs.h"

namespace shardwright::recursive {

class CutSeconds : public PartCosts {
 public:
  using PartCosts::PartCosts;

  /// For the next axis. `problem` must live as long as what is returned.
  CutPrices prices(const CutProblem& problem, const AxisLevel& level, const CutWeights& weights) const;

  double reduce(const CutProblem& problem, const CutValue& parameter, Cut gradient, const AxisLevel& level,
                Joined joined) const;

 private:
  MovePrices moves(double bytes, const AxisLevel& level) const;
};

}  // namespace shardwright::recursive
