// Cuts of a row that are tried beside the one in which each stage by itself takes as long as the others.
#pragma once

#include <vector>

#include "shardwright/search/automatic/forecast.h"

namespace shardwright::automatic {

/// Bytes that cross in front of each part but the first, in the forward of a micro-batch, where parts begin with the pieces `first`. Within a
/// layer, more than the piece itself receives: what those behind it read of the layer's begin, too.
std::vector<double> crossing_bytes(const ForecastOf& what, const std::vector<int>& first);

/// First pieces of parts, instead of `first`: with as many layers each; such that devices take equally long in all of theirs; and, where
/// `first` is within layers, at the places nearest to it where few values cross.
std::vector<std::vector<int>> other_cuts(const ForecastOf& what, const Pipelining& p,
                                         const std::vector<int>& first);

}  // namespace shardwright::automatic
