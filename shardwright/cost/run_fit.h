// A cluster's figures fitted to whole steps that were run: the few that steps tell, each with how sure it is.
//
// Nothing here knows a formula: a run is a function of a cluster. Figures are factors on those of a cluster, fitted in
// logarithms by damped Gauss-Newton steps: a run that lies far from all others counts less (Huber), and a figure keeps to
// what the cluster says as far as runs do not tell otherwise (a normal prior of its own width).
// Cost: rounds * (figures + 1) * runs prices.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shardwright/cost/cluster.h"

namespace shardwright {

/// Figures of a cluster that one factor changes together.
struct RunFigure {
  std::string name;
  double prior = 0.3;  // standard deviation of the logarithm of its factor, before any run
  std::function<void(Cluster&, double factor)> scale;
  std::function<double(const Cluster&)> value;  // of the first of them
  std::string unit;
};

/// Of `cluster`: shares of the peak, rates of memory and of each kind of link, what starting takes, and what is beside
/// compute.
std::vector<RunFigure> run_figures(const Cluster& cluster);

/// `cluster` with its figures times `factors`.
Cluster scaled(Cluster cluster, const std::vector<RunFigure>& figures, const std::vector<double>& factors);

struct MeasuredRun {
  double seconds = 0;
  /// With figures times `factors`.
  std::function<double(const std::vector<double>& factors)> price;
};

struct RunFit {
  std::vector<double> factors;
  std::vector<double> spreads;        // standard deviations of their logarithms
  std::vector<double> before, after;  // per run, predicted seconds
  double noise = 0;                   // typical |log(measured / predicted)| after it, by the median
  std::vector<std::vector<double>> covariance;

  /// Whether the runs have told figure `f`, or it is what was said before.
  bool tells(const std::vector<RunFigure>& figures, std::size_t f) const {
    return spreads[f] < 0.7 * figures[f].prior;
  }
  /// Whether run `r` lies further off than the others let expect.
  bool explains(const std::vector<MeasuredRun>& runs, std::size_t r) const;
  /// Spreads after one run more whose price changes so with each figure (d log price / d log factor).
  std::vector<double> spreads_with(const std::vector<double>& sensitivity) const;
};

RunFit fit_runs(const std::vector<RunFigure>& figures, const std::vector<MeasuredRun>& runs);

/// d log price / d log factor at `factors`, per figure.
std::vector<double> sensitivity_of(const std::vector<RunFigure>& figures, const MeasuredRun& run,
                                   const std::vector<double>& factors);

}  // namespace shardwright
