// Graphs as text: a `.graph` file, or `-` for standard input. The forward graph as it stands; its first output is the loss.

#include "shardwright/autodiff/backward.h"
#include "shardwright/base/file.h"
#include "shardwright/frontend/mixed_precision.h"
#include "shardwright/frontend/source.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/text.h"
#include "shardwright/graph/verify.h"
#include "shardwright/runtime/initial.h"

namespace shardwright::sources {
namespace {

Model load(const std::string& spec, const ModelOptions&, std::string_view input) {
  Model model{.name = spec, .graph = spec == "-" ? parse_graph(input) : parse_graph(read_text(spec))};
  if (model.graph.outputs.empty()) throw error("the graph has no output");
  if (model.graph.level == Level::network) check_is_network(model.graph);
  for (const Node& node : model.graph.nodes)
    if (node.op->kind == OpKind::parameter || node.op->kind == OpKind::state) {
      check_start(model.graph.value(node.results.front()).name, node.attributes);
      master_type(model.graph, node.results.front());  // it can be one
    }
  model.loss = model.graph.outputs.front();
  model.own = ModelOptions{
      .global_batch = batch_of(model), .precision = precision_of(model.graph, model.loss), .loss = {}};
  return model;
}

}  // namespace

std::vector<Source> graphs() {
  return {{.name = "graphs",
           .matches = [](const std::string& spec) { return spec == "-" || spec.ends_with(".graph"); },
           .load = load,
           .has_fixed_batch = true}};
}

}  // namespace shardwright::sources
