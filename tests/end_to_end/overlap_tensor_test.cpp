// Products in pieces beside their transfers (lower/cut_products.h): the losses of one device, as many bytes, less waiting.

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "shardwright/base/text.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/graph/op.h"
#include "shardwright/lower/program_text.h"
#include "shardwright/lower/traffic.h"
#include "shardwright/passes/compile.h"
#include "shardwright/plan/set_words.h"
#include "shardwright/simulate/estimate.h"
#include "tests/support/draws.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::TrainingRun;

const std::string small = "layers=2,hidden=16,heads=4,vocab=24,seq=16,batch=8,";
const std::array<std::string, 4> networks{"llama:" + small + "kv_heads=2,ffn=24", "gpt:" + small,
                                          "moe:" + small + "kv_heads=2,ffn=12,experts=4,top_k=2",
                                          "bert-base:" + small + "ffn=24"};

PlanRequest request_of(const std::string& set) {
  const Constraints said = parse_constraints({"--set", set});
  return {.devices = static_cast<int>(said.degrees.devices()),
          .parallel = Parallel::semi_auto_parallel,
          .constraints = said,
          .is_set = true};
}

std::optional<testing::Outcome> trained(const std::string& model, const std::string& set) {
  return testing::run_planned(
      {.model = model, .optimizer = {.name = "momentum"}, .precision = DType::f64, .steps = 3},
      request_of(set));
}

TEST(EndToEndOverlapTensor, has_the_losses_of_one_device) {
  std::mt19937 random(static_cast<unsigned>(70 + testing::further_seeds()));
  const auto one_of = [&](std::initializer_list<int> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
  };
  std::map<std::size_t, std::optional<testing::Outcome>> wanted;
  const unsigned all = testing::draws(24);
  unsigned done = 0;
  for (unsigned i = 0; i < all; ++i) {
    const std::size_t network = random() % networks.size();
    const int tp = one_of({2, 4}), dp = one_of({1, 2}), pp = tp * dp <= 4 ? one_of({1, 2}) : 1;
    std::string set = fmt::format("dp={},tp={},pp={},zero={},recompute={},micro_batches={},overlap_tensor=1",
                                  dp, tp, pp, one_of({0, 1, 3}),
                                  std::array{"none", "selected", "full"}[random() % 3], one_of({1, 2, 4}));
    if (random() % 4) set += ",sequence_parallel=1";
    SCOPED_TRACE(networks[network] + " " + set);
    std::optional<testing::Outcome> have;
    try {
      have = trained(networks[network], set);
    } catch (const Error&) {
      continue;  // replicas have no samples, or heads are too few
    }
    ++done;
    auto& want = wanted[network];
    if (!want)
      want = testing::run_alone({.model = networks[network],
                                 .optimizer = {.name = "momentum"},
                                 .precision = DType::f64,
                                 .steps = 3});
    testing::expect_same(have, want, {.losses = 1e-9, .weights = 1e-6});
  }
  EXPECT_GT(done, testing::further_seeds() == 0 ? all / 2 : all / 4);  // of few draws many may be refused
}

Pipeline program_of(const std::string& model, const std::string& set, const Cluster& cluster) {
  const Model made =
      testing::train_model({.model = model, .optimizer = {.name = "adamw"}, .precision = DType::bf16});
  PlanRequest request = request_of(set);
  request.cluster = cluster;
  return compile_pipeline(made.graph, make_plan(made.graph, request));
}

/// Each transfer of rows becomes four, of as many bytes together, which go on beside products.
TEST(OverlapTensor, sends_as_much_and_waits_for_less) {
  const std::string model = "llama2-70b:layers=2,batch=8", set = "tp=8,sequence_parallel=1,micro_batches=1";
  const Cluster cluster = cluster_called("h100:8");
  std::array<Estimate, 2> took;
  std::array<Traffic, 2> moved;
  for (const std::size_t cut : {0U, 1U}) {
    const Pipeline pipeline = program_of(model, fmt::format("{},overlap_tensor={}", set, cut), cluster);
    took[cut] = estimate(pipeline, cluster);
    moved[cut] = traffic_of(step_of(pipeline, 0));
  }
  EXPECT_EQ(moved[1].bytes, moved[0].bytes);
  EXPECT_GT(moved[1].collectives["all_gather"], 2 * moved[0].collectives["all_gather"]);
  EXPECT_GT(moved[1].collectives["reduce_scatter"], 2 * moved[0].collectives["reduce_scatter"]);
  EXPECT_LT(took[1].exposed_communication_seconds, 0.67 * took[0].exposed_communication_seconds);
  EXPECT_LT(took[1].step_seconds(), took[0].step_seconds());
}

/// Weights are gathered ahead as they are: only what is made of data is cut.
TEST(OverlapTensor, leaves_weights_whole) {
  const Cluster cluster = cluster_called("h100:4");
  const std::string model = "llama2-7b:layers=1,batch=4,hidden=512,ffn=512,heads=4",
                    set = "dp=4,zero=3,overlap_tensor=";
  EXPECT_EQ(to_text(program_of(model, set + "1", cluster)), to_text(program_of(model, set + "0", cluster)));
}

}  // namespace
}  // namespace shardwright
