#include "shardwright/plan/plan.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "shardwright/base/random.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/text.h"
#include "shardwright/plan/contradictions.h"
#include "shardwright/plan/leaves.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

std::vector<std::string> names_of(const Axes& axes, const Mesh& mesh) {
  std::vector<std::string> out;
  for (int a : axes) out.push_back(mesh.axes[at(a)].name);
  return out;
}

std::string text_of(const Layout& layout, const std::vector<Mesh>& meshes) {
  return to_text(layout, meshes[at(layout.mesh)]) + (layout.mesh > 0 ? fmt::format("@{}", layout.mesh) : "");
}

/// A layout in which a value is kept. Throws: Error if it is none, or does not fit `shape`.
Layout layout_of(const std::string& text, const std::vector<Mesh>& meshes, const Shape& shape) {
  const std::size_t mark = text.find('@');
  const auto mesh = mark == std::string::npos ? 0 : to_integer(text.substr(mark + 1)).value_or(-1);
  if (mesh < 0 || mesh >= static_cast<std::int64_t>(meshes.size()))
    throw error("layout '{}': there is no such mesh", text);
  Scanner in(std::string_view(text).substr(0, mark), "layout");
  Layout out = parse_layout(in, meshes[at(static_cast<int>(mesh))]);
  if (!in.at_end()) in.fail("the end of the layout");
  if (out.is_partial()) throw error("layout '{}' is partial; a kept value is not", text);
  if (!out.used().empty()) out.mesh = static_cast<int>(mesh);
  check(out, meshes[at(out.mesh)], shape);
  if (!is_even(out, meshes[at(out.mesh)], shape))
    throw error("layout '{}' cannot cut {} evenly", text, to_text(shape));
  return out;
}

PlannedOperator planned_operator(const Graph& graph, NodeId id, const Choice& choice,
                                 const Constraints& constraints) {
  const Node& node = graph.node(id);
  const Rule rule = rule_of(graph, node);
  const Strategy& s = choice.strategy;
  const Mesh& mesh = constraints.meshes[at(s.mesh)];
  PlannedOperator out{.name = graph.name_of(id),
                      .kind = node.op->name,
                      .mesh = s.mesh,
                      .reason = choice.reason,
                      .is_fixed = constraints.strategies[at(id.index)].has_value()};
  for (std::size_t l = 0; l < rule.loops.size(); ++l)
    if (!s.loops[l].empty()) out.strategy.emplace_back(rule.loops[l].name, names_of(s.loops[l], mesh));
  for (std::size_t g = 0; g < rule.linear.size(); ++g)
    if (!s.linear[g].empty()) out.strategy.emplace_back(fmt::format("+{}", g), names_of(s.linear[g], mesh));
  for (const RuleTensor& tensor : rule.operands) out.in.push_back(integers_of(tensor, s, mesh));
  const auto asked = constraints.layouts.find(node.results.front());
  if (asked != constraints.layouts.end()) out.out = text_of(asked->second, constraints.meshes);
  return out;
}

/// Leaves lie as their first forward user wants them, unless data have a layout of their own. States that no forward
/// node reads are the optimizer's, and lie as their parameter does.
std::map<std::string, std::string> leaf_layouts(const Graph& graph, const std::vector<Choice>& choices,
                                                const Constraints& constraints, int optimizer_parallel) {
  std::map<std::string, std::string> out;
  for (const Node& node : graph.nodes) {
    if (node.op->kind == OpKind::compute || node.op->kind == OpKind::step) continue;
    const ValueId v = node.results.front();
    const Reader reader = first_forward_reader(graph, v);
    if (node.op->kind == OpKind::state && !reader.node.is_valid()) continue;
    Layout layout = replicated(graph.value(v).type.shape.size());
    const auto asked = constraints.layouts.find(v);
    if (asked != constraints.layouts.end()) {
      layout = asked->second;
    } else if (reader.node.is_valid()) {
      const Rule rule = rule_of(graph, graph.node(reader.node));
      layout = stored(layouts_of(rule, choices[at(reader.node.index)].strategy).operands[reader.operand]);
    }
    if (node.op->kind == OpKind::parameter)
      layout = weight_layout(layout, constraints.meshes, graph.value(v).type.shape, optimizer_parallel);
    out[graph.value(v).name] = text_of(layout, constraints.meshes);
  }
  return out;
}

