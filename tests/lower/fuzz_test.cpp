// Any legal plan computes the same. Random strategies (partial operands included) for every forward node,
// random storage of parameters and inputs, random layouts of the optimizer's state, on meshes of 2x2, 2x3 and
// 2x2x2 devices: losses and weights after a step equal those of the whole network on one device. No pass makes the
// communication of any of them dearer, with recompute or without, and their buffers and transfers do not disturb each other.

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/random.h"
#include "shardwright/graph/rewrite.h"
#include "shardwright/lower/joined_steps.h"
#include "shardwright/lower/recompute.h"
#include "shardwright/lower/spmd.h"
#include "shardwright/passes/optimize.h"
#include "shardwright/plan/complete.h"
#include "shardwright/runtime/session.h"
#include "tests/support/draws.h"
#include "tests/support/evaluate.h"
#include "tests/support/transformer.h"
#include "tests/support/walk.h"

namespace shardwright {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : stream_(seed, "dice") {}
  std::size_t below(std::size_t n) {
    return static_cast<std::size_t>(stream_.below(next_++, static_cast<std::int64_t>(n)));
  }

 private:
  RandomStream stream_;
  std::uint64_t next_ = 0;
};

/// Each axis shards a random dim that it divides, or any, or none.
Layout random_layout(const Mesh& mesh, const Shape& shape, Dice& dice, bool may_be_uneven = false) {
  Layout layout = replicated(shape.size());
  for (int a = 0; a < mesh.axis_count(); ++a) {
    const std::size_t d = dice.below(shape.size() + 1);
    if (d == shape.size()) continue;
    const Axes wider = dice.below(2) ? layout.dims[d].with({a}) : Axes{a}.with(layout.dims[d]);
    if (may_be_uneven || shape[d] % mesh.count(wider) == 0) layout.dims[d] = wider;
  }
  return layout;
}

/// Of nodes that something needs; fused steps start as one.
double communication_seconds(const Graph& program, Redistributor& redistributor) {
  const Graph graph = without_dead_nodes(program);
  double seconds = 0;
  for (const Fusion& fusion : fusions_of(graph)) {
    const Node& first = graph.node(fusion.begin);
    if (first.op->kind != OpKind::step) continue;
    JoinedBytes all;
    for (NodeId id = fusion.begin; id < fusion.end; ++id.index)
      all += joined_bytes(graph, graph.node(id), redistributor);
    seconds += fusion.size() > 1 ? joined_price(step_of(graph, first), all, redistributor).seconds()
                                 : redistribution_of(graph, first, redistributor).seconds;
  }
  return seconds;
}

struct FuzzCase {
  std::string name;
  Mesh mesh;
  testing::TransformerSizes sizes;
};
void PrintTo(const FuzzCase& c, std::ostream* out) { *out << c.name; }

/// Each axis splits a random loop dim, unevenly where it has to and may, or operands are partial over it, or it does nothing.
Strategy random_strategy(const Rule& rule, const Mesh& mesh, Dice& dice) {
  Strategy out = whole(rule);
  for (int a = 0; a < mesh.axis_count(); ++a) {
    const std::size_t choice = dice.below(rule.loops.size() + rule.linear.size() + 1);
    Strategy tried = out;
    if (choice < rule.loops.size()) {
      Axes& axes = tried.loops[choice];
      axes = axes.with({a}).cut_as({});
      const std::int64_t grain = rule.loops[choice].size % 2 == 0 && dice.below(2) ? 2 : 1;
      const bool is_by_shares = mesh.has_shares(axes) && dice.below(2);
      axes = is_by_shares || rule.loops[choice].size / grain % mesh.count(axes) ? axes.of_grain(grain) : axes;
      axes = axes.by_shares(is_by_shares);
    } else if (choice < rule.loops.size() + rule.linear.size()) {
      Axes& axes = tried.linear[choice - rule.loops.size()];
      axes = axes.with({a}).sorted();
    }
    if (!violation(rule, tried, mesh)) out = tried;
  }
  return out;
}

