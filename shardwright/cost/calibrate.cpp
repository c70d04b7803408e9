#include "shardwright/cost/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "shardwright/base/median.h"

namespace shardwright {
namespace {

/// A figure that a fit may change, and between which bounds; both are above 0.
struct Figure {
  double* value = nullptr;
  double low = 0;
  double high = 0;
};

/// Sets the figure where the error is least: first on a grid of its logarithm, then between the neighbours of the best.
void minimize(const Figure& figure, const std::function<double()>& error) {
  const auto error_at = [&](double log_value) {
    *figure.value = std::exp(log_value);
    return error();
  };
  constexpr int steps = 40;
  double begin = std::log(figure.low), end = std::log(figure.high), best = std::log(*figure.value);
  double least = error_at(best);
  for (int pass = 0; pass < 4; ++pass) {
    const double step = (end - begin) / steps;
    for (int s = 0; s <= steps; ++s)
      if (const double e = error_at(begin + s * step); e < least) {
        least = e;
        best = begin + s * step;
      }
    begin = std::max(best - step, std::log(figure.low));
    end = std::min(best + step, std::log(figure.high));
  }
  *figure.value = std::exp(best);
}

/// One after the other until none changes much.
void minimize_all(std::span<const Figure> figures, const std::function<double()>& error) {
  constexpr int most_rounds = 30;
  double before = error();
  for (int round = 0; round < most_rounds; ++round) {
    for (const Figure& figure : figures) minimize(figure, error);
    const double after = error();
    if (after > before * (1 - 1e-6)) return;
    before = after;
  }
}

double distance(double predicted, double measured) {
  const double d = predicted - measured;
  return d * d / (predicted + measured);
}

// ---- memory ----

double log_rate(const StreamSample& s) { return std::log(s.bytes / s.seconds); }

/// Squares of what the rates of samples [begin, end) differ from their mean.
double squares(std::span<const StreamSample> samples) {
  double mean = 0, out = 0;
  for (const StreamSample& s : samples) mean += log_rate(s) / static_cast<double>(samples.size());
  for (const StreamSample& s : samples) out += (log_rate(s) - mean) * (log_rate(s) - mean);
  return out;
}

/// Where the samples, smallest first, are cut into levels of one rate each, so that `levels` leave least squares: ends.
std::vector<std::size_t> best_cuts(std::span<const StreamSample> samples, std::size_t levels) {
  const std::size_t n = samples.size();
  constexpr double never = 1e300;
  std::vector<std::vector<double>> least(levels + 1, std::vector<double>(n + 1, never));
  std::vector<std::vector<std::size_t>> from(levels + 1, std::vector<std::size_t>(n + 1, 0));
  least[0][0] = 0;
  for (std::size_t l = 1; l <= levels; ++l)
    for (std::size_t end = 1; end <= n; ++end)
      for (std::size_t begin = 0; begin < end; ++begin) {
        const double all = least[l - 1][begin] + squares(samples.subspan(begin, end - begin));
        if (all >= least[l][end]) continue;
        least[l][end] = all;
        from[l][end] = begin;
      }
  std::vector<std::size_t> ends{n};
  for (std::size_t l = levels; l > 1; --l) ends.insert(ends.begin(), from[l][ends.front()]);
  return ends;
}

double squares_of(std::span<const StreamSample> samples, const std::vector<std::size_t>& ends) {
  double out = 0;
  std::size_t begin = 0;
  for (std::size_t end : ends) {
    out += squares(samples.subspan(begin, end - begin));
    begin = end;
  }
  return out;
}

// ---- kernels ----

double* peak_of(PeakFlops& flops, DType dtype) {
  switch (dtype) {
    case DType::f64: return &flops.f64;
    case DType::f32: return &flops.f32;
    case DType::bf16: return &flops.bf16;
    case DType::f16: return &flops.f16;
    default: return nullptr;
  }
}

using Kernels = std::vector<const KernelSample*>;

double error_of(const Kernels& kernels, const Cluster& cluster) {
  double out = 0;
  for (const KernelSample* k : kernels)
    out += k->weight * distance(compute_seconds(k->work, cluster), k->seconds);
  return out;
}

Kernels kernels_of(std::span<const KernelSample> samples, auto is_wanted) {
  Kernels out;
  for (const KernelSample& s : samples)
    if (is_wanted(s)) out.push_back(&s);
  return out;
}

}  // namespace

void fit_memory(Cluster& cluster, std::span<const StreamSample> samples) {
  if (samples.empty()) return;
  std::vector<StreamSample> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted, {}, &StreamSample::bytes);
  // One more level must explain what is more than noise: rates that differ by some percent.
  constexpr double noise = 0.02;
  std::vector<std::size_t> ends = best_cuts(sorted, 1);
  for (std::size_t levels = 2; levels <= std::min(most_caches + 1, sorted.size()); ++levels) {
    const std::vector<std::size_t> more = best_cuts(sorted, levels);
    if (squares_of(sorted, more) > squares_of(sorted, ends) - noise) break;
    ends = more;
  }
  cluster.caches.clear();
  std::size_t begin = 0;
  for (std::size_t end : ends) {
    std::vector<double> rates;
    for (std::size_t i = begin; i < end; ++i) rates.push_back(sorted[i].bytes / sorted[i].seconds);
    if (end == sorted.size())
      cluster.memory_bytes_per_second = median_of(rates);
    else
      cluster.caches.push_back(
          {static_cast<std::int64_t>(std::sqrt(sorted[end - 1].bytes * sorted[end].bytes)),
           median_of(rates)});
    begin = end;
  }
}

