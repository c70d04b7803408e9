#include "shardwright/cli/next_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"

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

}  // namespace

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
