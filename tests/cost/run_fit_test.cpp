// Figures of a cluster are found again from whole steps, with how sure that is, in spite of noise and of a run that is wrong.
#include "shardwright/cost/run_fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "shardwright/base/random.h"
#include "shardwright/layout/collective.h"

namespace shardwright {
namespace {

/// A step of a product, a pass over memory, and a reduction between nodes, or, of no bytes, inside one: one after the other.
double step_seconds(const Cluster& c, double flops, double bytes, double reduced) {
  const Work product{.kind = WorkKind::contraction, .flops = flops, .dtype = DType::bf16},
      pass{.kind = WorkKind::streaming, .bytes = bytes, .dtype = DType::bf16};
  const MeshCost cost = mesh_cost(c, Mesh{{{"dp", c.nodes}, {"tp", c.devices_per_node}}});
  return compute_seconds(product, c) + compute_seconds(pass, c) +
         (reduced > 0 ? collective_seconds(StepKind::all_reduce, reduced, cost.levels[0])
                      : collective_seconds(StepKind::all_reduce, 5e9, cost.levels[1]));
}

struct Drawn {
  Cluster cluster = cluster_called("a100-80g:32");
  std::vector<RunFigure> figures = run_figures(cluster);
  std::vector<MeasuredRun> runs;

  std::size_t figure(const std::string& name) const {
    for (std::size_t f = 0; f < figures.size(); ++f)
      if (figures[f].name == name) return f;
    throw std::out_of_range(name);
  }
  void add(double flops, double bytes, double reduced, const Cluster& truth, double noise) {
    runs.push_back({step_seconds(truth, flops, bytes, reduced) * (1 + noise), [=, this](const auto& factors) {
                      return step_seconds(scaled(cluster, figures, factors), flops, bytes, reduced);
                    }});
  }
};

Drawn drawn(int count) {
  Drawn out;
  Cluster truth = out.cluster;
  truth.efficiency[static_cast<std::size_t>(WorkKind::contraction)].best *= 0.8;
  truth.links.back().bytes_per_second *= 0.5;
  const RandomStream stream{3, "runs"};
  for (int r = 0; r < count; ++r) {
    const auto draw = [&](int which) { return stream.uniform(static_cast<std::uint64_t>(8 * r + which)); };
    out.add(1e13 * (1 + 9 * draw(0)), 1e10 * draw(1), r % 3 ? 4e9 * draw(2) : 0, truth,
            0.04 * (draw(3) - 0.5));
  }
  return out;
}

TEST(RunFit, finds_figures_and_how_sure_they_are) {
  const Drawn d = drawn(30);
  const RunFit fit = fit_runs(d.figures, d.runs);
  const std::size_t products = d.figure("products"), network = d.figure("infiniband bandwidth");
  EXPECT_NEAR(fit.factors[products], 0.8, 0.02);
  EXPECT_NEAR(fit.factors[network], 0.5, 0.03);
  for (const std::size_t f : {products, network}) {
    EXPECT_TRUE(fit.tells(d.figures, f));
    const double truth = f == products ? 0.8 : 0.5;
    EXPECT_LT(std::abs(std::log(fit.factors[f] / truth)), 4 * fit.spreads[f]) << d.figures[f].name;
  }
  // No run has attention in it.
  EXPECT_FALSE(fit.tells(d.figures, d.figure("attention")));
  EXPECT_NEAR(fit.factors[d.figure("attention")], 1, 1e-6);
  for (std::size_t r = 0; r < d.runs.size(); ++r) EXPECT_TRUE(fit.explains(d.runs, r)) << r;
}

TEST(RunFit, a_run_that_is_wrong_moves_little_and_is_named) {
  Drawn d = drawn(30);
  d.runs[7].seconds *= 2;
  const RunFit fit = fit_runs(d.figures, d.runs);
  EXPECT_NEAR(fit.factors[d.figure("products")], 0.8, 0.03);
  for (std::size_t r = 0; r < d.runs.size(); ++r) EXPECT_EQ(fit.explains(d.runs, r), r != 7) << r;
}

TEST(RunFit, without_runs_figures_stay) {
  const Drawn d = drawn(0);
  const RunFit fit = fit_runs(d.figures, d.runs);
  for (std::size_t f = 0; f < d.figures.size(); ++f) {
    EXPECT_EQ(fit.factors[f], 1);
    EXPECT_NEAR(fit.spreads[f], d.figures[f].prior, 1e-9);
  }
}

/// As long as the figures say, one run more makes them as sure as a fit with it does.
TEST(RunFit, foretells_what_a_run_would_tell) {
  Drawn d = drawn(12);
  const RunFit before = fit_runs(d.figures, d.runs);
  d.add(1e12, 1e8, 2e10, scaled(d.cluster, d.figures, before.factors), 0);
  const auto sensitivity = sensitivity_of(d.figures, d.runs.back(), before.factors);
  const auto foretold = before.spreads_with(sensitivity);
  const RunFit after = fit_runs(d.figures, d.runs);
  const std::size_t network = d.figure("infiniband bandwidth");
  EXPECT_LT(foretold[network], before.spreads[network]);
  EXPECT_NEAR(after.spreads[network] / foretold[network], 1, 0.35);
}

}  // namespace
}  // namespace shardwright
