// What a node costs beside its work: a chain of 1,000 nodes on one element, less a chain of one.

#include <fmt/format.h>

#include "bench/harness/measure.h"
#include "bench/harness/stages.h"
#include "shardwright/graph/builder.h"

namespace shardwright {
namespace {

Program chain(const std::string& op, std::size_t operands, int nodes) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.leaf(OpKind::parameter, "x", {DType::f32, {1}});
  ValueId y = x;
  for (int i = 0; i < nodes; ++i) {
    std::vector<ValueId> all(operands, x);
    all.front() = y;
    y = builder.call(op, all);
  }
  graph.outputs = {y};
  return compile_in_stages(graph, stand_alone_plan(graph), {"fuse_pointwise"}).program;
}

void bench(const BenchOptions& options) {
  pin();
  const Table table({"operator", "1,000 nodes", "1 node ", "a node ", "target"});
  table.begin("A chain of unfused nodes of one element on one device");
  const int nodes = options.is_smoke ? 10 : 1000;
  struct Case {
    std::string op;
    std::size_t operands;
  };
  for (const auto& [op, operands] : {Case{"relu", 1}, Case{"add", 2}}) {
    Alone many(chain(op, operands, nodes)), one(chain(op, operands, 1));
    const int calls = options.is_smoke ? 2 : 100;
    const Comparison c = interleaved(
        options.rounds(25), [&] { return seconds_per_call(calls, [&] { many.run(); }); },
        [&] { return seconds_per_call(calls, [&] { one.run(); }); });
    table.row({op, time_text(c.ours.median), time_text(c.theirs.median),
               time_text((c.ours.median - c.theirs.median) / (nodes - 1)), "< 1 us"});
  }
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) { return shardwright::run_bench(argc, argv, shardwright::bench); }
