#include "shardwright/cost/run_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "shardwright/base/median.h"
namespace shardwright {
namespace {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;

/// Two steps of a cluster that are alike differ by as much: no fit is surer than that.
constexpr double least_noise = 0.01;

/// Of a symmetric positive definite matrix, by Gauss and Jordan.
Matrix inverse(Matrix a) {
  const std::size_t n = a.size();
  Matrix out(n, Vector(n, 0));
  for (std::size_t i = 0; i < n; ++i) out[i][i] = 1;
  for (std::size_t i = 0; i < n; ++i) {
    const double pivot = a[i][i];
    for (std::size_t k = 0; k < n; ++k) a[i][k] /= pivot, out[i][k] /= pivot;
    for (std::size_t j = 0; j < n; ++j) {
      const double times = j == i ? 0 : a[j][i];
      for (std::size_t k = 0; k < n && times != 0; ++k)
        a[j][k] -= times * a[i][k], out[j][k] -= times * out[i][k];
    }
  }
  return out;
}

Vector times(const Matrix& a, const Vector& x) {
  Vector out(x.size(), 0);
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < x.size(); ++j) out[i] += a[i][j] * x[j];
  return out;
}

Vector exponentials(Vector x) {
  for (double& v : x) v = std::exp(v);
  return x;
}

Vector residuals(const std::vector<MeasuredRun>& runs, const Vector& prices) {
  Vector out;
  for (std::size_t r = 0; r < runs.size(); ++r) out.push_back(std::log(runs[r].seconds / prices[r]));
  return out;
}

double noise_of(const Vector& residuals) {
  if (residuals.empty()) return least_noise;
  Vector sizes;
  for (double r : residuals) sizes.push_back(std::abs(r));
  constexpr double of_normal = 1.4826;  // standard deviation over median of sizes
  return std::max(least_noise, of_normal * median_of(std::move(sizes)));
}

Vector prices_of(const std::vector<MeasuredRun>& runs, const Vector& factors) {
  Vector out;
  for (const MeasuredRun& run : runs) out.push_back(run.price(factors));
  return out;
}

/// J'WJ / noise^2 + the priors, and J'Wr / noise^2 - what the priors pull back.
struct Normal {
  Matrix matrix;
  Vector right;
};
Normal normal_of(const std::vector<RunFigure>& figures, const Matrix& slopes, const Vector& residuals,
                 const Vector& at) {
  const std::size_t n = figures.size();
  const double noise = noise_of(residuals);
  Normal out{Matrix(n, Vector(n, 0)), Vector(n, 0)};
  for (std::size_t i = 0; i < n; ++i) {
    const double weight = 1 / (figures[i].prior * figures[i].prior);
    out.matrix[i][i] = weight;
    out.right[i] = -weight * at[i];
  }
  for (std::size_t r = 0; r < residuals.size(); ++r) {
    constexpr double huber = 1.5;
    const double size = std::abs(residuals[r]) / noise;
    const double weight = (size > huber ? huber / size : 1) / (noise * noise);
    for (std::size_t i = 0; i < n; ++i) {
      out.right[i] += weight * slopes[r][i] * residuals[r];
      for (std::size_t j = 0; j < n; ++j) out.matrix[i][j] += weight * slopes[r][i] * slopes[r][j];
    }
  }
  return out;
}

void scale_share(double& share, double factor) { share = std::min(1.0, share * factor); }

}  // namespace