void fit_kernels(Cluster& cluster, std::span<const KernelSample> samples, Peaks peaks_are) {
  PeakFlops& peaks = cluster.flops_per_second;
  // f32 first: the share of its peak that products reach is that of other types, too.
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    double* peak = peak_of(peaks, dtype);
    double most = 0;
    const Kernels products = kernels_of(
        samples, [&](const KernelSample& s) { return !streams(s.work.kind) && s.work.dtype == dtype; });
    for (const KernelSample* k : products) most = std::max(most, k->work.flops / k->seconds);
    if (most > 0) *peak = peaks_are == Peaks::measured ? most : std::max(*peak, most);
  }
  // Streaming first: what limits small products is memory, too.
  for (const WorkKind kind : {WorkKind::streaming, WorkKind::update, WorkKind::loss, WorkKind::contraction,
                              WorkKind::convolution, WorkKind::weight_convolution, WorkKind::chain}) {
    Efficiency& e = cluster.efficiency[static_cast<std::size_t>(kind)];
    const Kernels own = kernels_of(samples, [&](const KernelSample& s) {
      return s.work.kind == kind && (streams(kind) || s.work.dtype == DType::f32);
    });
    if (own.empty()) continue;
    e.half_seconds = std::max(e.half_seconds, 1e-8);
    minimize_all(std::array<Figure, 2>{{{&e.best, 0.01, 1}, {&e.half_seconds, 1e-9, 1e-3}}},
                 [&] { return error_of(own, cluster); });
  }
  for (const DType dtype : {DType::f64, DType::bf16, DType::f16}) {
    const Kernels own = kernels_of(
        samples, [&](const KernelSample& s) { return !streams(s.work.kind) && s.work.dtype == dtype; });
    if (own.empty()) continue;
    double* peak = peak_of(peaks, dtype);
    minimize({peak, *peak / 10, *peak * 10}, [&] { return error_of(own, cluster); });
  }
}

double predicted_seconds(const CollectiveSample& sample, const Cluster& cluster) {
  require(cluster.devices() % (sample.ranks * sample.stride) == 0,
          "{} ranks, {} apart, are no part of {} devices", sample.ranks, sample.stride, cluster.devices());
  const Mesh mesh{{{"outer", std::max(1, cluster.devices() / (sample.ranks * sample.stride))},
                   {"group", sample.ranks},
                   {"inner", sample.stride}}};
  return collective_seconds(sample.kind, sample.bytes, mesh_cost(cluster, mesh).levels[1]);
}

void fit_links(Cluster& cluster, std::span<const CollectiveSample> samples) {
  if (samples.empty()) return;
  std::vector<Figure> figures;
  const auto error = [&] {
    double out = 0;
    for (const CollectiveSample& s : samples)
      out += distance(predicted_seconds(s, cluster), s.seconds) / s.seconds;
    return out;
  };
  int inner = 1;
  for (LinkLevel& level : cluster.links) {
    const bool is_used = std::ranges::any_of(samples, [&](const CollectiveSample& s) {
      return s.ranks > 1 && s.stride * s.ranks > inner && s.stride < level.devices;
    });
    // With two ranks alone a round of messages cannot be told from the start.
    const bool has_rounds =
        std::ranges::any_of(samples, [](const CollectiveSample& s) { return s.ranks > 2; });
    inner = level.devices;
    if (!is_used) continue;
    level.start_seconds = std::max(level.start_seconds, 1e-7);
    figures.push_back({&level.start_seconds, 1e-9, 1});
    figures.push_back({&level.bytes_per_second, 1e6, 1e14});
    if (!has_rounds) continue;
    level.latency_seconds = std::max(level.latency_seconds, 1e-7);
    figures.push_back({&level.latency_seconds, 1e-9, 1});
  }
  minimize_all(figures, error);
}

double rounded(double value) { return value > 0 ? std::stod(fmt::format("{:.3g}", value)) : value; }

void round_figures(Cluster& cluster) {
  PeakFlops& flops = cluster.flops_per_second;
  for (double* rate : {&flops.f64, &flops.f32, &flops.bf16, &flops.f16, &cluster.kernel_seconds})
    *rate = rounded(*rate);
  for (Efficiency& e : cluster.efficiency) e = {rounded(e.best), rounded(e.half_seconds)};
  for (LinkLevel& link : cluster.links)
    for (double* figure :
         {&link.latency_seconds, &link.bytes_per_second, &link.start_seconds, &link.member_seconds})
      *figure = rounded(*figure);
}

std::vector<FigureSpread> spreads_of(const Cluster& cluster, std::span<const KernelSample> kernels,
                                     std::span<const CollectiveSample> collectives) {
  std::map<std::string, std::vector<double>> ratios;
  for (const KernelSample& k : kernels)
    ratios[fmt::format("{} {}", name_of(k.work.kind), name_of(k.work.dtype))].push_back(
        k.seconds / compute_seconds(k.work, cluster));
  for (const CollectiveSample& c : collectives)
    ratios[fmt::format("{} of {} ranks", name_of(c.kind), c.ranks)].push_back(c.seconds /
                                                                              predicted_seconds(c, cluster));
  std::vector<FigureSpread> out;
  for (auto& [figure, of_figure] : ratios) {
    std::ranges::sort(of_figure);
    const std::size_t last = of_figure.size() - 1;
    out.push_back({figure, of_figure.size(), of_figure[last / 4], of_figure[of_figure.size() / 2],
                   of_figure[last - last / 4]});
  }
  return out;
}

}  // namespace shardwright
