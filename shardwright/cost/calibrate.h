// A cluster's figures fitted to what was measured: the other direction of compute.h and layout/collective.h.
//
// Nothing here knows a formula. A fit changes figures of the cluster, one after the other and again, until the prices of
// the samples are nearest to what was measured: of (p - m)^2 / (p + m), which gives samples their share of time, so that
// what comes out right is sums. Cost: rounds * figures * samples.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "shardwright/cost/cluster.h"
#include "shardwright/cost/compute.h"
#include "shardwright/layout/collective.h"

namespace shardwright {

/// Seconds stand for several measurements.
struct KernelSample {
  Work work;
  double seconds = 0;
  double weight = 1;
};
/// What reads and writes `bytes` again and again.
struct StreamSample {
  double bytes = 0;
  double seconds = 0;
};
/// Of `ranks` that are `stride` apart. `bytes` as in collective_seconds.
struct CollectiveSample {
  StepKind kind = StepKind::all_reduce;
  int ranks = 1;
  int stride = 1;
  double bytes = 0;
  double seconds = 0;
};

double predicted_seconds(const CollectiveSample& sample, const Cluster& cluster);

/// Bandwidth of memory and of caches, whose sizes show where the rate falls.
void fit_memory(Cluster& cluster, std::span<const StreamSample> samples);

/// Whether the samples are large enough to say what the peaks are, or can only show that they are higher.
enum class Peaks { measured, at_least };

/// Peaks by type, the share that each kind of work reaches, and what starting takes. Figures of which there are no
/// samples stay.
void fit_kernels(Cluster& cluster, std::span<const KernelSample> samples, Peaks peaks = Peaks::measured);

/// Start, latency and bandwidth of each level of links that is used.
void fit_links(Cluster& cluster, std::span<const CollectiveSample> samples);

/// With as many digits as measuring can tell.
double rounded(double value);
/// The same of the figures that fits change.
void round_figures(Cluster& cluster);

/// How far what was measured lies from what a fitted figure says: quartiles of measured / predicted.
struct FigureSpread {
  std::string figure;  // `efficiency.contraction`
  std::size_t samples = 0;
  double low = 0, median = 0, high = 0;
};
std::vector<FigureSpread> spreads_of(const Cluster& cluster, std::span<const KernelSample> kernels,
                                     std::span<const CollectiveSample> collectives);

}  // namespace shardwright