void fuzz(const FuzzCase& c, std::uint64_t seed, const std::string& recompute = "none",
          bool may_cut_unevenly = false) {
  SCOPED_TRACE(fmt::format("seed {}, recompute {}", seed, recompute));
  Dice dice(seed);
  testing::TransformerSizes sizes = c.sizes;
  sizes.is_tied = seed % 2 == 0;
  const bool is_uneven = seed % 3 == 1;  // what is kept, and its update
  testing::Transformer t = testing::make_transformer(sizes, {c.mesh, {}, {}}, DType::f64);
  Graph& graph = t.graph;
  for (Node& node : graph.nodes) {
    Value& v = graph.value(node.results[0]);
    if (node.op->kind != OpKind::compute) {
      v.layout = random_layout(c.mesh, v.type.shape, dice, is_uneven && node.op->kind == OpKind::parameter);
      continue;
    }
    if (may_cut_unevenly) {
      node.strategy = random_strategy(rule_of(graph, node), c.mesh, dice);
      continue;
    }
    const auto all = legal_strategies(rule_of(graph, node), c.mesh, {.linear = true, .all_orders = true});
    node.strategy = all[dice.below(all.size())];
  }
  add_train_step(graph, t.loss, {"adam", {{"rate", 0.01}}, seed % 4 == 1 ? 0.5 : 0.0});
  for (const Node& node : graph.nodes)
    if (node.op->optimizer) {
      const Layout layout = random_layout(c.mesh, graph.value(node.operands[0]).type.shape, dice, is_uneven);
      for (std::size_t i : {std::size_t{2}, std::size_t{3}}) graph.value(node.operands[i]).layout = layout;
    }
  const auto values = testing::transformer_values(graph, sizes.vocabulary, seed);
  const std::vector<Tensor> whole_run = evaluate(graph, values);

  Redistributor redistributor(c.mesh, {.even_only = true});
  Graph planned = graph;
  complete(planned, redistributor);
  planned = with_recompute(planned, regions_of(planned, parse_recompute(recompute), has_layers(planned)),
                           redistributor);
  double before = std::numeric_limits<double>::infinity();
  const auto price = [&](const Pass& pass, const Program& p, double) {
    const double now = communication_seconds(p.graph, redistributor);
    EXPECT_LE(now, before * (1 + 1e-12)) << pass.name;
    before = now;
  };
  Program program = optimize(lower(planned, redistributor), {redistributor}, {.after = price});
  EXPECT_EQ(testing::Walk(program).run(), "");
  Session session(std::move(program));
  std::map<std::string, Tensor> batch;
  for (const Node& node : graph.nodes) {
    const std::string& name = graph.value(node.results[0]).name;
    if (node.op->kind == OpKind::input) batch[name] = values.at(name);
    if (node.op->kind == OpKind::parameter) session.set(name, values.at(name));
  }
  const double loss = to_doubles(session.step(batch)[0])[0];
  EXPECT_NEAR(loss, to_doubles(whole_run[static_cast<std::size_t>(t.loss.index)])[0], 1e-10);
  for (const Update& u : graph.updates) {
    const auto want = to_doubles(whole_run[static_cast<std::size_t>(u.value.index)]);
    const auto have = to_doubles(session.get(graph.value(u.leaf).name));
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(have[i], want[i], 1e-9) << graph.value(u.leaf).name << " element " << i;
  }
}

class Fuzz : public ::testing::TestWithParam<FuzzCase> {};

TEST_P(Fuzz, random_plans_compute_the_same) {
  const int plans = testing::is_full() ? 40 : 6;
  for (int seed = 0; seed < plans && !HasFatalFailure(); ++seed)
    fuzz(GetParam(), static_cast<std::uint64_t>(seed));
}

TEST_P(Fuzz, random_plans_with_uneven_cuts_compute_the_same) {
  const int plans = testing::is_full() ? 60 : 8;
  FuzzCase with_shares = GetParam();
  for (Axis& axis : with_shares.mesh.axes)
    for (int i = 0; i < axis.size; ++i) axis.shares.push_back(i + 1);
  for (int seed = 0; seed < plans && !HasFatalFailure(); ++seed)
    fuzz(seed % 2 ? with_shares : GetParam(), 200 + static_cast<std::uint64_t>(seed),
         seed % 4 == 3 ? "full" : "none", true);
}

TEST_P(Fuzz, random_plans_with_recompute_compute_the_same) {
  const std::vector<std::string> all{"full",
                                     "full:communication=false",
                                     "full:shard_kept=true",
                                     "selected",
                                     "selected:communication=true,shard_kept=true",
                                     "layer0.attention,layer0.ffn:communication=false,shard_kept=true"};
  const std::size_t plans = testing::is_full() ? 36 : all.size();
  for (std::size_t seed = 0; seed < plans && !HasFatalFailure(); ++seed)
    fuzz(GetParam(), 100 + seed, all[seed % all.size()]);
}

constexpr testing::TransformerSizes by_two{
    .batch = 4, .sequence = 4, .hidden = 4, .heads = 4, .head = 2, .vocabulary = 8, .ffn = 8, .layers = 1};
constexpr testing::TransformerSizes by_six{
    .batch = 6, .sequence = 6, .hidden = 6, .heads = 6, .head = 2, .vocabulary = 12, .ffn = 12, .layers = 1};
constexpr testing::TransformerSizes by_eight{
    .batch = 8, .sequence = 8, .hidden = 8, .heads = 8, .head = 2, .vocabulary = 8, .ffn = 16, .layers = 1};

// On 3x2 no dim is divided by the first axis: it cuts only what is kept, and unevenly.
INSTANTIATE_TEST_SUITE_P(Meshes, Fuzz,
                         ::testing::Values(FuzzCase{"mesh_2x2", {{{"a", 2}, {"b", 2}}}, by_two},
                                           FuzzCase{"mesh_2x3", {{{"a", 2}, {"b", 3}}}, by_six},
                                           FuzzCase{"mesh_3x2", {{{"a", 3}, {"b", 2}}}, by_two},
                                           FuzzCase{
                                               "mesh_2x2x2", {{{"a", 2}, {"b", 2}, {"c", 2}}}, by_eight}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace shardwright
