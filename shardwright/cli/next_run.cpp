#include "shardwright/cli/next_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "shardwright/base/error.h"
#include "shardwright/base/format.h"
#include "shardwright/base/text.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {
namespace {

using Json = nlohmann::ordered_json;

/// The words of a plan, `dp=8`, in their order.
std::vector<std::pair<std::string, std::string>> words_in(const std::string& plan) {
  std::vector<std::pair<std::string, std::string>> out;
  for (std::string_view word : split(plan, ',')) {
    const std::size_t equals = word.find('=');
    if (equals == word.npos) return {};
    out.emplace_back(trim(word.substr(0, equals)), trim(word.substr(equals + 1)));
  }
  return out;
}

/// `run` with word `key` times `factor`; nothing where that is no whole number above 0.
std::optional<RunAsked> with_factors(const RunAsked& run, const std::map<std::string, double>& factors) {
  std::string plan;
  std::set<std::string> met;
  for (const auto& [key, value] : words_in(run.plan)) {
    std::string said = value;
    if (const auto it = factors.find(key); it != factors.end()) {
      const auto number = to_integer(value);
      const double times = number ? static_cast<double>(*number) * it->second : 0;
      if (times < 1 || times != std::floor(times)) return std::nullopt;
      said = fmt::format("{}", static_cast<std::int64_t>(times));
      met.insert(key);
    }
    plan += fmt::format("{}{}={}", plan.empty() ? "" : ",", key, said);
  }
  for (const auto& [key, factor] : factors)
    if (!met.contains(key) && factor != 1) {
      if (factor < 1) return std::nullopt;
      plan += fmt::format(",{}={}", key, factor);
    }
  RunAsked out = run;
  out.plan = plan, out.seconds.reset(), out.bytes.reset();
  return out;
}

std::vector<RunAsked> neighbours_of(const std::vector<RunAsked>& runs) {
  constexpr std::size_t most = 4;  // runs that are begun from: each neighbour is a program of its own
  std::vector<RunAsked> out;
  std::set<std::pair<std::string, std::string>> known;
  for (const RunAsked& run : runs) known.emplace(run.model, run.plan);
  const std::size_t step = std::max<std::size_t>(1, runs.size() / most);
  for (std::size_t r = 0; r < runs.size(); r += step) {
    if (words_in(runs[r].plan).empty()) continue;  // a saved plan
    for (const auto& factors : std::vector<std::map<std::string, double>>{{{"tp", 2}, {"dp", 0.5}},
                                                                          {{"tp", 0.5}, {"dp", 2}},
                                                                          {{"pp", 2}, {"dp", 0.5}},
                                                                          {{"pp", 0.5}, {"dp", 2}},
                                                                          {{"micro_batch", 2}},
                                                                          {{"micro_batch", 0.5}},
                                                                          {{"dp", 2}, {"global_batch", 2}}})
      if (auto near = with_factors(runs[r], factors); near && known.emplace(near->model, near->plan).second)
        out.push_back(*std::move(near));
  }
  return out;
}

/// Of the logarithm of the volume that the figures may lie in, by how much it shrinks.
double gain_of(const RunFit& fit, const std::vector<double>& sensitivity) {
  double variance = 0;
  for (std::size_t i = 0; i < sensitivity.size(); ++i)
    for (std::size_t j = 0; j < sensitivity.size(); ++j)
      variance += sensitivity[i] * fit.covariance[i][j] * sensitivity[j];
  return std::log1p(variance / (fit.noise * fit.noise));
}

/// Bytes that come and go in a step.
double passing_of(const Evaluation& e) {
  return static_cast<double>(e.estimate.arena_bytes - e.estimate.parameter_bytes - e.estimate.state_bytes);
}

}  // namespace

MeasuredRun measured_run(double seconds, const PricedRun& run, const std::vector<RunFigure>& figures) {
  return {seconds, [&run, &figures](const std::vector<double>& factors) {
            return estimate(run.pipeline, scaled(run.cluster, figures, factors)).step_seconds();
          }};
}

std::vector<MemoryFit> memory_fits(const std::vector<RunAsked>& runs,
                                   const std::vector<const PricedRun*>& priced) {
  struct Point {
    double predicted, passing, measured;
  };
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
    // measured - predicted = constant + slack * passing, with priors of 2 GB and 10 %.
    constexpr double prior_constant = 2e9, prior_slack = 0.1;
    double noise = 0, a = 0, b = 0, c = 0, d = 0, y = 0;  // the sums of two unknowns
    double constant = 0, slack = 0;
    for (int round = 0; round < 3; ++round) {
      noise = 0;
      for (const Point& p : of)
        noise += std::abs(p.measured - p.predicted - constant - slack * p.passing) /
                 static_cast<double>(of.size());
      const double variance = std::max(noise * noise, 1e14);
      a = variance / (prior_constant * prior_constant), b = 0, c = variance / (prior_slack * prior_slack),
      d = y = 0;
      for (const Point& p : of) {
        a += 1, b += p.passing, c += p.passing * p.passing;
        d += p.measured - p.predicted, y += p.passing * (p.measured - p.predicted);
      }
      constant = (c * d - b * y) / (a * c - b * b), slack = (a * y - b * d) / (a * c - b * b);
    }
    MemoryFit fit{.framework = framework, .runs = of.size(), .constant = constant, .slack = slack};
    fit.constant_spread = noise * std::sqrt(c / (a * c - b * b));
    fit.slack_spread = noise * std::sqrt(a / (a * c - b * b));
    for (const Point& p : of) {
      const auto count = static_cast<double>(of.size());
      fit.error_before += std::abs(p.predicted / p.measured - 1) / count;
      fit.error += std::abs((p.predicted + constant + slack * p.passing) / p.measured - 1) / count;
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

std::optional<NextRun> next_run(const std::vector<RunAsked>& runs, const std::vector<RunFigure>& figures,
                                const RunFit& fit, const std::function<MeasuredRun(const RunAsked&)>& price) {
  std::optional<NextRun> out;
  double most = 0;
  for (const RunAsked& run : neighbours_of(runs)) {
    try {
      const std::vector<double> sensitivity = sensitivity_of(figures, price(run), fit.factors);
      const double gain = gain_of(fit, sensitivity);
      if (gain <= most) continue;
      most = gain;
      const std::vector<double> spreads = fit.spreads_with(sensitivity);
      std::size_t told = 0;
      for (std::size_t f = 0; f < spreads.size(); ++f)
        if (spreads[f] / fit.spreads[f] < spreads[told] / fit.spreads[told]) told = f;
      out = {run, figures[told].name, fit.spreads[told], spreads[told]};
    } catch (const Error&) {  // no plan of this network
    }
  }
  return out;
}

std::string text_of(const NextRun& next) {
  return fmt::format("run next: {} {}: would tell {} to +- {:.1f} % (now {:.1f} %)\n", next.run.model,
                     next.run.plan, next.figure, 100 * next.to, 100 * next.from);
}

Json json_of(const NextRun& next) {
  return {{"model", next.run.model},
          {"plan", next.run.plan},
          {"figure", next.figure},
          {"spread_before", next.from},
          {"spread", next.to}};
}

}  // namespace shardwright
