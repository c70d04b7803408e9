#include "shardwright/graph/text.h"

#include <gtest/gtest.h>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/make_plan.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

Graph train_graph(const std::string& model, const std::string& optimizer = "sgd") {
  Model m = build_model(model);
  add_train_step(m.graph, m.loss, {.name = optimizer, .attributes = {{"rate", 0.01}}});
  return std::move(m.graph);
}

PlanRequest request(const std::string& model, int devices, const std::string& annotations = "{}") {
  return {.model = model,
          .devices = devices,
          .search = "recursive",
          .constraints = parse_annotations(annotations, "test")};
}

const char* const seed000 =
    R"({"dense1.matmul": {"in": [[2, 4], [4, 1]]}, "dense3.matmul": {"in": [[1, 8], [8, 1]]}})";

/// Text, read again: the same text, and the same nodes, values and layouts.
void expect_round_trip(const Graph& graph) {
  const std::string text = to_text(graph);
  const Graph again = graph.level == Level::program ? parse_program_graph(text) : parse_graph(text);
  EXPECT_EQ(again.level, graph.level);
  EXPECT_EQ(to_text(again), text);
  ASSERT_EQ(again.nodes.size(), graph.nodes.size());
  ASSERT_EQ(again.values.size(), graph.values.size());
  EXPECT_EQ(again.meshes, graph.meshes);
  EXPECT_EQ(again.outputs, graph.outputs);
  EXPECT_EQ(again.sends, graph.sends);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node &a = graph.nodes[i], &b = again.nodes[i];
    EXPECT_EQ(a.op, b.op);
    EXPECT_EQ(a.operands, b.operands);
    EXPECT_EQ(a.results, b.results);
    EXPECT_EQ(a.attributes, b.attributes) << to_text(a.attributes);
    EXPECT_EQ(a.phase, b.phase);
    EXPECT_EQ(a.is_recomputed, b.is_recomputed);
    EXPECT_EQ(a.forward, b.forward);
    EXPECT_EQ(a.strategy, b.strategy);
  }
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value &a = graph.values[i], &b = again.values[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.type, b.type);
    EXPECT_EQ(a.layout, b.layout);
    EXPECT_EQ(a.global_shape, b.global_shape);
    EXPECT_EQ(a.gradient_of, b.gradient_of);
  }
}

TEST(Text, of_graphs_comes_back) {
  for (const char* model : {"ffn", "three_layer", "three_layer_mae", "matmul_chain"})
    for (const char* optimizer : {"sgd", "momentum", "adam"})
      expect_round_trip(train_graph(model, optimizer));
}

TEST(Text, of_stages_and_recomputed_nodes_comes_back) {
  const Graph graph = parse_graph(R"(mesh [dp=2]
%x = receive f32[4, 8] [dp, -]
%w = param f32[8, 8] [-, -]
%h = matmul %x, %w {m: dp}
%y = relu %h {i0: dp}
backward:
%dy = receive f32[4, 8] grad %y
recomputed %h2 = matmul %x, %w {m: dp} of %h
%acc = accumulator f32[8, 8] [-, -] sum(dp)
send %y
)");
  expect_round_trip(graph);
  ASSERT_EQ(graph.sends.size(), 1);
  EXPECT_EQ(graph.value(graph.sends[0]).name, "y");
  EXPECT_TRUE(graph.node(graph.value(graph.find("h2")).producer).is_recomputed);
  EXPECT_FALSE(graph.node(graph.value(graph.find("h")).producer).is_recomputed);
}

