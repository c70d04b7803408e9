// Networks of experts have the losses of one device however their experts are shared.

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "shardwright/base/text.h"
#include "shardwright/graph/op.h"
#include "shardwright/passes/compile.h"
#include "shardwright/plan/set_words.h"
#include "tests/support/draws.h"
#include "tests/support/message_of.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::TrainingRun;

const std::string small = "layers=2,hidden=16,heads=4,vocab=24,seq=8,batch=8,";
const std::string moe = "moe:" + small + "kv_heads=2,ffn=12,experts=8,top_k=2";
const std::array<std::string, 4> networks{
    moe, moe + ",capacity=0.75,balance_loss=0.02,z_loss=0.001,shared=1",
    "qwen3-30b:" + small + "kv_heads=2,head_dim=8,ffn=12,experts=8,top_k=3",
    "deepseek-v3:" + small +
        "ffn=12,dense_ffn=24,dense_layers=1,experts=8,groups=4,top_groups=2,top_k=3,q_rank=8,kv_rank=8,"
        "plain_dim=4,rope_dim=4,v_dim=4"};

TrainingRun run_of(const std::string& model) {
  return {.model = model, .optimizer = {.name = "momentum"}, .precision = DType::f64, .steps = 3};
}

std::optional<testing::Outcome> trained(const std::string& model, const std::string& set) {
  const Constraints said = parse_constraints({"--set", set});
  return testing::run_planned(run_of(model), {.devices = static_cast<int>(said.degrees.devices()),
                                              .parallel = Parallel::semi_auto_parallel,
                                              .constraints = said,
                                              .is_set = true});
}

struct ExpertsCase {
  std::string name;
  std::size_t network;
  std::string set;
};
void PrintTo(const ExpertsCase& c, std::ostream* out) { *out << c.name; }

class EndToEndExperts : public ::testing::TestWithParam<ExpertsCase> {};

TEST_P(EndToEndExperts, have_the_losses_of_one_device) {
  const std::string& model = networks[GetParam().network];
  testing::expect_same(trained(model, GetParam().set), testing::run_alone(run_of(model)),
                       {.losses = 1e-9, .weights = 1e-7});
}

INSTANTIATE_TEST_SUITE_P(
    all, EndToEndExperts,
    ::testing::Values(
        ExpertsCase{"over_replicas", 0, "dp=4,ep=4"}, ExpertsCase{"over_some", 0, "dp=4,ep=2"},
        ExpertsCase{"beside_tensor", 0, "dp=2,tp=2,ep=2"},
        ExpertsCase{"over_tensor", 0, "dp=2,tp=2,ep=4,etp=1,sequence_parallel=1"},
        ExpertsCase{"over_a_part_of_tensor", 0, "tp=4,ep=2,etp=2"},
        ExpertsCase{"features_alone", 0, "dp=2,tp=4,sequence_parallel=1"},
        ExpertsCase{"features_over_replicas", 0, "dp=4,ep=2,etp=2"},
        ExpertsCase{"neither", 0, "tp=2,dp=2,etp=1,sequence_parallel=1"},
        ExpertsCase{"with_losses", 1, "dp=4,ep=2,zero=1"},
        ExpertsCase{"with_losses_in_stages", 1, "dp=2,pp=2,ep=2,micro_batches=1"},
        ExpertsCase{"many", 2, "dp=8,ep=8,zero=3"},
        ExpertsCase{"by_way_of_the_host", 0, "dp=4,ep=4,offload=activations"},
        ExpertsCase{"side_by_side", 2,
                    "dp=2,pp=2,ep=2,micro_batches=2,micro_batch_interleave=2,offload=activations"},
        ExpertsCase{"latent", 3, "dp=2,tp=2,ep=4,etp=1,zero=2"},
        ExpertsCase{"latent_in_stages", 3, "dp=2,tp=1,pp=2,ep=2,micro_batches=4,schedule=1f1b"}),
    [](const auto& test) { return test.param.name; });

