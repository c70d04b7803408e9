// What a propagation must keep to, whatever it finds.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "shardwright/annotations/annotations.h"
#include "shardwright/frontend/model.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/text.h"
#include "shardwright/graph/verify.h"
#include "shardwright/search/planning/problem.h"
#include "tests/support/layouts.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using testing::Draw;

struct Case {
  std::string name;
  std::string text;  // a model, or a graph
  std::string annotations;
  int devices;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const char* const branches = R"(
%x = input f32[16, 8]
%w = param f32[8, 8]
%u = param f32[8, 8]
%a = matmul %x, %w
%b = matmul %x, %u
%c = matmul %a, %w
%d = relu %b
%e = matmul %d, %w
%f = add %c, %e
%g = mul %f, %a
%loss = reduce_mean %g
output %loss
)";

const std::vector<Case> cases = {
    {"ffn_of_seed_000", "ffn",
     R"({"dense1.matmul": {"in": [[2, 4], [4, 1]]}, "dense3.matmul": {"in": [[1, 8], [8, 1]]}})", 8},
    {"ffn_by_batch", "ffn", "{}", 4},
    {"ffn_whole_data", "ffn", R"({"dense2.matmul": {"in": [[1, 4], [4, 1]]}, "dataset": "full_batch"})", 4},
    {"chain", "matmul_chain:widths=32-64-32-64", R"({"matmul2": {"in": [[1, 2], [2, 4]]}})", 8},
    {"chain_on_six", "matmul_chain:batch=24,widths=24-48-24",
     R"({"matmul1": {"in": [[2, 3], [3, 1]]}, "matmul2": {"in": [[3, 2], [2, 1]]}})", 6},
    {"branches", branches, R"({"a": {"in": [[2, 1], [1, 2]]}, "e": {"in": [[4, 1], [1, 1]]}})", 4},
    {"branches_by_data", branches, R"({"dataset": [[2, 2]]})", 4},
    {"branches_free", branches, "{}", 4},
};

Graph graph_of(const Case& c) {
  return c.text.find('%') == std::string::npos ? build_model(c.text).graph : parse_graph(c.text);
}

struct Found {
  Graph graph;
  FixedChoices fixed;
  SearchResult result;

  /// Strategy by node name, told with its mesh.
  std::map<std::string, std::string> told() const {
    std::map<std::string, std::string> out;
    for (NodeId id : graph.node_ids()) {
      const Node& node = graph.node(id);
      if (node.op->kind != OpKind::compute) continue;
      const Strategy& s = result.choices[static_cast<std::size_t>(id.index)].strategy;
      const Mesh& mesh = fixed.meshes[static_cast<std::size_t>(s.mesh)];
      std::string text = to_text(s, rule_of(graph, node), mesh);
      if (!used_axes(s).empty()) text += " " + to_text(mesh);
      out[graph.name_of(id)] = text;
    }
    return out;
  }
};

Found search(Graph graph, FixedChoices fixed, const SearchOptions& options = {}) {
  std::vector<MeshCost> costs;
  for (const Mesh& m : fixed.meshes) costs.push_back(uniform_cost(m));
  Redistributor redistributor(fixed.meshes, costs, {.even_only = true});
  Found out{std::move(graph), std::move(fixed), {}};
  out.result = find_search("propagation")
                   .run({.graph = &out.graph, .fixed = out.fixed, .redistributor = &redistributor}, options);
  return out;
}

Found search(Graph graph, const Case& c, const SearchOptions& options = {}) {
  FixedChoices fixed =
      fixed_choices_of(graph, parse_annotations(c.annotations, "test"), c.devices, Parallel::auto_parallel);
  return search(std::move(graph), std::move(fixed), options);
}

/// The same graph with its nodes in another order in which operands still come first.
Graph reordered(const Graph& graph, unsigned seed) {
  Draw draw(seed);
  std::vector<NodeId> left = graph.node_ids();
  std::vector<int> place(graph.nodes.size(), -1);
  Graph out = graph;
  out.nodes.clear();
  while (!left.empty()) {
    std::vector<NodeId> ready;
    for (NodeId id : left) {
      const auto& operands = graph.node(id).operands;
      if (std::all_of(operands.begin(), operands.end(), [&](ValueId v) {
            return place[static_cast<std::size_t>(graph.value(v).producer.index)] >= 0;
          }))
        ready.push_back(id);
    }
    const NodeId next = draw.from(ready);
    place[static_cast<std::size_t>(next.index)] = static_cast<int>(out.nodes.size());
    out.nodes.push_back(graph.node(next));
    left.erase(std::find(left.begin(), left.end(), next));
  }
  for (Value& v : out.values) v.producer.index = place[static_cast<std::size_t>(v.producer.index)];
  return out;
}

class Propagation : public ::testing::TestWithParam<Case> {};

