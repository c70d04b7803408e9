// Which number of devices is meant, whatever plans come to.
#include "shardwright/search/planning/device_counts.h"

#include <gtest/gtest.h>

#include <map>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"

namespace shardwright {
namespace {

TEST(DeviceCounts, that_are_usual_fill_nodes_evenly) {
  const auto usual = [](const char* cluster) { return usual_counts(cluster_called(cluster)); };
  EXPECT_EQ(usual("a100-80g:2x8"), (std::vector{1, 2, 4, 8, 16}));
  EXPECT_EQ(usual("a100-80g:48"), (std::vector{1, 2, 4, 8, 16, 24, 32, 48}));
  EXPECT_EQ(usual("cpu:12"), (std::vector{1, 2, 3, 4, 6, 8, 12}));
  EXPECT_EQ(usual("cpu:1"), std::vector{1});
}

/// What a plan takes, of a cap of 100 bytes.
struct Takes {
  double seconds = 1;
  std::int64_t bytes = 50;
};

/// ffn, of whose plans `judged` says what they take.
class Judged {
 public:
  explicit Judged(std::map<int, Takes> judged, std::optional<double> most_seconds = {})
      : most_seconds_(most_seconds), judged_(std::move(judged)) {}

  /// The best number of devices at a price of 3600 an hour, and those that a plan was looked for on.
  std::pair<int, std::vector<int>> best(const CountWanted& wanted) {
    std::vector<int> counts;
    for (const auto& [devices, takes] : judged_) counts.push_back(devices);
    searched_.clear();
    const CountChoice choice = best_count(search(), counts, wanted);
    return {choice.best ? choice.looked_at[*choice.best].devices : 0, searched_};
  }

 private:
  CountedSearch search() {
    CountedSearch out;
    out.step = [](int micro_batches) {
      Model model = build_model("ffn", {.micro_batches = micro_batches});
      add_train_step(model.graph, model.loss, {});
      return std::move(model.graph);
    };
    out.request.model = "ffn";
    out.request.cluster = host_cluster(judged_.rbegin()->first);
    out.request.cluster->name = "own.yaml";
    out.request.cluster->price_per_hour = 3600;
    out.request.devices = out.request.cluster->devices();
    out.request.options.most_seconds = most_seconds_;
    out.evaluate = [this](const Graph&, const Plan& plan) {
      searched_.push_back(plan.devices());
      const Takes takes = judged_.at(plan.devices());
      Evaluation e{.estimate = {.compute_seconds = takes.seconds}, .cap_bytes = 100};
      e.estimate.arena_bytes = takes.bytes;
      e.estimate.peak_seconds = 0.8 / plan.devices();  // that one device takes for the products
      return e;
    };
    return out;
  }

  std::optional<double> most_seconds_;
  std::map<int, Takes> judged_;
  std::vector<int> searched_;
};

TEST(DeviceCounts, the_fewest_are_found_where_more_fit_no_better) {
  Judged judged({{1, {1, 200}}, {2, {1, 90}}, {3, {1, 150}}, {4, {1, 150}}, {8, {1, 40}}});
  EXPECT_EQ(judged.best({}), (std::pair{2, std::vector{1, 2}}));
}

TEST(DeviceCounts, the_fewest_are_fast_enough_where_more_are_slower) {
  Judged judged({{1, {1, 50}}, {2, {0.5, 150}}, {3, {0.5, 50}}, {4, {0.7, 50}}});
  EXPECT_EQ(judged.best({.target_seconds = 0.6}).first, 3);
  EXPECT_EQ(judged.best({.target_seconds = 0.5}).first, 3) << "at most";
  EXPECT_EQ(judged.best({.target_seconds = 0.49}).first, 0);
}

/// After the first plan it is known what products take: 0.8 s on one device.
TEST(DeviceCounts, that_cannot_be_fast_enough_are_not_searched) {
  Judged judged({{1, {1}}, {2, {0.6}}, {4, {0.3}}, {8, {0.2}}});
  EXPECT_EQ(judged.best({.target_seconds = 0.25}), (std::pair{8, std::vector{1, 4, 8}}));
  EXPECT_EQ(judged.best({.target_seconds = 0.05}), (std::pair{0, std::vector{1}}));
}

/// All of them have one clock; the first plan is made whatever it says.
TEST(DeviceCounts, that_are_left_when_the_time_is_over_are_not_searched) {
  Judged in_time({{1, {8}}, {2, {3}}, {4, {1}}}, 1e6), late({{1, {8}}, {2, {3}}, {4, {1}}}, 0);
  EXPECT_EQ(in_time.best({.objective = Objective::price}), (std::pair{4, std::vector{1, 2, 4}}));
  EXPECT_EQ(late.best({.objective = Objective::price}), (std::pair{1, std::vector{1}}));
}

TEST(DeviceCounts, the_cheapest_are_those_of_least_device_seconds) {
  Judged judged({{1, {8, 200}}, {2, {3}}, {4, {1}}, {8, {0.5}}});  // 6, 4, 4 of those that fit
  EXPECT_EQ(judged.best({.objective = Objective::price}).first, 4) << "of two at one price the fewer";
  EXPECT_EQ(judged.best({.objective = Objective::price, .target_seconds = 0.9}).first, 8);
}

}  // namespace
}  // namespace shardwright
