#include "shardwright/graph/verify.h"

#include <gtest/gtest.h>

#include <functional>

#include "shardwright/graph/text.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

const char* const valid_network = R"(mesh [tp=2]
%x = input f32[4, 8] [-, tp]
%w = param f32[8, 6] [tp, -]
%y = matmul %x, %w {k: tp} : f32[4, 6]
%loss = reduce_sum %y {} : f32[]
backward:
%d = fill (dtype=f32, shape=[4, 6], value=1) {} : f32[4, 6]
%dw = matmul %x, %d (transpose_a=true) {m: tp} of %y : f32[8, 6] grad %w
update:
%w2 = sgd %w, %dw (rate=0.1) {} : f32[8, 6]
output %loss
update %w <- %w2
)";

struct Case {
  std::string message;
  std::function<void(Graph&)> spoil;
};

Node& node_of(Graph& g, const char* name) { return g.node(g.value(g.find(name)).producer); }

TEST(Verify, takes_a_sound_graph) { EXPECT_NO_THROW(verify(parse_graph(valid_network))); }

TEST(Verify, names_what_is_wrong) {
  const std::vector<Case> cases = {
      {"%y is defined twice", [](Graph& g) { g.value(g.find("x")).name = "y"; }},
      {"y: an operand does not exist", [](Graph& g) { node_of(g, "y").operands[0] = {99}; }},
      {"y: an operand does not exist", [](Graph& g) { node_of(g, "y").operands[0] = {}; }},
      {"y: operand %loss is used before it is defined",
       [](Graph& g) { node_of(g, "y").operands[0] = g.find("loss"); }},
      {"y: operand %y is used before it is defined",
       [](Graph& g) { node_of(g, "y").operands[0] = g.find("y"); }},
      {"d: a forward node stands behind the backward phase",
       [](Graph& g) {
         node_of(g, "loss").phase = Phase::backward;
         node_of(g, "d").phase = Phase::forward;
       }},
      {"y: matmul gives f32[4, 6] but f32[4, 7] is written",
       [](Graph& g) { g.value(g.find("y")).type.shape[1] = 7; }},
      {"y: matmul gives f32[4, 6] but f64[4, 6] is written",
       [](Graph& g) { g.value(g.find("y")).type.dtype = DType::f64; }},
      {"y: axis 'tp' is used twice",
       [](Graph& g) {
         g.level = Level::planned;
         g.meshes = {{{{"tp", 3}}}};
         g.value(g.find("x")).layout = g.value(g.find("w")).layout = std::nullopt;
         node_of(g, "y").strategy = Strategy{{{0}, {0}, {}}, {{}, {}}, 0};
       }},
      {"y: the strategy is on mesh 2 but there are 1 meshes",
       [](Graph& g) { node_of(g, "y").strategy->mesh = 2; }},
      {"%x: the layout is on mesh 1 but there are 1 meshes",
       [](Graph& g) { g.value(g.find("x")).layout->mesh = 1; }},
      {"layout [tp] has 1 dims but the tensor [4, 8] has 2",
       [](Graph& g) { g.value(g.find("x")).layout->dims = {{0}}; }},
      {"axis 'tp' is used twice in layout [tp, tp]",
       [](Graph& g) {
         g.value(g.find("x")).layout->dims = {{0}, {0}};
       }},
      {"an output does not exist", [](Graph& g) { g.outputs.push_back({77}); }},
      {"an updated leaf or its new value does not exist", [](Graph& g) { g.updates[0].value = {}; }},
      {"update %y: only parameters and states can be updated",
       [](Graph& g) { g.updates[0].leaf = g.find("y"); }},
      {"update %x: only parameters and states can be updated",
       [](Graph& g) { g.updates[0].leaf = g.find("x"); }},
      {"update %w: it is f32[8, 6] but the new value is f32[4, 6]",
       [](Graph& g) { g.updates[0].value = g.find("y"); }},
      {"update %w: it is updated twice", [](Graph& g) { g.updates.push_back(g.updates[0]); }},
  };
  for (const Case& c : cases) {
    Graph g = parse_graph(valid_network);
    c.spoil(g);
    EXPECT_EQ(error_of([&] { verify(g); }), c.message);
  }
}

TEST(Verify, names_a_local_shape_that_its_layout_does_not_give) {
  const std::string program = R"(mesh [tp=2]
%x = input f32[4, 4] as [4, 8] [-, tp]
%y = all_gather %x dim 1 over tp : f32[4, 8] as [4, 8] [-, -]
output %y
)";
  EXPECT_NO_THROW(parse_program_graph(program));
  Graph g = parse_program_graph(program);
  g.value(g.find("y")).type.shape = {4, 4};
  EXPECT_EQ(error_of([&] { verify(g); }), "%y: layout [-, -] of [4, 8] gives [4, 8] but [4, 4] is written");
  g = parse_program_graph(program);
  g.value(g.find("y")).global_shape = g.value(g.find("y")).type.shape = {4, 9};
  EXPECT_EQ(error_of([&] { verify(g); }), "y: all_gather gives f32[4, 8] but f32[4, 9] is written");
}

TEST(Verify, names_steps_that_cannot_run_as_one) {
  const char* const program = R"(mesh [dp=2, tp=2]
%a = input f32[2, 4] as [4, 4] [dp, -]
%b = input f32[2, 4] as [4, 4] [tp, -]
%c = input f32[2, 4] as [4, 8] [dp, tp]
%1 = all_gather %a dim 0 over dp : f32[4, 4] as [4, 4] [-, -]
%2 = all_gather %b dim 0 over tp : f32[4, 4] as [4, 4] [-, -]
%3 = all_gather %c dim 0 over dp : f32[4, 4] as [4, 8] [-, tp]
%4 = all_gather %3 dim 1 over tp : f32[4, 8] as [4, 8] [-, -]
%5 = slice %1 dim 0 over dp : f32[2, 4] as [4, 4] [dp, -]
%6 = slice %2 dim 0 over dp : f32[2, 4] as [4, 4] [dp, -]
output %4
output %5
output %6
)";
  const std::vector<Case> cases = {
      {"2: all_gather over tp cannot run as one with all_gather over dp above it",
       [](Graph& g) { node_of(g, "2").is_fused = true; }},
      {"4: it runs as one with %3 and cannot read it",
       [](Graph& g) {
         node_of(g, "4").is_fused = true;
         node_of(g, "4").attributes = node_of(g, "3").attributes;
       }},
      {"6: slice moves nothing between ranks and cannot be fused",
       [](Graph& g) { node_of(g, "6").is_fused = true; }},
  };
  for (const Case& c : cases) {
    Graph g = parse_program_graph(program);
    c.spoil(g);
    EXPECT_EQ(error_of([&] { verify(g); }), c.message);
  }
}

}  // namespace
}  // namespace shardwright
