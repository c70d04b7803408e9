#include "shardwright/cli/memory_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "shardwright/simulate/evaluate.h"

namespace shardwright {
namespace {

using Json = nlohmann::ordered_json;

/// Bytes that come and go in a step.
double passing_of(const Evaluation& e) {
  return static_cast<double>(e.estimate.arena_bytes - e.estimate.parameter_bytes - e.estimate.state_bytes);
}

struct Point {
  double predicted = 0, passing = 0, measured = 0;

  double more() const { return measured - predicted; }
};

/// measured - predicted = constant + slack * passing, by least squares with priors of 2 GB and 10 %. How much the priors
/// weigh depends on how far points lie off, which is seen after a fit.
MemoryFit fitted(const std::vector<Point>& points) {
  constexpr double prior_constant = 2e9, prior_slack = 0.1, least_variance = 1e14;
  constexpr int rounds = 3;
  const auto count = static_cast<double>(points.size());
  MemoryFit out{.runs = points.size()};
  for (int round = 0; round < rounds; ++round) {
    double noise = 0;
    for (const Point& p : points) noise += std::abs(p.more() - out.constant - out.slack * p.passing) / count;
    const double variance = std::max(noise * noise, least_variance);
    double a = variance / (prior_constant * prior_constant), b = 0,
           c = variance / (prior_slack * prior_slack);
    double d = 0, e = 0;  // (a b, b c) (constant, slack) = (d, e)
    for (const Point& p : points) {
      a += 1, b += p.passing, c += p.passing * p.passing;
      d += p.more(), e += p.passing * p.more();
    }
    const double determinant = a * c - b * b;
    out.constant = (c * d - b * e) / determinant, out.slack = (a * e - b * d) / determinant;
    out.constant_spread = noise * std::sqrt(c / determinant);
    out.slack_spread = noise * std::sqrt(a / determinant);
  }
  return out;
}

}  // namespace

std::vector<MemoryFit> memory_fits(const std::vector<RunAsked>& runs,
                                   const std::vector<const PricedRun*>& priced) {
  std::map<std::string, std::vector<Point>> points;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    if (!runs[r].bytes) continue;
    const Evaluation e =
        evaluate(priced[r]->pipeline, priced[r]->cluster, {.framework = priced[r]->framework});
    points[priced[r]->framework].push_back(
        {static_cast<double>(e.estimate.arena_bytes), passing_of(e), *runs[r].bytes});
  }
  std::vector<MemoryFit> out;
  for (const auto& [framework, of] : points) {
    MemoryFit fit = fitted(of);
    fit.framework = framework;
    for (const Point& p : of) {
      const auto count = static_cast<double>(of.size());
      fit.error_before += std::abs(p.predicted / p.measured - 1) / count;
      fit.error += std::abs((p.predicted + fit.constant + fit.slack * p.passing) / p.measured - 1) / count;
    }
    out.push_back(fit);
  }
  return out;
}

std::string text_of(const MemoryFit& fit) {
  return fmt::format(
      "memory of {}: {} runs: {:+.2f} GB +- {:.2f}, and {:+.1f} % +- {:.1f} of what comes and goes; mean "
      "error {:.1f} -> "
      "{:.1f} %\n",
      fit.framework, fit.runs, fit.constant / 1e9, fit.constant_spread / 1e9, 100 * fit.slack,
      100 * fit.slack_spread, 100 * fit.error_before, 100 * fit.error);
}

Json json_of(const MemoryFit& fit) {
  return {{"framework", fit.framework},
          {"runs", fit.runs},
          {"constant_bytes", fit.constant},
          {"constant_spread_bytes", fit.constant_spread},
          {"slack", fit.slack},
          {"slack_spread", fit.slack_spread},
          {"mean_error_before", fit.error_before},
          {"mean_error", fit.error}};
}

}  // namespace shardwright
