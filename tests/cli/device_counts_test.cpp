// Several numbers of devices are what a user finds who plans for one after the other.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "shardwright/base/random.h"
#include "shardwright/base/text.h"
#include "shardwright/cli/verb.h"
#include "shardwright/cost/cluster_file.h"
#include "tests/support/command_outcome.h"
#include "tests/support/draws.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

testing::CommandOutcome plan_of(const std::string& model, Words flags) {
  flags.insert(flags.begin(), {"plan", model});
  flags.emplace_back("--json");
  return testing::outcome_of(flags);
}

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// By hand on so many devices; on one, too, by the search of whole plans.
testing::CommandOutcome on(const std::string& model, const std::string& kind, int devices, Words flags = {}) {
  if (devices == 1) flags = flags + Words{"--search", "auto"};
  return plan_of(model, Words{"--cluster", fmt::format("{}:{}", kind, devices)} + flags);
}

struct Case {
  std::string model, kind;
  Words memory;                  // what is said of it
  std::optional<double> target;  // seconds
};

constexpr int most = 8;
const std::vector<int> counts{1, 2, 4, 8};

/// A small network, less memory than one device wants of it, and of some a time that one device does not reach.
Case drawn(std::uint64_t seed) {
  const RandomStream stream(seed, "counts");
  std::uint64_t next = 0;
  const auto below = [&](std::int64_t n) { return stream.below(next++, n); };
  Case out;
  out.kind = Words{"a100-80g", "v100-32g", "cpu"}[static_cast<std::size_t>(below(3))];
  const std::int64_t width = 64LL << below(4), batch = 8LL << below(4);
  if (below(4) > 0)
    out.model = fmt::format("three_layer:batch={},widths={}-{}-{}-10", batch, width, 2 * width, width);
  else
    out.model = fmt::format("llama:layers=1,hidden={},heads=4,ffn=64,vocab=64,seq=16,batch={}", width, batch);
  const Json alone = on(out.model, out.kind, 1).document();
  const auto between = [&](double least, double all) {
    return least * std::pow(all / least, static_cast<double>(below(1024)) / 1024);
  };
  const double bytes = alone.at("memory_bytes").at("arena").get<double>();
  if (below(4) > 0) out.memory = {"--memory-cap", fmt::format("{:.0f}", bytes * between(0.03, 0.9))};
  if (below(2) > 0) out.target = alone.at("step_seconds").get<double>() * between(0.1, 1);
  return out;
}

/// The fewest of `counts` whose own plan does; 0: none.
int scanned(const Case& c) {
  for (const int devices : counts) {
    const testing::CommandOutcome plan = on(c.model, c.kind, devices, c.memory);
    if (plan.status != 0) continue;
    const Json document = plan.document();
    if (document.at("fits").get<bool>() &&
        (!c.target || document.at("step_seconds").get<double>() <= *c.target))
      return devices;
  }
  return 0;
}

/// Of so many drawn cases. Returns the answers.
std::set<int> expect_scanned(std::uint64_t cases) {
  std::set<int> answers;
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    const Case c = drawn(seed);
    Words flags = Words{"--cluster", fmt::format("{}:{}", c.kind, most), "--objective", "devices"} + c.memory;
    if (c.target) flags = flags + Words{"--target-step", fmt::format("{:.17g}s", *c.target)};
    SCOPED_TRACE(c.model + " " + join(flags, " "));
    const int expected = scanned(c);
    answers.insert(expected);
    const testing::CommandOutcome found = plan_of(c.model, flags);
    if (expected == 0) {
      EXPECT_EQ(found.status, 2) << found.out;
      EXPECT_EQ(found.document().at("status"), "infeasible");
      continue;
    }
    EXPECT_EQ(found.status, 0) << found.err;
    if (found.status != 0) continue;
    EXPECT_EQ(found.document().at("devices"), expected) << found.document().at("objective");
    EXPECT_EQ(found.document().at("step_seconds"),
              on(c.model, c.kind, expected, c.memory).document().at("step_seconds"));
  }
  return answers;
}

TEST(DeviceCounts, the_fewest_are_those_of_a_scan_by_hand) { EXPECT_GE(expect_scanned(3).size(), 2U); }

