// Nine point-wise operators on 1.4 million elements: as one fused node, and as nine.

#include <fmt/format.h>

#include "bench/harness/measure.h"
#include "bench/harness/stages.h"
#include "shardwright/graph/builder.h"

namespace shardwright {
namespace {

using Values = std::vector<ValueId>;

/// Both gradients of g sigmoid(g) u: two results.
Values gated_unit_backward(Builder& b, const Values& x) {
  const ValueId dy = x[0], g = x[1], u = x[2];
  const ValueId s = b.call("sigmoid", {g});
  const ValueId gs = b.call("mul", {g, s});
  const ValueId rest = b.call("shift", {b.call("neg", {s})}, {{"value", 1.0}});
  const ValueId slope = b.call("add", {s, b.call("mul", {gs, rest})});
  return {b.call("mul", {dy, gs}), b.call("mul", {b.call("mul", {dy, u}), slope})};
}

/// Sums, products and a relu in a row: nothing but memory traffic.
Values cheap_chain(Builder& b, const Values& x) {
  ValueId y = x[0];
  for (int i = 0; i < 4; ++i) y = b.call(i % 2 ? "add" : "mul", {b.call("add", {y, x[1]}), x[2]});
  return {b.call("relu", {y})};
}

Graph graph_of(Values (*make)(Builder&, const Values&), std::int64_t elements) {
  Graph graph;
  Builder builder(graph);
  Values parameters;
  for (const char* name : {"a", "b", "c"})
    parameters.push_back(builder.leaf(OpKind::parameter, name, {DType::f32, {elements}}));
  graph.outputs = make(builder, parameters);
  return graph;
}

void bench(const BenchOptions& options) {
  pin();
  const std::int64_t elements = options.is_smoke ? 1000 : 1'400'000;
  const Table table({"nine operators    ", "fused  ", "unfused", "unfused / fused  ", "target"});
  table.begin("Nine point-wise operators on 1.4 million elements on one core");
  struct Case {
    std::string name;
    Values (*make)(Builder&, const Values&);
  };
  for (const auto& [name, make] :
       {Case{"gated unit, backward", gated_unit_backward}, Case{"cheap chain", cheap_chain}}) {
    const Graph graph = graph_of(make, elements);
    const Plan plan = stand_alone_plan(graph);
    Alone fused(compile_in_stages(graph, plan).program);
    Alone unfused(compile_in_stages(graph, plan, {"fuse_pointwise"}).program);
    const int calls = options.is_smoke ? 1 : 5;
    const Comparison c = interleaved(
        options.rounds(25), [&] { return seconds_per_call(calls, [&] { unfused.run(); }); },
        [&] { return seconds_per_call(calls, [&] { fused.run(); }); });
    table.row({name, time_text(c.theirs.median), time_text(c.ours.median), ratio_text(c.ratio), ">= 3"});
  }
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) { return shardwright::run_bench(argc, argv, shardwright::bench); }