std::vector<RunFigure> run_figures(const Cluster& cluster) {
  const auto of_kinds = [](std::string name, double prior, std::vector<WorkKind> kinds) {
    const WorkKind first = kinds.front();
    return RunFigure{std::move(name), prior,
                     [kinds = std::move(kinds)](Cluster& c, double factor) {
                       for (WorkKind kind : kinds)
                         scale_share(c.efficiency[static_cast<std::size_t>(kind)].best, factor);
                     },
                     [first](const Cluster& c) { return c.efficiency_of(first).best; }, ""};
  };
  using enum WorkKind;
  std::vector<RunFigure> out{of_kinds("products", 0.3, {contraction, convolution, weight_convolution}),
                             of_kinds("attention", 0.5, {chain}),
                             of_kinds("streaming", 0.3, {streaming, update}),
                             of_kinds("loss", 0.7, {loss}),
                             {"kernel_overhead", 1, [](Cluster& c, double f) { c.kernel_seconds *= f; },
                              [](const Cluster& c) { return c.kernel_seconds; }, "s"}};
  for (std::size_t l = 0; l < cluster.links.size(); ++l)
    out.push_back({cluster.links[l].kind + " bandwidth", 0.5,
                   [kind = cluster.links[l].kind](Cluster& c, double f) {
                     for (LinkLevel& level : c.links)
                       if (level.kind == kind) level.bytes_per_second *= f;
                   },
                   [l](const Cluster& c) { return c.links[l].bytes_per_second; }, "B/s"});
  out.push_back({"start of collectives", 1,
                 [](Cluster& c, double f) {
                   for (LinkLevel& level : c.links) level.start_seconds *= f, level.member_seconds *= f;
                 },
                 [](const Cluster& c) { return c.links.back().start_seconds; }, "s"});
  std::erase_if(out, [&](const RunFigure& f) { return f.value(cluster) == 0; });
  return out;
}

Cluster scaled(Cluster cluster, const std::vector<RunFigure>& figures, const std::vector<double>& factors) {
  for (std::size_t f = 0; f < figures.size(); ++f) figures[f].scale(cluster, factors[f]);
  return cluster;
}

std::vector<double> sensitivity_of(const std::vector<RunFigure>& figures, const MeasuredRun& run,
                                   const std::vector<double>& factors) {
  constexpr double step = 0.05;
  Vector out;
  for (std::size_t f = 0; f < figures.size(); ++f) {
    Vector less = factors, more = factors;
    less[f] *= std::exp(-step), more[f] *= std::exp(step);  // both ways: shares end at 1
    out.push_back(std::log(run.price(more) / run.price(less)) / (2 * step));
  }
  return out;
}

RunFit fit_runs(const std::vector<RunFigure>& figures, const std::vector<MeasuredRun>& runs) {
  constexpr int most_rounds = 6;
  constexpr double longest_step = 0.5, enough = 1e-3;
  Vector at(figures.size(), 0);
  RunFit out;
  out.before = prices_of(runs, exponentials(at));
  Vector prices = out.before;
  Matrix slopes;
  for (int round = 0; round < most_rounds; ++round) {
    slopes.clear();
    for (const MeasuredRun& run : runs) slopes.push_back(sensitivity_of(figures, run, exponentials(at)));
    const Normal normal = normal_of(figures, slopes, residuals(runs, prices), at);
    Vector step = times(inverse(normal.matrix), normal.right);
    double longest = 0;
    for (double s : step) longest = std::max(longest, std::abs(s));
    for (std::size_t f = 0; f < at.size(); ++f)
      at[f] += step[f] * std::min(1.0, longest_step / std::max(longest, 1e-12));
    prices = prices_of(runs, exponentials(at));
    if (longest < enough) break;
  }
  out.factors = exponentials(at);
  out.after = prices;
  out.noise = noise_of(residuals(runs, prices));
  out.covariance = inverse(normal_of(figures, slopes, residuals(runs, prices), at).matrix);
  for (std::size_t f = 0; f < figures.size(); ++f) out.spreads.push_back(std::sqrt(out.covariance[f][f]));
  return out;
}

bool RunFit::explains(const std::vector<MeasuredRun>& runs, std::size_t r) const {
  constexpr double far = 3, at_least = 0.1;
  return std::abs(std::log(runs[r].seconds / after[r])) < std::max(far * noise, at_least);
}

std::vector<double> RunFit::spreads_with(const std::vector<double>& sensitivity) const {
  const Vector gain = times(covariance, sensitivity);
  double all = noise * noise;
  for (std::size_t f = 0; f < gain.size(); ++f) all += gain[f] * sensitivity[f];
  Vector out;
  for (std::size_t f = 0; f < gain.size(); ++f)
    out.push_back(std::sqrt(std::max(0.0, covariance[f][f] - gain[f] * gain[f] / all)));
  return out;
}

}  // namespace shardwright
