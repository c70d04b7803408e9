// Figures that prices were made from are found again, in spite of noise.
#include "shardwright/cost/calibrate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "shardwright/base/random.h"

namespace shardwright {
namespace {

/// What was measured is some percent more or less than it should be.
class Noise {
 public:
  explicit Noise(double share) : share_(share) {}
  double operator()(double seconds) { return seconds * (1 + share_ * (2 * stream_.uniform(next_++) - 1)); }

 private:
  RandomStream stream_{7, "noise"};
  std::uint64_t next_ = 0;
  double share_;
};

Cluster truth() {
  Cluster c = cluster_called("cpu:8");
  c.caches = {{1 << 20, 120e9}, {16 << 20, 60e9}};
  c.memory_bytes_per_second = 20e9;
  c.flops_per_second = {.f64 = 100e9, .f32 = 200e9, .bf16 = 400e9, .f16 = 150e9};
  c.efficiency = {
      {{0.9, 2e-6}, {0.7, 5e-6}, {0.8, 1e-6}, {0.4, 3e-6}, {0.5, 4e-6}, {0.9, 2e-6}, {0.6, 2e-6}}};
  return c;
}

/// Products of every type and kind, and streams, from tiny to large.
std::vector<KernelSample> kernels(const Cluster& cluster, Noise& noise) {
  std::vector<KernelSample> out;
  const auto add = [&](Work work) { out.push_back({work, noise(compute_seconds(work, cluster))}); };
  for (double size = 1e5; size < 1e10; size *= 1.5) {
    for (const WorkKind kind : work_kinds)
      if (streams(kind))
        add({.kind = kind, .flops = size / 1000, .bytes = size / 100});
      else
        add({.kind = kind, .flops = size, .bytes = size / 1000});
    for (const DType dtype : {DType::f64, DType::bf16, DType::f16})
      add({.kind = WorkKind::contraction, .flops = size, .bytes = size / 1000, .dtype = dtype});
  }
  return out;
}

TEST(Calibrate, finds_the_rates_of_kernels) {
  const Cluster made = truth();
  Noise noise(0.05);
  Cluster found = made;
  found.flops_per_second = {.f32 = 1e9};
  found.efficiency = {};
  const auto samples = kernels(made, noise);
  fit_kernels(found, samples);
  const auto rate = [](const Cluster& c, WorkKind kind, DType dtype) {
    return c.flops_per_second.of(dtype) * c.efficiency_of(kind).best;
  };
  for (const WorkKind kind :
       {WorkKind::contraction, WorkKind::convolution, WorkKind::chain, WorkKind::weight_convolution})
    EXPECT_NEAR(rate(found, kind, DType::f32) / rate(made, kind, DType::f32), 1, 0.05) << name_of(kind);
  for (const DType dtype : {DType::f64, DType::bf16, DType::f16})
    EXPECT_NEAR(rate(found, WorkKind::contraction, dtype) / rate(made, WorkKind::contraction, dtype), 1, 0.05)
        << name_of(dtype);
  for (const KernelSample& s : samples)
    EXPECT_NEAR(compute_seconds(s.work, found) / s.seconds, 1, 0.15) << s.work.flops;
  for (const Efficiency& e : found.efficiency) EXPECT_LE(e.best, 1);
}

TEST(Calibrate, leaves_figures_that_nothing_was_measured_of) {
  Cluster found = truth();
  const Cluster before = found;
  fit_kernels(found, {});
  fit_links(found, {});
  fit_memory(found, {});
  EXPECT_EQ(found, before);
}

TEST(Calibrate, finds_caches_where_the_rate_falls) {
  Noise noise(0.03);
  const Cluster made = truth();
  std::vector<StreamSample> samples;
  for (double bytes = 1 << 14; bytes <= 1 << 28; bytes *= 2) {
    const double rate = bytes <= 1 << 20 ? 120e9 : bytes <= 16 << 20 ? 60e9 : 20e9;
    samples.push_back({bytes, noise(bytes / rate)});
  }
  Cluster found = made;
  found.caches = {};
  fit_memory(found, samples);
  ASSERT_EQ(found.caches.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_GE(found.caches[i].bytes, made.caches[i].bytes);
    EXPECT_LT(found.caches[i].bytes, 2 * made.caches[i].bytes);
    EXPECT_NEAR(found.caches[i].bytes_per_second / made.caches[i].bytes_per_second, 1, 0.03);
  }
  EXPECT_NEAR(found.memory_bytes_per_second / 20e9, 1, 0.03);
}

TEST(Calibrate, finds_the_links_of_a_host_and_between_hosts) {
  Cluster made = cluster_called("cpu:2x4");
  made.links[0] = {"memory", 4, 0.4e-6, 12e9, 2e-6};
  made.links[1] = {"ethernet", 8, 30e-6, 1e9, 60e-6};
  Noise noise(0.04);
  std::vector<CollectiveSample> samples;
  for (const StepKind kind :
       {StepKind::all_reduce, StepKind::all_gather, StepKind::reduce_scatter, StepKind::all_to_all})
    for (const auto& [ranks, stride] : {std::pair{2, 1}, {4, 1}, {2, 4}, {8, 1}})
      for (double bytes = 64; bytes < 1e8; bytes *= 8) {
        CollectiveSample s{kind, ranks, stride, bytes, 0};
        s.seconds = noise(predicted_seconds(s, made));
        samples.push_back(s);
      }
  Cluster found = cluster_called("cpu:2x4");
  fit_links(found, samples);
  for (std::size_t l = 0; l < 2; ++l)
    EXPECT_NEAR(found.links[l].bytes_per_second / made.links[l].bytes_per_second, 1, 0.1) << l;
  for (const CollectiveSample& s : samples)
    EXPECT_NEAR(predicted_seconds(s, found) / s.seconds, 1, 0.25)
        << s.bytes << " of " << s.ranks << " by " << s.stride;
}

TEST(Calibrate, tells_the_quartiles_of_what_was_measured) {
  const Cluster c = truth();
  std::vector<KernelSample> samples;
  for (double factor : {0.8, 0.9, 1.0, 1.1, 1.2}) {
    const Work work{.kind = WorkKind::contraction, .flops = 1e9};
    samples.push_back({work, factor * compute_seconds(work, c)});
  }
  const std::vector<FigureSpread> spreads = spreads_of(c, samples, {});
  ASSERT_EQ(spreads.size(), 1U);
  EXPECT_EQ(spreads[0].figure, "contraction f32");
  EXPECT_EQ(spreads[0].samples, 5U);
  EXPECT_NEAR(spreads[0].low, 0.9, 1e-9);
  EXPECT_NEAR(spreads[0].median, 1, 1e-9);
  EXPECT_NEAR(spreads[0].high, 1.1, 1e-9);
}

}  // namespace
}  // namespace shardwright
