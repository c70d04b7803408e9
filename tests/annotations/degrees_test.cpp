#include "shardwright/annotations/degrees.h"

#include <gtest/gtest.h>

#include "shardwright/frontend/model.h"
#include "shardwright/graph/text.h"

namespace shardwright {
namespace {

Graph graph_of(const std::string& model, Attention attention = Attention::flash) {
  return build_model(model, {.attention = attention}).graph;
}

FixedChoices split(const Graph& graph, const std::string& degrees) {
  return fixed_choices_of(graph, Calls(graph), parse_constraints({"--set", degrees}));
}

/// Of the operator called `name`.
std::string strategy_of(const Graph& graph, const FixedChoices& split, const std::string& name) {
  for (NodeId id : graph.node_ids()) {
    const auto& strategy = split.strategies[static_cast<std::size_t>(id.index)];
    if (graph.name_of(id) == name && strategy)
      return to_text(*strategy, rule_of(graph, graph.node(id)), split.meshes.front());
  }
  return "none";
}

const std::string gpt = "gpt:layers=2,hidden=32,heads=4,vocab=64,seq=8,batch=4";

TEST(Degrees, split_products_by_columns_and_rows_attention_by_heads_and_tables_by_rows) {
  const Graph graph = graph_of(gpt);
  const FixedChoices both = split(graph, "dp=2,tp=2");
  EXPECT_EQ(to_text(both.meshes.front()), "mesh [dp=2, tp=2]");
  EXPECT_EQ(strategy_of(graph, both, "embedding"), "{v: tp, i0: dp}");
  EXPECT_EQ(strategy_of(graph, both, "layers.1.norm1"), "{i0: dp}");
  EXPECT_EQ(strategy_of(graph, both, "layers.1.attention.q.matmul"), "{i0: dp, n: tp}");
  EXPECT_EQ(strategy_of(graph, both, "layers.1.attention.attend"), "{b: dp, h: tp}");
  EXPECT_EQ(strategy_of(graph, both, "layers.1.attention.o.matmul"), "{i0: dp, k: tp}");
  EXPECT_EQ(strategy_of(graph, both, "layers.1.attention.o.add"), "{i0: dp}");
  EXPECT_EQ(strategy_of(graph, both, "layers.1.ffn.up.matmul"), "{i0: dp, n: tp}");
  EXPECT_EQ(strategy_of(graph, both, "layers.1.ffn.down.matmul"), "{i0: dp, k: tp}");
  EXPECT_EQ(strategy_of(graph, both, "head.matmul"), "{i0: dp, n: tp}");
}

TEST(Degrees, split_by_the_sequence_what_they_would_repeat_if_that_is_asked_for) {
  const Graph graph = graph_of(gpt);
  const FixedChoices both = split(graph, "dp=2,tp=2,sequence_parallel=1");
  EXPECT_EQ(strategy_of(graph, both, "layers.0.norm1"), "{i0: dp, i1: tp}");
  EXPECT_EQ(strategy_of(graph, both, "layers.0.add1"), "{i0: dp, i1: tp}");
  EXPECT_EQ(strategy_of(graph, both, "layers.0.attention.q.matmul"), "{i0: dp, n: tp}");
  EXPECT_EQ(strategy_of(graph, both, "loss"), "{i0: dp}");  // a number for each token
}

/// Samples that a reshape makes two dims of: dp is no tp, which would become two axes.
TEST(Degrees, leave_dp_one_axis_where_a_dim_has_fewer_parts) {
  const Graph graph = parse_graph(R"(
%x = input f32[128, 8]
%w = param f32[8, 8]
%y = matmul %x, %w
%tokens = reshape %y (shape=[8, 16, 8])
%t = transpose %tokens (dims=[0, 2, 1])
output %t
)");
  for (const int data : {2, 8, 16})
    EXPECT_EQ(strategy_of(graph, split(graph, fmt::format("dp={}", data)), "y"), "{m: dp}") << data;
}

/// What is called otherwise is split the same, so imported networks are, too.
TEST(Degrees, read_the_graph_and_no_names) {
  for (const char* model : {"gpt:layers=2,hidden=32,heads=4,vocab=64,seq=8,batch=4",
                            "llama:layers=2,hidden=32,heads=8,kv_heads=2,ffn=48,vocab=64,seq=8,batch=4"}) {
    const Graph named = graph_of(model);
    Graph unnamed = named;
    for (std::size_t v = 0; v < unnamed.values.size(); ++v) unnamed.values[v].name = fmt::format("x{}", v);
    const std::string degrees = "dp=2,tp=4,sequence_parallel=1";
    EXPECT_EQ(split(unnamed, degrees).strategies, split(named, degrees).strategies) << model;
  }
}

TEST(Degrees, make_tensor_parallelism_two_axes_where_there_are_fewer_heads_of_keys) {
  const Graph graph = graph_of("llama:layers=1,hidden=64,heads=8,kv_heads=2,ffn=48,vocab=64,seq=8,batch=4");
  const FixedChoices four = split(graph, "tp=4");
  EXPECT_EQ(to_text(four.meshes.front()), "mesh [tp0=2, tp1=2]");
  EXPECT_EQ(strategy_of(graph, four, "layers.0.attention.k.matmul"), "{n: tp0}");
  EXPECT_EQ(strategy_of(graph, four, "layers.0.attention.attend"), "{h: tp0, r: tp1}");
}

/// Queries that share keys stand beside each other there: heads of keys over tp0, those that share one over tp1.
TEST(Degrees, split_explicit_attention_by_the_same_two_axes) {
  const Graph graph = graph_of("llama:layers=1,hidden=64,heads=8,kv_heads=2,ffn=48,vocab=64,seq=8,batch=4",
                               Attention::in_memory);
  const FixedChoices four = split(graph, "tp=4");
  EXPECT_EQ(to_text(four.meshes.front()), "mesh [tp0=2, tp1=2]");
  const std::string attention = "layers.0.attention.";
  EXPECT_EQ(strategy_of(graph, four, attention + "q.matmul"), "{n: tp0.tp1}");
  EXPECT_EQ(strategy_of(graph, four, attention + "k.matmul"), "{n: tp0}");
  EXPECT_EQ(strategy_of(graph, four, attention + "scores"), "{i1: tp0, i2: tp1}");
  EXPECT_EQ(strategy_of(graph, four, attention + "weights"), "{h: tp0.tp1}");
  EXPECT_EQ(strategy_of(graph, four, attention + "attend"), "{i1: tp0, i2: tp1}");
  EXPECT_EQ(strategy_of(graph, four, attention + "o.matmul"), "{k: tp0.tp1}");
  EXPECT_THROW(split(graph, "tp=16"), Error);  // heads
}

TEST(Degrees, cut_unevenly_what_they_do_not_divide) {
  const Graph graph = graph_of("llama:layers=1,hidden=64,heads=8,kv_heads=4,ffn=48,vocab=65,seq=8,batch=4");
  const FixedChoices three = split(graph, "tp=3");
  EXPECT_EQ(strategy_of(graph, three, "embedding"), "{v: tp/1}");
  EXPECT_EQ(strategy_of(graph, three, "head.matmul"), "{n: tp/1}");
  EXPECT_EQ(strategy_of(graph, three, "layers.0.ffn.up.matmul"), "{n: tp}");
  // Heads stay whole, and so do those of queries that share one of keys.
  EXPECT_EQ(strategy_of(graph, three, "layers.0.attention.q.matmul"), "{n: tp/16}");
  EXPECT_EQ(strategy_of(graph, three, "layers.0.attention.k.matmul"), "{n: tp/8}");
  EXPECT_EQ(strategy_of(graph, three, "layers.0.attention.attend"), "{h: tp/1}");
  EXPECT_EQ(strategy_of(graph, three, "layers.0.attention.o.matmul"), "{k: tp/16}");
  EXPECT_EQ(strategy_of(graph, split(graph, "dp=3"), "layers.0.attention.q.matmul"), "{i0: dp/1}");
  // Features that tp divides are cut at heads, too, where it does not divide these.
  const Graph wide = graph_of("gpt:layers=1,hidden=48,heads=6,vocab=64,seq=8,batch=4");
  EXPECT_EQ(strategy_of(wide, split(wide, "tp=4"), "layers.0.attention.q.matmul"), "{n: tp/8}");
  EXPECT_EQ(strategy_of(wide, split(wide, "tp=4"), "layers.0.ffn.up.matmul"), "{n: tp}");
}

/// Of 14 heads of queries 7 share one of keys; of four devices two have one of keys, and 3 or 4 of queries.
TEST(Degrees, share_heads_of_queries_unequally_where_there_are_fewer_of_keys) {
  const Graph graph = graph_of("llama:layers=1,hidden=56,heads=14,kv_heads=2,ffn=48,vocab=64,seq=8,batch=4");
  const FixedChoices four = split(graph, "tp=4");
  EXPECT_EQ(to_text(four.meshes.front()), "mesh [tp0=2, tp1=2]");
  EXPECT_EQ(strategy_of(graph, four, "layers.0.attention.q.matmul"), "{n: tp0.tp1/4}");
  EXPECT_EQ(strategy_of(graph, four, "layers.0.attention.k.matmul"), "{n: tp0}");
  EXPECT_EQ(strategy_of(graph, four, "layers.0.attention.attend"), "{h: tp0, r: tp1/1}");
  EXPECT_EQ(strategy_of(graph, four, "layers.0.attention.o.matmul"), "{k: tp0.tp1/4}");
}

/// For engines that have equal parts alone, JAX.
TEST(Degrees, keep_whole_what_they_do_not_divide_where_parts_are_equal) {
  const Graph graph = graph_of("llama:layers=1,hidden=32,heads=4,ffn=48,vocab=65,seq=8,batch=4");
  const auto equal = [&](const char* degrees) {
    return fixed_choices_of(graph, Calls(graph), parse_constraints({"--set", degrees}), true);
  };
  EXPECT_EQ(strategy_of(graph, equal("tp=2"), "embedding"), "{}");
  EXPECT_EQ(strategy_of(graph, equal("tp=2"), "layers.0.ffn.up.matmul"), "{n: tp}");
  EXPECT_THROW(equal("dp=3"), Error);
}

TEST(Degrees, keep_whole_what_has_fewer_parts_but_heads) {
  const Graph graph = graph_of("llama:layers=1,hidden=32,heads=4,ffn=48,vocab=65,seq=8,batch=4");
  EXPECT_EQ(strategy_of(graph, split(graph, "tp=7"), "layers.0.attention.q.matmul"), "{}");
  EXPECT_EQ(strategy_of(graph, split(graph, "tp=7"), "layers.0.ffn.up.matmul"), "{n: tp/1}");
  EXPECT_TRUE(split(graph, "tp=101").repeats_tensor);
  EXPECT_THROW(split(graph, "tp=16"), Error);  // heads
  EXPECT_THROW(split(graph, "dp=5"), Error);   // samples
}

}  // namespace
}  // namespace shardwright
