#include "shardwright/graph/builder.h"

#include <gtest/gtest.h>

#include "shardwright/graph/rewrite.h"
#include "shardwright/graph/text.h"
#include "shardwright/graph/verify.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

TEST(Builder, gives_each_value_a_name_of_its_own) {
  Graph g;
  Builder b(g);
  const ValueId x = b.leaf(OpKind::input, "x", {DType::f32, {4}});
  const ValueId y = b.call("relu", {x}, {}, "y");
  const auto name = [&](ValueId v) { return g.value(v).name; };
  EXPECT_EQ(name(y), "y");
  EXPECT_EQ(name(b.call("relu", {x}, {}, "y")), "y_2");
  EXPECT_EQ(name(b.call("relu", {x}, {}, "y")), "y_3");
  EXPECT_EQ(name(b.call("relu", {x}, {}, "y_2")), "y_2_2");
  EXPECT_EQ(name(b.call("relu", {x})), "1");
  EXPECT_EQ(name(b.call("relu", {x}, {}, "2")), "2");
  EXPECT_EQ(name(b.call("relu", {x})), "3");
  EXPECT_EQ(error_of([&] { b.leaf(OpKind::input, "y", {DType::f32, {4}}); }), "the name 'y' is given twice");
  Builder later(g);  // knows what is there
  EXPECT_EQ(name(later.call("relu", {x}, {}, "y")), "y_4");
  EXPECT_EQ(name(later.call("relu", {x})), "4");
  EXPECT_NO_THROW(verify(g));
}

TEST(Builder, names_the_node_whose_shapes_do_not_fit) {
  Graph g;
  Builder b(g);
  const ValueId x = b.leaf(OpKind::input, "x", {DType::f32, {4, 8}});
  const ValueId w = b.leaf(OpKind::parameter, "w", {DType::f32, {6, 6}});
  EXPECT_EQ(error_of([&] {
              b.call("matmul", {x, w}, {}, "dense1");
            }),
            "dense1: matmul: dim k is 8 in operand 0 but 6 in operand 1");
  EXPECT_EQ(g.nodes.size(), 2);
}

TEST(Builder, stamps_phase_and_forward_node) {
  Graph g;
  Builder b(g);
  const ValueId x = b.leaf(OpKind::input, "x", {DType::f32, {4}});
  b.set_phase(Phase::backward);
  b.set_forward({0});
  const Node& node = g.node(g.value(b.call("relu", {x})).producer);
  EXPECT_EQ(node.phase, Phase::backward);
  EXPECT_EQ(node.forward, NodeId{0});
}

// ---- rewriting ----

const char* const network = R"(%x = input f32[4]
%w = param f32[4]
%unused = param f32[4]
%a = relu %x : f32[4]
%b = relu %x : f32[4]
%c = add %a, %b : f32[4]
%dead = exp %c : f32[4]
%deader = exp %dead : f32[4]
output %c
)";

TEST(Rewrite, lists_users_as_often_as_they_read) {
  const Graph g = parse_graph("%x = input f32[4]\n%y = add %x, %x\n%z = mul %y, %x\noutput %z");
  const Users users = users_of(g);
  const auto listed = [&](std::size_t v) { return std::vector<NodeId>(users[v].begin(), users[v].end()); };
  EXPECT_EQ(listed(0), (std::vector<NodeId>{{1}, {1}, {2}}));
  EXPECT_EQ(listed(1), (std::vector<NodeId>{{2}}));
  EXPECT_TRUE(users[2].empty());
}

TEST(Rewrite, drops_dead_nodes_but_no_leaves) {
  EXPECT_EQ(to_text(without_dead_nodes(parse_graph(network))), R"(%x = input f32[4]
%w = param f32[4]
%unused = param f32[4]
%a = relu %x : f32[4]
%b = relu %x : f32[4]
%c = add %a, %b : f32[4]
output %c
)");
}

TEST(Rewrite, replaces_values_through_chains) {
  const Graph g = parse_graph(network);
  std::vector<ValueId> replacement(g.values.size());
  replacement[static_cast<std::size_t>(g.find("b").index)] = g.find("a");
  replacement[static_cast<std::size_t>(g.find("a").index)] = g.find("x");
  const Graph out = without_dead_nodes(rebuild(g, g.node_ids(), replacement));
  EXPECT_NO_THROW(verify(out));
  EXPECT_EQ(to_text(out), R"(%x = input f32[4]
%w = param f32[4]
%unused = param f32[4]
%c = add %x, %x : f32[4]
output %c
)");
}

// A gradient may outlive the forward value that it belongs to.
TEST(Rewrite, forgets_what_is_gone) {
  const Graph g = parse_graph(R"(%x = input f32[4]
%y = exp %x : f32[4]
backward:
%dy = fill (dtype=f32, shape=[4], value=1) : f32[4] grad %y
%dx = mul %dy, %x of %y : f32[4] grad %x
output %dx
)");
  EXPECT_EQ(to_text(without_dead_nodes(g)), R"(%x = input f32[4]
backward:
%dy = fill (dtype=f32, shape=[4], value=1) : f32[4]
%dx = mul %dy, %x : f32[4] grad %x
output %dx
)");
}

}  // namespace
}  // namespace shardwright