TEST_P(Propagation, chooses_legal_strategies_and_says_why) {
  const Found found = search(graph_of(GetParam()), GetParam());
  EXPECT_EQ(found.result.status, SearchStatus::feasible);
  for (NodeId id : found.graph.node_ids()) {
    const Node& node = found.graph.node(id);
    if (node.op->kind != OpKind::compute) continue;
    const Choice& choice = found.result.choices[static_cast<std::size_t>(id.index)];
    const Mesh& mesh = found.fixed.meshes[static_cast<std::size_t>(choice.strategy.mesh)];
    EXPECT_EQ(violation(rule_of(found.graph, node), choice.strategy, mesh).value_or(""), "");
    EXPECT_FALSE(choice.reason.is_empty()) << found.graph.name_of(id);
    if (const auto& fixed = found.fixed.strategies[static_cast<std::size_t>(id.index)]) {
      EXPECT_EQ(choice.strategy, *fixed);
    }
  }
}

TEST_P(Propagation, does_not_depend_on_the_order_of_nodes) {
  const Graph graph = graph_of(GetParam());
  const auto want = search(graph, GetParam()).told();
  for (unsigned seed = 0; seed < 10; ++seed) {
    const Graph other = reordered(graph, seed);
    ASSERT_NO_THROW(verify(other));
    EXPECT_EQ(search(other, GetParam()).told(), want) << "order " << seed;
  }
}

TEST_P(Propagation, keeps_what_it_found) {
  const Found found = search(graph_of(GetParam()), GetParam());
  FixedChoices all = found.fixed;
  for (NodeId id : found.graph.node_ids())
    if (found.graph.node(id).op->kind == OpKind::compute)
      all.strategies[static_cast<std::size_t>(id.index)] =
          found.result.choices[static_cast<std::size_t>(id.index)].strategy;
  EXPECT_EQ(search(found.graph, all).told(), found.told());
}

INSTANTIATE_TEST_SUITE_P(Plan, Propagation, ::testing::ValuesIn(cases),
                         [](const auto& c) { return c.param.name; });

bool uses_some(const Found& found, NodeId id) {
  const Strategy& s = found.result.choices[static_cast<std::size_t>(id.index)].strategy;
  return !is_all_or_nothing(s, found.fixed.meshes[static_cast<std::size_t>(s.mesh)]);
}

TEST(PropagationSettings, fully_use_devices_leaves_no_strategy_that_uses_some) {
  const auto using_some = [](const SearchOptions& options) {
    int count = 0;
    for (const char* in : {"[[1, 8], [8, 1]]", "[[2, 4], [4, 1]]"}) {
      const Case c{"", "ffn", fmt::format(R"({{"dense1.matmul": {{"in": {}}}}})", in), 8};
      const Found found = search(graph_of(c), c, options);
      for (NodeId id : found.graph.node_ids())
        count += found.graph.node(id).op->kind == OpKind::compute && uses_some(found, id);
    }
    return count;
  };
  EXPECT_EQ(using_some({.fully_use_devices = true}), 0);
  EXPECT_GT(using_some({}), 0);
}

/// How many values that a point-wise operator makes are redistributed for a reader.
int redistributed(const Found& found) {
  std::vector<MeshCost> costs;
  for (const Mesh& m : found.fixed.meshes) costs.push_back(uniform_cost(m));
  Redistributor redistributor(found.fixed.meshes, costs, {.even_only = true});
  const auto layouts = [&](NodeId id) {
    return layouts_of(rule_of(found.graph, found.graph.node(id)),
                      found.result.choices[static_cast<std::size_t>(id.index)].strategy);
  };
  int count = 0;
  for (NodeId id : found.graph.node_ids()) {
    const Node& node = found.graph.node(id);
    if (node.op->kind != OpKind::compute) continue;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const Value& v = found.graph.value(node.operands[i]);
      if (!found.graph.node(v.producer).op->block) continue;
      const Layout has = layouts(v.producer).results[static_cast<std::size_t>(v.result)];
      count += !redistributor.find(has, layouts(id).operands[i], v.type).steps.empty();
    }
  }
  return count;
}

TEST(PropagationSettings, elementwise_follow_reads_point_wise_results_as_they_lie) {
  const char* const annotations =
      R"({"dense1.matmul": {"in": [[8, 1], [1, 1]]}, "dense2.matmul": {"in": [[1, 8], [8, 1]]},
          "dense4.matmul": {"in": [[8, 1], [1, 1]]}})";
  const Case c{"", "ffn", annotations, 8};
  EXPECT_GT(redistributed(search(graph_of(c), c)), 0);
  const Found found = search(graph_of(c), c, {.elementwise_follow = true});
  EXPECT_EQ(redistributed(found), 0);
  for (NodeId id : found.graph.node_ids())
    if (const auto& fixed = found.fixed.strategies[static_cast<std::size_t>(id.index)]) {
      EXPECT_EQ(found.result.choices[static_cast<std::size_t>(id.index)].strategy, *fixed);
    }
}

