// What a structure takes, from the figures of its pieces: where its stages are cut, how long a step takes, and what a
// device holds. Close enough to choose what is worth making into a program; the program decides.
#pragma once

#include <limits>
#include <vector>

#include "shardwright/cost/framework.h"
#include "shardwright/plan/lanes.h"
#include "shardwright/search/automatic/figures.h"

namespace shardwright::automatic {

struct Forecast {
  std::vector<int> first;      // pieces with which the parts begin
  std::vector<int> again;      // of each part so many pieces, its first, are computed again
  double seconds = 0;          // of a step
  double least_seconds = 0;    // the same if transfers never got into each other's way
  double hopeful_seconds = 0;  // and were waited for as little as was seen
  double bytes = 0;  // of the device that holds most; of several kinds, as if it had the memory of the least
  bool fits = false;
};

/// What is otherwise of a stage, where devices are of several kinds.
struct OfStage {
  const std::vector<Figures>* figures = nullptr;  // by kind of piece; null: as of any
  const std::vector<Figures>* again = nullptr;
  double room = 1;  // times the memory of the devices that have least
};

/// What a forecast is made of.
struct ForecastOf {
  const Row& row;
  const std::vector<Figures>& figures;  // by kind of piece
  const std::vector<Figures>* again;    // where they are computed again; null if none is
  const std::vector<OfLives>& slots;    // by part: micro-batches that are alive in it at once
  const Cluster& cluster;
  const Framework& framework;
  double cap_bytes = 0;
  bool only_least = false;  // of seconds
  double host_cap_bytes = std::numeric_limits<double>::infinity();
  std::vector<OfStage> stages = {};  // empty: all are alike
  bool must_fit = false;             // of what does not, nothing else is asked
  double worth_seconds =
      std::numeric_limits<double>::infinity();  // of what surely takes as long, nothing else is

  OfStage of(int stage) const {
    OfStage out = stages.empty() ? OfStage{} : stages[static_cast<std::size_t>(stage)];
    if (!out.figures) out.figures = &figures, out.again = again;
    return out;
  }
};

/// As few pieces are computed again as memory lets be. Throws: Infeasible if there are fewer pieces than parts.
Forecast forecast_of(const Constraints& s, const ForecastOf& what);

/// No step is shorter, however stages are cut and whatever replicas share.
double least_seconds(const Pipelining& p, const Row& row, const std::vector<Figures>& figures);

}  // namespace shardwright::automatic