TEST(SlowDeviceCounts, the_fewest_are_those_of_a_scan_by_hand) {
  EXPECT_GE(expect_scanned(20).size(), 4U) << "the cases are too alike";
}

const std::string decoder = "llama:layers=2,hidden=256,heads=4,ffn=512,vocab=512,seq=128,batch=32";
const std::string small = "three_layer:batch=1024,widths=512-1024-512-10";

/// The cluster `a100-80g:8` in a file, at a price.
std::string priced_cluster(double price) {
  Cluster cluster = cluster_called("a100-80g:8");
  cluster.price_per_hour = price;
  const std::string path = scratch_folder() + "/priced.yaml";
  write_bytes(path, to_text(cluster));
  return path;
}

TEST(DeviceCounts, a_curve_is_a_plan_of_its_own_on_each) {
  const Json curve =
      plan_of(decoder, {"--cluster", priced_cluster(3), "--over", "8,1,2,4"}).document().at("curve");
  ASSERT_EQ(curve.size(), counts.size());
  double last = INFINITY;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const Json& row = curve[i];
    EXPECT_EQ(row.at("devices"), counts[i]);
    EXPECT_TRUE(row.at("fits").get<bool>());
    const double seconds = row.at("step_seconds");
    if (i % 2 != 0 || testing::is_full()) {  // of 2 and 8 devices, of all in full
      EXPECT_NEAR(seconds, on(decoder, "a100-80g", counts[i]).document().at("step_seconds").get<double>(),
                  1e-12);
    }
    EXPECT_NEAR(row.at("price").get<double>(), 3.0 * counts[i] * seconds / 3600, 1e-15);
    EXPECT_LE(seconds, last) << "of more devices, which all have work";
    last = seconds;
  }
}

/// What searches keep for each other changes none of them.
void expect_as_alone(const std::string& model, const char* kind) {
  const Json curve = plan_of(model, {"--cluster", kind, "--over", "1,2,4,6,8"}).document().at("curve");
  for (const Json& row : curve) {
    const Json alone = on(model, kind, row.at("devices")).document();
    EXPECT_EQ(row.at("step_seconds"), alone.at("step_seconds")) << model << " " << kind << " " << row;
    EXPECT_EQ(row.at("memory_bytes"), alone.at("memory_bytes").at("arena")) << model << " " << row;
  }
}

TEST(DeviceCounts, a_curve_has_what_each_search_finds_alone) { expect_as_alone("ffn", "ascend910a"); }

/// Of layers, and of convolutions with what is between them.
TEST(SlowDeviceCounts, a_curve_has_what_each_search_finds_alone) {
  for (const char* kind : {"ascend910a", "cpu"})
    for (const std::string& model : {decoder, std::string("resnet18:batch=16,image=32,width=8")})
      expect_as_alone(model, kind);
}

TEST(DeviceCounts, the_cheapest_is_that_of_the_curve) {
  const std::string cluster = priced_cluster(2.5);
  const Words asked{"--cluster", cluster, "--precision", "f32", "--optimizer", "sgd"};
  const Json curve = plan_of(small, testing::with(asked, {"--over", "1,2,4,8"})).document().at("curve");
  const auto cheapest = [&](double target) {
    const Json* best = nullptr;
    for (const Json& row : curve)
      if (row.at("step_seconds").get<double>() <= target &&
          (!best || row.at("price").get<double>() < best->at("price").get<double>()))
        best = &row;
    return best->at("devices").get<int>();
  };
  std::set<int> answers;
  for (const Json& row : curve) {
    const double target = row.at("step_seconds");
    const Json found = plan_of(small, testing::with(asked, {"--objective", "price", "--target-step",
                                                            fmt::format("{:.17g}s", target)}))
                           .document();
    EXPECT_EQ(found.at("devices"), cheapest(target)) << found.at("objective");
    EXPECT_NEAR(found.at("price").get<double>(),
                2.5 * cheapest(target) * found.at("step_seconds").get<double>() / 3600, 1e-15);
    answers.insert(found.at("devices").get<int>());
  }
  EXPECT_GE(answers.size(), 2U);
}

}  // namespace
}  // namespace shardwright
