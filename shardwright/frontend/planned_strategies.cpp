#include "shardwright/frontend/planned_strategies.h"

#include "shardwright/annotations/local_split.h"
#include "shardwright/annotations/strategy_annotations.h"
#include "shardwright/base/attempt.h"
#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/forward_operator.h"
#include "shardwright/plan/leaves.h"
#include "shardwright/runtime/kept.h"

namespace shardwright {
namespace {

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t most = 3;
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i)
    out += fmt::format("{}'{}'", i ? ", " : "", names[i]);
  const std::size_t others = names.size() - std::min(names.size(), most);
  return others == 0 ? out : out + fmt::format(" and {} other{}", others, others == 1 ? "" : "s");
}

/// One device has an axis, too.
Mesh matrix_of(const Mesh& mesh) { return mesh.axes.empty() ? Mesh{{{"axis0", 1}}} : mesh; }

class Saving {
 public:
  Saving(const Graph& graph, const Plan& plan, const Pipeline& pipeline)
      : planned_(apply(plan, graph)),
        stages_(plan.settings.pipelining.stages),
        shares_weights_(plan.settings.optimizer_parallel.level >= 3),
        pipeline_(pipeline) {}

  PlannedStrategies run() {
    for (int s = 0; s < static_cast<int>(planned_.stages.size()); ++s) {
      add_operators(s);
      if (shares_weights_) add_readers(s);
    }
    add_parameters();
    tell("how operators are split is more than parts of inputs", split_otherwise_);
    tell("which layout results are brought into", with_result_);
    tell("parameters lie in uneven parts", uneven_);
    return std::move(out_);
  }

 private:
  void tell(const std::string& what, const std::vector<std::string>& names) {
    if (!names.empty()) out_.left_out.push_back(fmt::format("{}: {}", what, listed(names)));
  }

  void add_operators(int part) {
    const Graph& graph = planned_.stages[at(part)].graph;
    const Calls calls(graph);
    for (const NodeId id : graph.node_ids()) {
      const Node& node = graph.node(id);
      if (!is_forward_operator(node) || !node.strategy) continue;
      const Rule& rule = calls.rule(id);
      const std::string& name = graph.name_of(id);
      FileOperator op{.name = name, .stage = part % stages_, .turn = part / stages_};
      const Mesh mesh = matrix_of(graph.meshes[at(node.strategy->mesh)]);
      for (const Layout& layout : layouts_of(rule, *node.strategy).operands) {
        op.in.push_back({mesh, layout.dims});
        op.parts.push_back(op.in.back().parts());
      }
      if (!says_all(op, graph, node)) split_otherwise_.push_back(name);
      if (graph.value(node.results.front()).layout) with_result_.push_back(name);
      if (!op.in.empty()) out_.file.operators.push_back(std::move(op));
    }
  }

  /// Whether who reads it finds the strategy that it was.
  static bool says_all(FileOperator op, const Graph& graph, const Node& node) {
    const bool is_whole = used_axes(*node.strategy).empty();
    if (is_whole || op.in.empty()) return is_whole;
    op.stage = op.turn = 0;  // it is by itself
    const int devices = op.in.front().matrix.size();
    const auto is_found_again = [&] {
      const Constraints said = annotations_of({.operators = {std::move(op)}, .parameters = {}}, "");
      const LocalSplit split = split_of_node(graph, node, said.tensors.begin()->second, devices);
      const auto& linear = node.strategy->linear;
      return split.loops == node.strategy->loops &&
             std::all_of(linear.begin(), linear.end(), [](const Axes& axes) { return axes.empty(); });
    };
    std::string why;  // uneven parts, of which annotations know nothing
    return attempt(why, is_found_again).value_or(false);
  }

  /// How the first reader of each parameter wants it, which optimizer parallelism of weights cuts further.
  void add_readers(int part) {
    const Graph& graph = planned_.stages[at(part)].graph;
    const Calls calls(graph);
    const std::vector<Reader> readers = first_forward_readers(graph);
    for (const NodeId id : graph.node_ids()) {
      const Node& leaf = graph.node(id);
      if (leaf.op->kind != OpKind::parameter) continue;
      const Reader& reader = readers[at(leaf.results.front().index)];
      if (!reader.node.is_valid() || !graph.node(reader.node).strategy) continue;
      const NodeLayouts layouts = layouts_of(calls.rule(reader.node), *graph.node(reader.node).strategy);
      wanted_[{part, graph.name_of(id)}] = stored(layouts.operands[reader.operand]).dims;
    }
  }

  /// With the optimizer's shards apart from the layout, where a file can say them so: of dim 0, the minor replicas.
  static FileParameter without_shards(FileParameter said, const std::vector<Axes>& wanted) {
    const auto parts_of = [](const MatrixLayout& layout) {
      std::int64_t out = 1;
      for (const std::int64_t n : layout.parts()) out *= n;
      return out;
    };
    const MatrixLayout before{said.layout.matrix, wanted};
    const std::int64_t shards = parts_of(said.layout) / parts_of(before);
    std::string why;
    if (shards < 2 ||
        attempt(why, [&] { return with_optimizer_shards(before, shards); }) != std::optional(said.layout))
      return said;
    said.layout = before;
    said.optimizer_shards = shards;
    return said;
  }

  /// Those of the network; states follow from them.
  void add_parameters() {
    const KeptValues kept(pipeline_);
    for (const Kept& k : kept.all()) {
      if (kept.is_state(k) || kept.is_cache(k)) continue;
      const auto [part, v] = k.places.front();
      const Placement place = placement_of(pipeline_, part, v);
      const Shape& shape = kept.type_of(k).shape;
      if (!is_even(place.layout, *place.mesh, shape)) {
        uneven_.push_back(k.name);
        continue;
      }
      FileParameter said{.name = k.name,
                         .stage = part % stages_,
                         .layout = {matrix_of(*place.mesh), place.layout.dims},
                         .shape = shape};
      const auto wanted = wanted_.find({part, k.name});
      out_.file.parameters.push_back(
          wanted == wanted_.end() ? std::move(said) : without_shards(std::move(said), wanted->second));
    }
  }

  PlannedStages planned_;
  int stages_;
  bool shares_weights_;                                              // optimizer parallelism, among replicas
  std::map<std::pair<int, std::string>, std::vector<Axes>> wanted_;  // by part and name
  const Pipeline& pipeline_;
  PlannedStrategies out_;
  std::vector<std::string> split_otherwise_, with_result_, uneven_;
};

}  // namespace

PlannedStrategies strategies_of(const Graph& graph, const Plan& plan, const Pipeline& pipeline) {
  return Saving(graph, plan, pipeline).run();
}

}  // namespace shardwright