/// A network of 12 nodes that share data and parameters at random.
std::string random_network(unsigned seed) {
  Draw draw(seed);
  std::string text = "%x = input f32[16, 16]\n%w0 = param f32[16, 16]\n%w1 = param f32[16, 16]\n";
  std::vector<std::string> values{"x"};
  for (int i = 0; i < 12; ++i) {
    const std::string name = fmt::format("n{}", (i * 7 + 3) % 12), from = draw.from(values);
    const int kind = draw.below(4);
    if (kind == 0) text += fmt::format("%{} = relu %{}\n", name, from);
    if (kind == 1) text += fmt::format("%{} = add %{}, %{}\n", name, from, draw.from(values));
    if (kind >= 2) text += fmt::format("%{} = matmul %{}, %w{}\n", name, from, draw.below(2));
    values.push_back(name);
  }
  return text;
}

TEST(PropagationOrder, of_nodes_does_not_matter_in_random_networks) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const Graph graph = parse_graph(random_network(seed));
    Draw draw(seed);
    Case c{"", "", "{}", 4};
    const int kind = draw.below(3);
    if (kind == 0) c.annotations = R"({"dataset": [[2, 1]]})";
    for (NodeId id : graph.node_ids())
      if (kind == 1 && graph.node(id).op->name == "matmul" && draw.below(3) == 0)
        c.annotations =
            fmt::format(R"({{"{}": {{"in": [[{}, 2], [2, 1]]}}}})", graph.name_of(id), 1 + draw.below(2));
    const auto want = search(graph, c).told();
    for (unsigned order = 0; order < 5; ++order)
      ASSERT_EQ(search(reordered(graph, order), c).told(), want)
          << "network " << seed << " order " << order << "\n"
          << to_text(graph);
  }
}

TEST(PropagationAnnotations, do_not_depend_on_their_order) {
  const Graph graph = build_model("ffn").graph;
  const auto told = [&](const char* annotations) {
    return search(graph, Case{"", "ffn", annotations, 8}).told();
  };
  EXPECT_EQ(
      told(R"({"dense1.matmul": {"in": [[2, 4], [4, 1]]}, "dense3.matmul": {"in": [[1, 8], [8, 1]]}})"),
      told(R"({"dense3.matmul": {"in": [[1, 8], [8, 1]]}, "dense1.matmul": {"in": [[2, 4], [4, 1]]}})"));
}

TEST(PropagationAnnotations, that_conflict_are_errors_that_name_the_operator) {
  const auto error = [](const char* annotations, int devices = 8) {
    return error_of([&] { search(build_model("ffn").graph, Case{"", "ffn", annotations, devices}); });
  };
  EXPECT_EQ(error(R"({"dense1.matmul": {"in": [[2, 4], [2, 1]]}})"),
            "dense1.matmul: dim k is split into 4 in an earlier input but into 2 in input 1");
  EXPECT_EQ(error(R"({"dense1.matmul": {"in": [[4, 4], [4, 1]]}})"),
            "dense1.matmul: strategy ((4, 4), (4, 1)) needs 16 devices but there are 8");
  EXPECT_EQ(error(R"({"dense1.matmul": {"in": [[2, 32], [32, 1]]}})", 64),
            "dense1.matmul: dim 1 of input 0 has size 784 and cannot be split evenly into 32");
  EXPECT_EQ(error(R"({"dens1.matmul": {"in": [[2, 4], [4, 1]]}})"),
            "annotation of 'dens1.matmul': the network has no such operator or parameter (did you mean "
            "dense1.matmul or dense2.matmul?)");
}

// Neighbours that lie as the fixed one does need no communication, so none is inserted.
TEST(PropagationAnnotations, spread_without_communication_where_that_is_possible) {
  const Found found = search(build_model("matmul_chain:widths=32-32-32").graph,
                             Case{"", "", R"({"matmul1": {"in": [[4, 1], [1, 1]]}})", 4});
  EXPECT_EQ(found.told().at("matmul2").substr(0, 9), found.told().at("matmul1").substr(0, 9));
}

// 64 devices as 2x2x2x2x2x2: strategies are not listed there but follow the neighbours.
TEST(PropagationAnnotations, spread_over_many_axes) {
  const char* annotations = R"({"dense1.matmul": {"device_matrix": [2, 2, 2, 2, 2, 2],
      "names": ["a", "b", "c", "d", "e", "f"], "in": [[["a", "b"], ["c", "d"]], [["c", "d"], ["e", "f"]]]}})";
  const Found found = search(build_model("ffn").graph, Case{"", "ffn", annotations, 64});
  EXPECT_EQ(found.told().at("relu1").substr(0, 18), "{i0: a.b, i1: e.f}");
  EXPECT_EQ(found.told().at("dense2.matmul").substr(0, 16), "{m: a.b, k: e.f}");
}

}  // namespace
}  // namespace shardwright
