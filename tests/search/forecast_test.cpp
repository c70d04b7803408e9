// Where a forecast cuts stages, and how much they compute again, against all that there is to choose.

#include "shardwright/search/automatic/forecast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <random>
#include <tuple>

#include "shardwright/search/automatic/pipeline_seconds.h"

namespace shardwright::automatic {
namespace {

struct Drawn {
  Row row;
  std::vector<Figures> kept, again;  // by kind
  std::vector<OfLives> slots;
};

double uniform(std::mt19937& random) { return static_cast<double>(random() % 1000000) * 1e-6; }

/// Something before and behind equal layers.
Drawn drawn(std::mt19937& random, int layers, int stages) {
  Drawn out;
  out.row.kinds.assign(static_cast<std::size_t>(layers + 2), 1);
  out.row.kinds.front() = 0, out.row.kinds.back() = 2;
  out.row.alike = out.row.kinds;
  for (int k = 0; k < 3; ++k) {
    const auto some = [&] { return 0.5 + uniform(random); };
    Figures f{.forward = some(),
              .backward = 2 * some(),
              .update = 0.1 * some(),
              .parameters = some(),
              .sums = some(),
              .gradients = k == 1 ? 0.2 * some() : 0,
              .kept = 4 * some(),
              .passing = 2 * some()};
    out.kept.push_back(f);
    if (k == 1) f.backward += f.forward, f.passing += f.kept, f.kept *= 0.2;
    out.again.push_back(f);
  }
  for (int s = 0; s < stages; ++s) out.slots.push_back({stages - s, stages - s, stages - s});
  return out;
}

/// Of the pieces from `begin` to `end`, of which the first `repeated` are computed again: in the backward of one of them
/// those in front are kept, and the gradients of those behind are there.
double bytes_of(const Drawn& d, int begin, int end, int repeated, int slots) {
  const auto of = [&](int p) -> const Figures& {
    const auto kind = static_cast<std::size_t>(d.row.kinds[static_cast<std::size_t>(p)]);
    return (p < begin + repeated ? d.again : d.kept)[kind];
  };
  double lasting = 0, kept = 0, most = 0;
  for (int p = begin; p < end; ++p) {
    lasting += of(p).lasting(), kept += of(p).kept;
    double there = kept + of(p).passing;
    for (int q = p + 1; q < end; ++q) there += of(q).gradients;
    most = std::max(most, there);
  }
  return lasting + (slots - 1) * kept + most;
}

Pass pass_of(const Drawn& d, int begin, int end, int repeated) {
  Pass out;
  for (int p = begin; p < end; ++p) {
    const auto kind = static_cast<std::size_t>(d.row.kinds[static_cast<std::size_t>(p)]);
    const Figures& f = (p < begin + repeated ? d.again : d.kept)[kind];
    out += {f.forward, f.backward};
  }
  return out;
}

/// Of two stages, of which so many pieces are computed again. The second one updates while the first one still computes its last
/// backward.
double step_seconds(const Drawn& d, const Pipelining& p, int cut, std::array<int, 2> again) {
  const int count = d.row.size();
  const Pass front = pass_of(d, 0, cut, again[0]), back = pass_of(d, cut, count, again[1]);
  const auto update = [&](int begin, int end) {
    double out = 0;
    for (int i = begin; i < end; ++i)
      out += d.kept[static_cast<std::size_t>(d.row.kinds[static_cast<std::size_t>(i)])].update;
    return out;
  };
  return pipeline_seconds_of_parts(p, {front, back}, {}) +
         std::max(update(0, cut), update(cut, count) - front.backward);
}

/// The fastest of all cuts into two and all numbers of pieces that are computed again; infinity if none fits.
double best_of_two(const Drawn& d, const Pipelining& p, double cap) {
  double best = std::numeric_limits<double>::infinity();
  const int count = d.row.size();
  for (int cut = 1; cut < count; ++cut) {
    const auto least_again = [&](int begin, int end, int slots) {
      int out = 0;
      while (out <= end - begin && bytes_of(d, begin, end, out, slots) > cap) ++out;
      return out;
    };
    const int front = least_again(0, cut, d.slots[0][0]), back = least_again(cut, count, d.slots[1][0]);
    if (front > cut || back > count - cut) continue;
    best = std::min(best, step_seconds(d, p, cut, {front, back}));
  }
  return best;
}

TEST(Forecast, cuts_and_repeats_as_the_best_of_all) {
  std::mt19937 random(7);
  int unfit = 0, partly = 0;
  const Cluster cluster = cluster_called("a100-80g:2");
  for (int i = 0; i < 200; ++i) {
    const int layers = 3 + static_cast<int>(random() % 8);
    const Drawn d = drawn(random, layers, 2);
    const Constraints s{
        .degrees = {{"pp", 2}}, .micro_batches = 8, .recompute = Again(RecomputeMode::none, true)};
    const double all_kept = bytes_of(d, 0, d.row.size(), 0, 2);
    const double cap = all_kept * (0.2 + 0.5 * uniform(random));
    const Forecast f =
        forecast_of(s, {d.row, d.kept, &d.again, d.slots, cluster, framework_called(own_framework), cap});
    const double best = best_of_two(d, pipelining_of(s), cap);
    ASSERT_EQ(f.fits, best < std::numeric_limits<double>::infinity()) << i;
    if (!f.fits) {
      ++unfit;
      continue;
    }
    ASSERT_EQ(f.first.size(), 2u);
    const int cut = f.first[1], count = d.row.size();
    for (const auto& [part, begin, end] : {std::tuple(0u, 0, cut), std::tuple(1u, cut, count)}) {
      EXPECT_LE(bytes_of(d, begin, end, f.again[part], d.slots[part][0]), cap * (1 + 1e-9)) << i;
      if (f.again[part] > 0) {
        EXPECT_GT(bytes_of(d, begin, end, f.again[part] - 1, d.slots[part][0]), cap * (1 - 1e-9)) << i;
      }
    }
    partly += f.again[0] > 0 && f.again[0] < cut;
    EXPECT_NEAR(f.seconds, step_seconds(d, pipelining_of(s), cut, {f.again[0], f.again[1]}), 1e-5 * best)
        << i;
    // Parts are cut by what depends on themselves; what they wait for of each other differs a little, too.
    EXPECT_LE(f.seconds, best * 1.02) << i;
  }
  EXPECT_GT(unfit, 10);
  EXPECT_GT(partly, 20);
}

}  // namespace
}  // namespace shardwright::automatic
