// What a structure takes, from the figures of its pieces: where its stages are cut, how long a step takes, and what a
// device holds. Close enough to choose what is worth making into a program; the program decides.
#pragma once

#include <vector>

#include "shardwright/search/automatic/figures.h"

namespace shardwright::search {

struct Forecast {
  std::vector<int> first;  // pieces with which the parts begin
  double seconds = 0;      // of a step
  double bytes = 0;        // of the device that holds most
  bool fits = false;
};

/// `figures`: by kind of piece.
/// Throws: Infeasible if there are fewer pieces than parts.
Forecast forecast_of(const Network& network, const std::vector<Figures>& figures, const Structure& s,
                     const Cluster& cluster, double cap_bytes);

/// No step of the structure is shorter, whatever the cut: its passes, and the bubble that is always there.
double least_seconds(const Network& network, const std::vector<Figures>& figures, const Structure& s);

}  // namespace shardwright::search
