#include "shardwright/search/space/fold.h"

#include <gtest/gtest.h>

#include "shardwright/frontend/model.h"
#include "shardwright/graph/op.h"

namespace shardwright::space {
namespace {

Fold folded(const Graph& graph, const FoldOptions& options = {}) {
  return fold(graph, Calls(graph), options);
}

TEST(Fold, does_not_grow_with_depth) {
  for (const std::string model : {"llama", "gpt"}) {
    const int eight = folded(build_model(model + ":layers=8").graph).size();
    EXPECT_EQ(folded(build_model(model + ":layers=24").graph).size(), eight) << model;
    EXPECT_LT(eight, folded(build_model(model + ":layers=8").graph, {.is_on = false}).size()) << model;
  }
}

TEST(Fold, every_forward_node_has_a_class_of_its_like) {
  const Graph graph = build_model("llama:layers=9").graph;
  const Calls calls(graph);
  const Fold f = fold(graph, calls);
  std::size_t count = 0;
  for (const auto& members : f.members) {
    count += members.size();
    for (NodeId id : members) EXPECT_EQ(calls.of(id), calls.of(members.front())) << graph.name_of(id);
  }
  EXPECT_EQ(count, graph.nodes.size());  // a network without a step is forward alone
}

TEST(Fold, names_do_not_matter) {
  Graph graph = build_model("llama:layers=9").graph;
  const int size = folded(graph).size();
  for (std::size_t v = 0; v < graph.values.size(); ++v) graph.values[v].name = "v" + std::to_string(v);
  EXPECT_EQ(folded(graph).size(), size);
}

TEST(Fold, what_the_user_treats_otherwise_stands_alone) {
  const Graph graph = build_model("llama:layers=9").graph;
  std::vector<std::uint64_t> labels(graph.nodes.size(), 0);
  const NodeId gate = graph.value(graph.find("layers.4.ffn.gate.matmul")).producer;
  labels[static_cast<std::size_t>(gate.index)] = 1;
  const Fold f = folded(graph, {.labels = labels});
  EXPECT_EQ(f.members[static_cast<std::size_t>(f.class_of[static_cast<std::size_t>(gate.index)])].size(), 1U);
}

TEST(Fold, middle_layers_are_one_and_the_ends_their_own) {
  const Graph graph = build_model("llama:layers=9").graph;
  const Fold f = folded(graph);
  const auto class_of = [&](int layer) {
    const ValueId v = graph.find("layers." + std::to_string(layer) + ".ffn.gate.matmul");
    return f.class_of[static_cast<std::size_t>(graph.value(v).producer.index)];
  };
  for (int layer = 3; layer <= 6; ++layer) EXPECT_EQ(class_of(layer), class_of(2)) << layer;
  EXPECT_NE(class_of(0), class_of(2));
  EXPECT_NE(class_of(8), class_of(2));
}

}  // namespace
}  // namespace shardwright::space