TEST(Text, of_planned_graphs_and_programs_comes_back) {
  struct Case {
    std::string model, annotations;
    int devices;
  };
  for (const Case& c : {Case{"ffn", seed000, 8}, Case{"ffn", "{}", 4},
                        Case{"matmul_chain:batch=24,widths=24-48-24",
                             R"({"matmul1": {"in": [[2,3],[3,1]]}, "matmul2": {"in": [[3,2],[2,1]]}})", 6}})
    for (int level : {0, 1, 3}) {
      const Graph graph = train_graph(c.model, "adam");
      PlanRequest r = request(c.model, c.devices, c.annotations);
      r.constraints.zero = level;
      r.constraints.zero_threshold = 0;
      const Plan plan = make_plan(graph, r);
      expect_round_trip(apply(plan, graph).stages[0].graph);
      compile(graph, plan, {.after = [&](const Pass& pass, const Program& p, double) {
                SCOPED_TRACE(pass.name);
                expect_round_trip(p.graph);
              }});
    }
}

TEST(Text, names_the_line_and_what_is_wrong) {
  struct Case {
    std::string text, message;
  };
  const std::vector<Case> cases = {
      {"%x = input f32[4]\n%y = relo %x", "line 2: operator 'relo' does not exist (did you mean relu?)"},
      {"%y = relu %x", "line 1: %x is not defined above"},
      {"%x = input f32[4]\n%x = relu %x", "line 2: %x is defined twice"},
      {"%x = input f32[4]\n%y = relu %x : f32[5]", "line 2: %y is f32[4] but f32[5] is written"},
      {"%x = input q8[4]",
       "line 1: element type 'q8' is unknown; there are f32, f64, f16, bf16, i32, i64, u8, bool"},
      {"%x = input f32[4] [tp]",
       "line 1: layouts and strategies need a mesh; write for example mesh [dp=2] in the first line"},
      {"mesh [a=2]\nmesh [b=3]", "line 2: mesh [b=3] has 3 ranks but mesh [a=2] has 2"},
      {"mesh [a=2]\n%x = input f32[4] [b]", "line 2: axis 'b' is not in mesh [a=2]"},
      {"mesh [a=2]\n%x = input f32[4] [a]@1", "line 2: there is no mesh 1: 1 mesh lines stand above"},
      {"mesh [a=2]\n%x = input f32[4]\n%y = relu %x {q: a}",
       "line 3: loop dim 'q' does not exist; the operator has i0"},
      {"%x = input f32[4] nonsense",
       "line 1: graph: expected the end of the line at 'nonsense' in '%x = input "
       "f32[4] nonsense'"},
      {"output %x", "line 1: %x is not defined above"},
      {"%x = input f32[4]\n%y = relu %x\n+ %z = exp %y",
       "%z is fused ('+'): only programs have that, and this is a network"},
      {"mesh [a=2]\n%x = input f32[4] [a]\n%y = all_gather %x dim 0 over a",
       "%y = all_gather: only programs have that, and this is a planned graph"},
      {"mesh [a=2]\n%x = input f32[2] as [4] [a]",
       "%x is a part of [4]: only programs have that, and this is a planned graph"},
      {"%x = input f32[4]\n%a, %b = relu %x", "line 2: relu has 1 results but 2 are named"},
  };
  for (const Case& c : cases) EXPECT_EQ(error_of([&] { parse_graph(c.text); }), c.message) << c.text;
}

TEST(Text, reads_what_people_write) {
  const Graph g = parse_graph(R"(
# a comment
mesh [dp=2, tp=2]
mesh [all=4]
  %x = input f32[8, 4] [dp, -]      # another
%w = param f32[4, 4] (init=normal, scale=1e-05) [all, -]@1
%y = matmul %x, %w {m: all}@1
output %y [dp, tp]
)");
  EXPECT_EQ(g.value(g.find("w")).layout->mesh, 1);
  EXPECT_EQ(g.node(g.value(g.find("y")).producer).strategy->mesh, 1);
  EXPECT_EQ(g.value(g.find("y")).type, (Type{DType::f32, {8, 4}}));
  EXPECT_EQ(to_text(*g.value(g.find("y")).layout, g.meshes[0]), "[dp, tp]");
  EXPECT_EQ(g.node(g.value(g.find("w")).producer).attributes.number("scale", 0), 1e-5);
  expect_round_trip(g);
}

}  // namespace
}  // namespace shardwright