Constraints stand_alone(const Graph& graph) {
  Constraints out{.meshes = {Mesh{}}};
  out.strategies.resize(graph.nodes.size());
  out.reasons.resize(graph.nodes.size());
  return out;
}

}  // namespace

std::string fingerprint_of(const Graph& graph) {
  std::string text = to_text(graph, {.layouts = false, .gradients = false});
  for (const char* end : {"\nbackward:", "\nupdate:", "\noutput "}) text = text.substr(0, text.find(end));
  return fmt::format("{:016x}", hash_of(text));
}

namespace {

/// The plan before anything is chosen.
Plan draft(const Graph& graph, const PlanRequest& request) {
  if (request.parallel == Parallel::stand_alone && request.devices > 1)
    throw error(
        "parallel mode stand_alone is for 1 device but there are {}; use data_parallel or auto_parallel",
        request.devices);
  Plan plan{.model = request.model,
            .origin = request.origin,
            .fingerprint = fingerprint_of(graph),
            .devices = request.devices};
  plan.cluster = request.cluster.empty() ? fmt::format("cpu:{}", request.devices) : request.cluster;
  plan.parallel = name_of(request.parallel);
  plan.optimizer_parallel = request.optimizer_parallel;
  if (request.parallel == Parallel::auto_parallel) plan.search = find_search(request.search).name;
  return plan;
}

/// `plan` with these choices for the forward operators, and the leaves laid out for them.
Plan with_choices(Plan plan, const Graph& graph, const Constraints& constraints,
                  const std::vector<Choice>& choices) {
  for (NodeId id : graph.node_ids())
    if (graph.node(id).op->kind == OpKind::compute && graph.node(id).phase == Phase::forward)
      plan.operators.push_back(planned_operator(graph, id, choices[at(id.index)], constraints));
  plan.layouts = leaf_layouts(graph, choices, constraints, plan.optimizer_parallel);
  return plan;
}

}  // namespace

