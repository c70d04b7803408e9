#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "shardwright/cli/planning.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/text.h"
#include "shardwright/passes/compile.h"

namespace shardwright::verbs {
namespace {

struct Summary {
  int operators = 0;
  int tensors = 0;
  std::int64_t parameters = 0;
  double flops = 0;
};

Summary summary_of(const Graph& graph) {
  Summary s;
  for (const Node& node : graph.nodes) {
    if (node.op->kind == OpKind::parameter) {
      ++s.tensors;
      s.parameters += element_count(graph.value(node.results[0]).type.shape);
    } else if (node.op->kind == OpKind::compute) {
      ++s.operators;
      s.flops += flops_of(*node.op, rule_of(graph, node));
    }
  }
  return s;
}

nlohmann::json node_json(const Graph& graph, const Node& node) {
  std::vector<std::string> operands, types;
  for (ValueId v : node.operands) operands.push_back(graph.value(v).name);
  for (ValueId v : node.results) types.push_back(to_text(graph.value(v).type));
  return {{"name", graph.value(node.results[0]).name},
          {"kind", node.op->name},
          {"phase", name_of(node.phase)},
          {"operands", operands},
          {"types", types}};
}

/// The graph with the plan's strategies, and the layout of every value: as produced, outputs as handed out.
Graph planned_graph(const Arguments& arguments, const Model& model) {
  PlannedGraph planned = completed(model.graph, plan_of(arguments, model, model.graph));
  Graph& graph = planned.graph;
  for (const Node& node : graph.nodes) {
    if (!node.strategy) continue;
    const NodeLayouts layouts = layouts_of(rule_of(graph, node), *node.strategy);
    for (std::size_t i = 0; i < node.results.size(); ++i)
      if (!graph.value(node.results[i]).layout) graph.value(node.results[i]).layout = layouts.results[i];
  }
  for (ValueId v : graph.outputs) graph.value(v).layout = reduced(*graph.value(v).layout);
  return graph;
}

int run(const Arguments& arguments, Terminal& terminal) {
  Model model = model_of(arguments, terminal);
  if (arguments.has("--train")) add_train_step(model.graph, model.loss, optimizer_of(arguments));
  const bool shows_layouts = arguments.has("--layouts");
  const Graph graph =
      shows_layouts && !is_planned(model.graph) ? planned_graph(arguments, model) : model.graph;
  const Summary s = summary_of(graph);
  if (arguments.has("--json")) {
    nlohmann::json out{{"model", model.name},
                       {"parameters", s.parameters},
                       {"flops", s.flops},
                       {"nodes", nlohmann::json::array()}};
    for (const Node& node : graph.nodes) out["nodes"].push_back(node_json(graph, node));
    terminal.out << out.dump() << "\n";
    return 0;
  }
  if (!arguments.has("--summary")) terminal.out << to_text(graph, {.layouts = shows_layouts});
  if (arguments.has("--summary"))
    terminal.out << fmt::format("{}: {} operators, {} parameters in {} tensors, {:.4g} flops\n", model.name,
                                s.operators, s.parameters, s.tensors, s.flops);
  return 0;
}

}  // namespace

std::vector<Verb> show() {
  std::vector<Flag> flags =
      planning_flags({{"--layouts", "", "with strategies, meshes and the layout of every value", ""},
                      {"--train", "", "with the backward and update nodes", ""},
                      {"--summary", "", "only counts", ""},
                      {"--json", "", "one JSON document", ""}});
  for (Flag& f : optimizer_flags()) flags.push_back(std::move(f));
  return {{.name = "show",
           .doc = "print a network as text, with a plan's flags also its layouts",
           .positionals = {"MODEL"},
           .flags = std::move(flags),
           .example = "shardwright show ffn --layouts --devices 8",
           .run = run}};
}

}  // namespace shardwright::verbs