TEST(EndToEndExpertsDrawn, have_the_losses_of_one_device) {
  std::mt19937 random(static_cast<unsigned>(40 + testing::further_seeds()));
  const unsigned all = testing::draws(40);
  const auto one_of = [&](std::initializer_list<int> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
  };
  std::map<std::size_t, std::optional<testing::Outcome>> wanted;
  unsigned done = 0;
  for (unsigned i = 0; i < all; ++i) {
    const std::size_t network = random() % networks.size();
    const int dp = one_of({1, 2, 4}), tp = one_of({1, 2}), pp = dp * tp <= 4 ? one_of({1, 2}) : 1;
    std::string set = fmt::format("dp={},tp={},pp={},ep={},etp={},zero={},recompute={}", dp, tp, pp,
                                  one_of({1, 2, 4}), one_of({1, 2}), one_of({0, 1, 2, 3}),
                                  std::array{"none", "selected", "full"}[random() % 3]);
    if (tp > 1 && random() % 2) set += ",sequence_parallel=1";
    // Experts that keep so many rows, and a loss that balances, are of a micro-batch.
    set += fmt::format(",micro_batches={}", network == 1 ? 1 : one_of({1, 2, 4}));
    SCOPED_TRACE(networks[network] + " " + set);
    std::optional<testing::Outcome> have;
    try {
      have = trained(networks[network], set);
    } catch (const Error&) {
      continue;  // ep and etp are no inner part of the devices, or replicas have no samples
    }
    ++done;
    auto& want = wanted[network];
    if (!want) want = testing::run_alone(run_of(networks[network]));
    testing::expect_same(have, want, {.losses = 1e-9, .weights = 1e-6});
  }
  EXPECT_GT(done, all / 3);
}

/// All that share experts see all rows; what is kept of them is each one's own.
TEST(EndToEndExpertsRecomputed, keep_no_gathered_rows) {
  const TrainingRun run{.model = "moe:layers=2,hidden=64,heads=4,ffn=64,experts=8,vocab=64,seq=64,batch=64",
                        .optimizer = {.name = "sgd"}};
  const Model made = testing::train_model(run);
  std::array<std::int64_t, 2> arenas{};
  for (const std::size_t i : {0U, 1U}) {
    const Constraints said =
        parse_constraints({"--set", fmt::format("dp=8,ep=8,recompute={}", i == 0 ? "none" : "selected")});
    const Plan plan = make_plan(
        made.graph,
        {.devices = 8, .parallel = Parallel::semi_auto_parallel, .constraints = said, .is_set = true});
    const Pipeline pipeline = compile_pipeline(made.graph, plan);
    arenas[i] = pipeline.arena_bytes(0);
    const Graph& graph = pipeline.stages.front().graph;
    for (const Node& node : graph.nodes) {
      const bool is_little =
          graph.value(node.results[0]).type.bytes() < 1 << 17;  // gathering it takes longer
      if (node.op->name != "keep" || is_little) continue;
      EXPECT_NE(graph.node(graph.value(node.operands[0]).producer).op->step, StepKind::all_gather)
          << graph.value(node.results[0]).name;
    }
  }
  EXPECT_LE(arenas[1], arenas[0]);
}

/// Rows go to those that have their experts: gathers of x and dy, and sums of y and dx, of each layer.
TEST(EndToEndExpertsRouted, move_rows_by_their_ids) {
  for (const std::size_t network : {0U, 1U, 2U}) {  // with a capacity, too
    const Model made = testing::train_model(run_of(networks[network]));
    const Plan plan = make_plan(made.graph, {.devices = 4,
                                             .parallel = Parallel::semi_auto_parallel,
                                             .constraints = parse_constraints({"--set", "dp=4,ep=4"}),
                                             .is_set = true});
    const Pipeline pipeline = compile_pipeline(made.graph, plan);
    std::map<StepKind, int> count;
    for (const Node& node : pipeline.stages.front().graph.nodes)
      if (node.op->step && node.operands.size() > 1) ++count[*node.op->step];
    EXPECT_EQ(count[StepKind::all_gather], 4) << networks[network];
    EXPECT_EQ(count[StepKind::reduce_scatter], 4) << networks[network];
  }
}

TEST(EndToEndExpertsAsked, says_what_cannot_be) {
  const auto message = [](const std::string& model, const std::string& set) {
    return testing::message_of([&] { trained(model, set); });
  };
  EXPECT_EQ(
      message(moe, "dp=2,tp=2,ep=8,etp=1"),
      "ep=8, etp=1: 8 devices share experts, which is no inner part of the dp=2 x tp=2 of a stage; etp, and "
      "ep x etp, should divide tp, or be multiples of it that divide 4");
  EXPECT_EQ(message("moe:" + small + "ffn=12,experts=6", "dp=4,ep=4"),
            "ep=4: does not divide the 6 experts of the network");
  EXPECT_EQ(message("llama:" + small + "ffn=12", "dp=4,ep=4"),
            "ep=4: the network has no experts; leave it out");
}

}  // namespace
}  // namespace shardwright