Plan make_plan(const Graph& graph, const PlanRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  Plan plan = draft(graph, request);
  const Cluster cluster = cluster_called(plan.cluster);
  if (cluster.devices() != request.devices)
    throw error("cluster {} has {} devices but --devices says {}", plan.cluster, cluster.devices(),
                request.devices);
  check_names(graph, request.annotations);  // also where the mode has no use for them
  const Constraints constraints =
      request.parallel == Parallel::stand_alone
          ? stand_alone(graph)
          : constraints_of(graph, request.annotations, request.devices, request.parallel);
  plan.meshes = constraints.meshes;
  std::vector<MeshCost> costs;
  for (const Mesh& mesh : plan.meshes) costs.push_back(mesh_cost(cluster, mesh));
  Redistributor redistributor(plan.meshes, costs, {.even_only = true});
  Problem problem{.graph = &graph,
                  .cluster = &cluster,
                  .constraints = constraints,
                  .redistributor = &redistributor,
                  .parameters_stay_whole = request.parallel == Parallel::data_parallel};
  if (request.price)
    problem.price = [&](const std::vector<Strategy>& strategies) {
      std::vector<Choice> choices;
      for (const Strategy& s : strategies) choices.push_back({s, {}});
      return request.price(apply(with_choices(plan, graph, constraints, choices), graph), cluster);
    };
  check_no_contradiction(problem, request.options);
  const SearchResult found =
      find_search(plan.search.empty() ? "propagation" : plan.search).run(problem, request.options);
  if (found.status == SearchStatus::infeasible) throw Infeasible(fmt::format("no plan: {}", found.violation));
  plan.status = name_of(found.status);
  plan.compared = found.compared;
  plan.log = found.log;
  plan.lower_bound_seconds = found.lower_bound_seconds;
  plan = with_choices(std::move(plan), graph, constraints, found.choices);
  plan.search_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

namespace {

class Application {
 public:
  Application(const Plan& plan, const Graph& graph) : plan_(plan) { out_.graph = graph; }

  PlannedGraph run() {
    if (fingerprint_of(out_.graph) != plan_.fingerprint)
      throw error("the plan is for '{}' ({}), not for this network ({}): other sizes, batch or layers",
                  plan_.model, plan_.fingerprint, fingerprint_of(out_.graph));
    out_.graph.meshes = plan_.meshes;
    for (const PlannedOperator& op : plan_.operators) {
      try {
        apply_operator(op);
      } catch (const Error& e) {
        throw with_context(e, fmt::format("plan: {}", op.name));
      }
    }
    for (const auto& [name, text] : plan_.layouts) apply_layout(name, text);
    shard_states();
    return std::move(out_);
  }

 private:
  void apply_operator(const PlannedOperator& planned) {
    Graph& graph = out_.graph;
    const ValueId v = graph.find(planned.name);
    Node& node = graph.node(graph.value(v).producer);
    if (node.op->kind != OpKind::compute) throw error("is not an operator");
    if (!planned.kind.empty() && planned.kind != node.op->name)
      throw error("is {} here but {} in the plan", node.op->name, planned.kind);
    if (planned.mesh < 0 || planned.mesh >= static_cast<int>(plan_.meshes.size()))
      throw error("there is no mesh {}", planned.mesh);
    const Mesh& mesh = plan_.meshes[at(planned.mesh)];
    const Rule rule = rule_of(graph, node);
    std::string text;
    for (const auto& [loop, axes] : planned.strategy)
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", loop, axes.empty() ? "-" : join(axes, "."));
    text = "{" + text + "}";
    Scanner in(text, "strategy");
    Strategy s = parse_strategy(in, rule, mesh);
    s.mesh = used_axes(s).empty() ? 0 : planned.mesh;
    if (const auto why = violation(rule, s, mesh)) throw Error(*why);
    node.strategy = s;
    if (!planned.out.empty())
      graph.value(v).layout = layout_of(planned.out, plan_.meshes, graph.value(v).type.shape);
  }

  void apply_layout(const std::string& name, const std::string& text) try {
    Graph& graph = out_.graph;
    Value& v = graph.value(graph.find(name));
    if (graph.node(v.producer).op->kind == OpKind::compute) throw error("it is not a leaf");
    v.layout = layout_of(text, plan_.meshes, v.type.shape);
  } catch (const Error& e) {
    throw with_context(e, fmt::format("plan: layout of {}", name));
  }

  /// States lie as their parameter does; from optimizer parallel level 1 on also sharded over its replicas.
  void shard_states() {
    Graph& graph = out_.graph;
    for (NodeId id : graph.node_ids()) {
      const Node& node = graph.node(id);
      if (!node.op->optimizer) continue;
      const ValueId weight = node.operands.front();
      Layout layout = graph.value(weight).layout.value_or(replicated(graph.value(weight).type.shape.size()));
      layout = state_layout(layout, plan_.meshes, graph.value(weight).type.shape, plan_.optimizer_parallel);
      for (std::size_t i = 0; i < node.op->optimizer->states.size(); ++i)
        graph.value(node.operands[2 + i]).layout = layout;
      out_.update_layouts[weight] = layout;
    }
  }

  const Plan& plan_;
  PlannedGraph out_;
};

}  // namespace

PlannedGraph apply(const Plan& plan, const Graph& graph) { return Application(plan, graph).run(); }

}  // namespace shardwright
