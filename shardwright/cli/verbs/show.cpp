#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "shardwright/cli/asked.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/programs.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/text.h"

namespace shardwright::verbs {
namespace {

struct Summary {
  int operators = 0;
  int tensors = 0;
  std::int64_t parameters = 0;
  double flops = 0;
  double flops_between_activations = 0;  // of the forward pass
};

/// Some loop dim is in no result: the operator sums over it, or does what is as much work.
bool contracts(const Rule& rule) {
  std::vector<bool> is_left(rule.loops.size(), false);
  for (const RuleTensor& t : rule.results)
    for (const std::vector<int>& loops : t.dims)
      for (int l : loops) is_left[static_cast<std::size_t>(l)] = true;
  return std::find(is_left.begin(), is_left.end(), false) != is_left.end();
}

bool reads_parameter(const Graph& graph, const Node& node) {
  return std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId v) {
    return graph.node(graph.value(v).producer).op->kind == OpKind::parameter;
  });
}

Summary summary_of(const Graph& graph) {
  Summary s;
  for (const Node& node : graph.nodes) {
    if (node.op->kind == OpKind::parameter) {
      ++s.tensors;
      s.parameters += element_count(graph.value(node.results[0]).type.shape);
    } else if (node.op->kind == OpKind::compute) {
      const Rule rule = rule_of(graph, node);
      const double flops = flops_of(*node.op, rule);
      ++s.operators;
      s.flops += flops;
      if (node.phase == Phase::forward && contracts(rule) && !reads_parameter(graph, node))
        s.flops_between_activations += flops;
    }
  }
  return s;
}

/// Of a training step, by the usual count: forward a multiplication and an addition for each parameter, and what is
/// summed over without one, which is attention; backward twice as much.
double flops_per_token(const Summary& s, std::int64_t tokens) {
  return 6 * static_cast<double>(s.parameters) +
         3 * s.flops_between_activations / static_cast<double>(tokens);
}

std::string summary_text(const Model& model, const Summary& s) {
  std::string out = fmt::format("{}: {} operators, {} parameters in {} tensors, {:.4g} flops\n", model.name,
                                s.operators, s.parameters, s.tensors, s.flops);
  if (model.tokens > 0) {
    const double all = flops_per_token(s, model.tokens),
                 of_parameters = 6 * static_cast<double>(s.parameters);
    out +=
        fmt::format("training: {:.4g} flops a token, 6 for each parameter and {:.4g} between activations\n",
                    all, all - of_parameters);
  }
  return out;
}

nlohmann::json summary_json(const Model& model, const Summary& s) {
  nlohmann::json out{{"model", model.name},
                     {"operators", s.operators},
                     {"parameters", s.parameters},
                     {"tensors", s.tensors},
                     {"flops", s.flops}};
  if (model.tokens > 0) {
    out["tokens"] = model.tokens;
    out["flops_per_token"] = flops_per_token(s, model.tokens);
  }
  return out;
}

nlohmann::json node_json(const Graph& graph, const Node& node, bool has_layouts) {
  std::vector<std::string> operands, types, layouts;
  for (ValueId v : node.operands) operands.push_back(graph.value(v).name);
  for (ValueId v : node.results) types.push_back(to_text(graph.value(v).type));
  nlohmann::json out{{"name", graph.value(node.results[0]).name},
                     {"kind", node.op->name},
                     {"phase", name_of(node.phase)},
                     {"operands", operands},
                     {"types", types}};
  if (!has_layouts) return out;
  for (ValueId v : node.results) {
    const Layout layout = layout_of(graph.value(v));
    layouts.push_back(to_text(layout, graph.meshes[static_cast<std::size_t>(layout.mesh)]));
  }
  out["layouts"] = layouts;
  return out;
}

/// The graph with the plan's strategies, and the layout of every value: as produced, outputs as handed out.
Graph planned_graph(const Arguments& arguments, const Model& model, Terminal& terminal) {
  // These choose among plans or say how one runs; strategies and layouts do not show it.
  for (const char* flag : {"--comm-fusion", "--recompute", "--offload", "--schedule", "--framework"})
    arguments.idle(flag, "strategies and layouts do not tell of it");
  if (!arguments.has("--train") && settings_of(asked_of(arguments)).optimizer_parallel.level < 3)
    arguments.idle("--optimizer-parallel", "there is no update; add --train");
  const Plan plan = plan_of(arguments, model, model.graph, terminal);
  if (plan.stages.size() > 1)
    throw error("--layouts shows one graph but the plan has {} stages; lower prints the program of each",
                plan.stages.size());
  if (plan.devices() == 1 || is_given_plan(arguments))
    arguments.idle("--memory-margin", "nothing is searched that it would limit");
  if (memory_cap_of(arguments))  // the search may have found nothing that fits
    evaluation_of(arguments, compiled(arguments, model.graph, plan), plan.cluster, plan.settings.framework);
  PlannedGraph planned = completed(std::move(apply(plan, model.graph).stages.front()), plan.cluster);
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

/// One graph is shown, so a search that may choose stages has one, unless somebody asks for others.
Arguments with_one_stage(Arguments arguments) {
  const bool is_said = arguments.has("--stages") || arguments.has("--fix") || arguments.has("--plan");
  const bool shows_layouts = arguments.has("--layouts") && !arguments.has("--summary");
  if (!shows_layouts || is_said || !chooses_structure(asked_of(arguments))) return arguments;
  arguments.flags["--stages"] = "1";
  if (arguments.has("--auto-pipeline")) arguments.flags["--auto-pipeline"] = "0";
  return arguments;
}

int run(const Arguments& given, Terminal& terminal) {
  const Arguments arguments = with_one_stage(given);
  Model model = arguments.has("--layouts") && !arguments.has("--summary")
                    ? model_to_plan(arguments, arguments.has("--train"), terminal)
                    : model_of(arguments, terminal);
  if (arguments.is_on("--train")) add_train_step(model.graph, model.loss, optimizer_of(arguments, model));
  const bool is_short = arguments.is_on("--summary"), is_json = arguments.is_on("--json");
  tell_assumed(arguments, model, arguments.is_on("--train"));
  if (is_short) arguments.idle("--precision", "counts do not depend on it");
  const bool shows_layouts = !is_short && arguments.is_on("--layouts");  // counts have none
  const bool is_text = is_planned(model.graph);
  const Graph graph = shows_layouts && !is_text ? planned_graph(arguments, model, terminal) : model.graph;
  arguments.check_heeded(terminal.err);
  given.heed_all();  // what it says is heeded, or was told
  given.notices.clear();
  const Summary s = summary_of(graph);
  if (is_json) {
    nlohmann::json out = summary_json(model, s);
    if (!is_short)
      for (const Node& node : graph.nodes) out["nodes"].push_back(node_json(graph, node, shows_layouts));
    terminal.out << out.dump() << "\n";
  } else {
    terminal.out << (is_short ? summary_text(model, s) : to_text(graph, {.layouts = shows_layouts}));
  }
  return 0;
}

}  // namespace

std::vector<Verb> show() {
  return {{.name = "show",
           .doc = "print a network as text, with a plan's flags also its layouts",
           .positionals = {"MODEL"},
           .flags =
               planning_flags({{"--layouts", "", "with strategies, meshes and the layout of every value", ""},
                               {"--train", "", "with the backward and update nodes", ""},
                               {"--summary", "", "only counts", ""},
                               {"--json", "", "one JSON document", ""}}),
           .example = "shardwright show ffn --layouts --devices 8",
           .run = run}};
}

}  // namespace shardwright::verbs
