// What of a stage's layers is computed again, by number: as Megatron's `block` and `uniform` say it. A plan says it by names.
#pragma once

#include <vector>

#include "shardwright/plan/recompute.h"

namespace shardwright {

struct LayersAgain {
  /// Only the first so many of each stage; one number stands for all stages. Empty: all layers.
  std::vector<int> first = {};
  /// So many in a row are one region, of which less is kept and more is alive at a time.
  int together = 1;

  bool is_on() const { return !first.empty() || together > 1; }
};

/// `recompute` of a mode, for the layers of `stages` (a network's parts in their order) that `layers` says: the same as modules.
/// Throws: Error if there are other numbers than stages, a stage has fewer layers, or there are none.
Recompute of_layers(Recompute recompute, const std::vector<Graph>& stages, const LayersAgain& layers);

}  // namespace shardwright
