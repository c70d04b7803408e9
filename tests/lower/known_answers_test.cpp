// The known answers of design.md: which collectives a two-layer transformer needs under data, tensor,
// sequence and optimizer parallelism. Nobody names these schemes in the code; they come out of layouts.

#include <gtest/gtest.h>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/lower/spmd.h"
#include "shardwright/passes/optimize.h"
#include "shardwright/plan/complete.h"
#include "shardwright/plan/leaves.h"
#include "shardwright/plan/plan.h"
#include "tests/support/transformer.h"

namespace shardwright {
namespace {

struct Case {
  std::string name;
  testing::TransformerSplit split;
  int optimizer_parallel = 0;
  std::map<std::string, int> forward, backward, update;  // kind -> count
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

Program program_of(const Case& c) {
  testing::Transformer t = testing::make_transformer({}, c.split);
  add_train_step(t.graph, t.loss, {.name = "adam", .attributes = {{"rate", 0.01}}});
  std::map<ValueId, Layout> update_layouts;
  for (const Node& node : t.graph.nodes) {
    if (!node.op->optimizer || c.optimizer_parallel == 0) continue;
    Value& weight = t.graph.value(node.operands[0]);
    const Layout sharded = state_layout(*weight.layout, {{c.split.mesh}}, weight.type, {1, 0});
    for (std::size_t i = 0; i < node.op->optimizer->states.size(); ++i)
      t.graph.value(node.operands[2 + i]).layout = sharded;
    if (c.optimizer_parallel >= 3) weight.layout = sharded;
  }
  Redistributor redistributor(c.split.mesh, {.even_only = true});
  complete(t.graph, redistributor, update_layouts);
  return optimize(lower(t.graph, redistributor), {redistributor});
}

std::map<std::string, int> count(const Program& p, Phase phase) {
  std::map<std::string, int> out;
  for (const Node& node : p.graph.nodes)
    if (node.phase == phase && node.op->step && !is_local(*node.op->step))
      ++out[std::string(name_of(*node.op->step))];
  return out;
}

std::int64_t bytes(const Program& p) {
  std::int64_t out = 0;
  Redistributor redistributor(p.graph.meshes[0], {.even_only = true});
  for (const Node& node : p.graph.nodes)
    if (node.op->step) {
      const Step s = step_of(p.graph, node);
      out += redistributor.find(s.from, s.to, p.graph.value(node.results[0]).global_type()).bytes;
    }
  return out;
}

class KnownAnswers : public ::testing::TestWithParam<Case> {};

TEST_P(KnownAnswers, collectives_per_phase) {
  const Program p = program_of(GetParam());
  EXPECT_EQ(count(p, Phase::forward), GetParam().forward);
  EXPECT_EQ(count(p, Phase::backward), GetParam().backward);
  EXPECT_EQ(count(p, Phase::update), GetParam().update);
}

const Mesh dp4{{{"dp", 4}}};
const Mesh tp4{{{"tp", 4}}};
constexpr int weights =
    1 + 2 * (4 + 4 + 4) + 2;  // table; per layer: attention, ffn, two norms; the last norm
constexpr int needed_twice =
    1 + 2 * (4 + 2 + 2) + 1;  // head; per layer: attention, ffn, norm weights; the last
constexpr int norm_weights_and_biases = 2 * (4 + 1) + 2;

INSTANTIATE_TEST_SUITE_P(
    Transformer, KnownAnswers,
    ::testing::Values(Case{"dp4", {dp4, {0}, {}}, 0, {{"all_reduce", 1}}, {}, {{"all_reduce", weights}}},
                      Case{"tp4", {tp4, {}, {0}}, 0, {{"all_reduce", 8}}, {{"all_reduce", 5}}, {}},
                      Case{"tp4_sequence",
                           {tp4, {}, {0}, true},
                           0,
                           {{"all_reduce", 3}, {"all_gather", 5}, {"reduce_scatter", 5}},
                           {{"all_gather", 5}, {"reduce_scatter", 5}},
                           {{"all_reduce", norm_weights_and_biases}}},
                      Case{"dp4_level1",
                           {dp4, {0}, {}},
                           1,
                           {{"all_reduce", 1}},
                           {},
                           {{"reduce_scatter", weights}, {"all_gather", weights}}},
                      // Biases, and the table as embedding, are not needed for the backward.
                      Case{"dp4_level3",
                           {dp4, {0}, {}},
                           3,
                           {{"all_gather", weights}, {"all_reduce", 1}},
                           {{"all_gather", needed_twice}},
                           {{"reduce_scatter", weights}}}),
    [](const auto& test) { return test.param.name; });

TEST(KnownAnswers, level_1_moves_the_bytes_of_data_parallelism) {
  const Case plain{"", {dp4, {0}, {}}, 0, {}, {}, {}}, level1{"", {dp4, {0}, {}}, 1, {}, {}, {}};
  EXPECT_EQ(bytes(program_of(level1)), bytes(program_of(plain)));
}

// Gathered for the forward and again for the backward, and reduce-scattered; biases are not needed twice.
TEST(KnownAnswers, level_3_moves_one_and_a_half_times_the_bytes) {
  const Case plain{"", {dp4, {0}, {}}, 0, {}, {}, {}}, level3{"", {dp4, {0}, {}}, 3, {}, {}, {}};
  const double ratio =
      static_cast<double>(bytes(program_of(level3))) / static_cast<double>(bytes(program_of(plain)));
  EXPECT_NEAR(ratio, 1.5, 0.02);
}

}  // namespace
}  // namespace shardwright
