#include "shardwright/exchange/jax_constraints.h"

#include <algorithm>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/exchange/jax/layouts.h"
#include "shardwright/exchange/jax/package_text.h"
#include "shardwright/exchange/python/data.h"
#include "shardwright/exchange/python/node_line.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

class ConstraintsWriter {
 public:
  ConstraintsWriter(const Pipeline& pipeline, const EmittedPlan& plan)
      : pipeline_(pipeline),
        plan_(plan),
        program_(pipeline.stage(0)),
        graph_(program_.graph),
        mesh_(graph_.meshes[0]),
        names_(python::python_names(graph_)) {
    for (const Node& node : graph_.nodes)
      if (node.op->optimizer) gradients_.emplace(source_of(node.operands[1]), leaf_of(node.operands[0]));
  }

  std::map<std::string, std::string> write() {
    check_scale();
    std::map<std::string, std::string> out;
    out["model.py"] = model_text();
    out["parallel.py"] = std::string(jax::package_text("constraints.py"));
    python::add_fixed_files(out, jax::package_text, {}, functions_);
    out["program.py"] = program_text();
    return out;
  }

 private:
  const std::string& name(ValueId v) const { return names_[at(v.index)]; }
  const Node& producer(ValueId v) const { return graph_.node(graph_.value(v).producer); }
  bool is_given(ValueId v) const {
    return python::is_leaf(producer(v)) || producer(v).op->kind == OpKind::input;
  }

  /// The parameter whose redistributed value this is.
  ValueId leaf_of(ValueId v) const {
    while (producer(v).op->kind == OpKind::step) v = producer(v).operands[0];
    return v;
  }

  /// What the backward has made of a gradient that an optimizer takes, which an update may have clipped.
  ValueId source_of(ValueId v) const {
    const Node& node = producer(v);
    if (is_given(v)) return v;
    if (node.op->kind == OpKind::step) return source_of(node.operands[0]);
    if (node.phase != Phase::update) return v;
    const Shape shape = graph_.value(v).global_type().shape;
    for (ValueId operand : node.operands)
      if (graph_.value(operand).global_type().shape == shape) return source_of(operand);
    return v;
  }

  void check_scale() const {
    for (const Node& node : graph_.nodes)
      for (ValueId v : node.operands)
        if (node.phase == Phase::backward && !node.is_recomputed && node.op->kind == OpKind::compute &&
            !node.op->optimizer && producer(v).op->kind == OpKind::state &&
            graph_.value(v).global_type().shape.empty() && producer(v).phase != Phase::update &&
            !is_read_in_forward(v))
          throw error(
              "the plan scales its loss by %{}, which jax:constraints does not do: take bf16, or --to jax",
              graph_.value(v).name);
  }
  bool is_read_in_forward(ValueId v) const {
    return std::ranges::any_of(graph_.nodes, [&](const Node& node) {
      return node.phase == Phase::forward && std::ranges::find(node.operands, v) != node.operands.end();
    });
  }

  // ---- model.py ----

  /// `x` as a value lies, or as it is where nothing can be said of that.
  std::string constrained(std::string x, ValueId v) const {
    const Layout layout = layout_of(graph_.value(v));
    if (layout.is_partial() || layout.dims.empty() || mesh_.size() == 1) return x;
    return fmt::format("constrain({}, {})", x, jax::dims_text(layout, mesh_));
  }

  std::string line(const Node& node) {
    std::vector<std::string> operands, results;
    for (ValueId v : node.operands) operands.push_back(name(v));
    for (ValueId v : node.results) results.push_back(name(v));
    const std::string comment = to_text(graph_.value(node.results[0]).global_type());
    if (node.op->kind == OpKind::step)
      return fmt::format("    {} = {}  # {}\n", results[0], constrained(operands[0], node.results[0]),
                         comment);
    for (auto& [f, text] : python_functions(jax_functions(*node.op))) functions_.emplace(f, text);
    const std::string expression = line_of_whole(graph_, node, std::move(operands));
    if (node.results.size() == 1)
      return fmt::format("    {} = {}  # {}\n", results[0], constrained(expression, node.results[0]),
                         comment);
    std::string out = fmt::format("    {} = {}  # {}\n", join(results, ", "), expression, comment);
    for (std::size_t r = 0; r < results.size(); ++r)
      if (const std::string x = constrained(results[r], node.results[r]); x != results[r])
        out += fmt::format("    {} = {}\n", results[r], x);
    return out;
  }

  /// The nodes that `wanted` is made by, in order; what is `known` is not made.
  std::vector<NodeId> made_by(const std::vector<ValueId>& wanted, const std::set<ValueId>& known) const {
    std::set<NodeId> out;
    std::vector<ValueId> left = wanted;
    while (!left.empty()) {
      const ValueId v = left.back();
      left.pop_back();
      if (known.contains(v) || is_given(v) || !out.insert(graph_.value(v).producer).second) continue;
      const Node& node = producer(v);
      left.insert(left.end(), node.operands.begin(), node.operands.end());
    }
    return {out.begin(), out.end()};
  }

  /// Of the update `gradients` are given, and what it reads of the forward.
  std::string function(const std::string& head, const std::vector<ValueId>& wanted,
                       const std::set<ValueId>& gradients, const std::set<ValueId>& kept) {
    std::set<ValueId> known = gradients;
    known.insert(kept.begin(), kept.end());
    std::set<ValueId> reads(wanted.begin(), wanted.end());
    std::string lines;
    for (NodeId n : made_by(wanted, known)) {
      const Node& node = graph_.node(n);
      reads.insert(node.operands.begin(), node.operands.end());
      lines += line(node);
    }
    std::string given;
    for (ValueId v : reads) {
      if (gradients.contains(v))
        given += fmt::format("    {0} = gradients[\"{1}\"].astype({2})\n", name(v), name(gradients_.at(v)),
                             jax_dtype(graph_.value(v).type.dtype));
      else if (kept.contains(v))
        given += fmt::format("    {0} = kept[\"{0}\"]\n", name(v));
      else if (is_given(v))
        given += fmt::format("    {0} = given[\"{0}\"]\n", name(v));
    }
    return "\n\n" + head + given + lines;
  }

  /// What of the forward the update reads: of the last micro-batch.
  std::set<ValueId> kept_for_update() const {
    std::vector<ValueId> wanted;
    std::set<ValueId> known, out;
    for (const Update& u : updates(false)) wanted.push_back(u.value);
    for (const auto& [v, leaf] : gradients_) known.insert(v);
    const auto add = [&](ValueId v) {
      if (!is_given(v) && !known.contains(v) && producer(v).phase == Phase::forward) out.insert(v);
    };
    std::ranges::for_each(wanted, add);
    for (NodeId n : made_by(wanted, known))
      if (graph_.node(n).phase != Phase::forward) std::ranges::for_each(graph_.node(n).operands, add);
    return out;
  }

  std::vector<Update> updates(bool of_forward) const {
    std::vector<Update> out;
    for (const Update& u : graph_.updates)
      if (producer(u.leaf).op->kind != OpKind::accumulator &&
          (replaced_in(program_, u) == Phase::forward) == of_forward)
        out.push_back(u);
    return out;
  }

  std::string named(const std::vector<Update>& updates) const {
    std::vector<std::string> out;
    for (const Update& u : updates)
      out.push_back(fmt::format("\"{}\": {}", name(u.leaf), constrained(name(u.value), u.leaf)));
    return "{" + join(out, ", ") + "}";
  }

  std::string forward(const std::set<ValueId>& kept) {
    std::vector<ValueId> wanted(kept.begin(), kept.end());
    std::vector<std::string> scalars, for_update;
    std::string loss;
    for (const auto& [v, outside] : python::scalars_of(pipeline_, 0, Phase::forward)) {
      if (loss.empty()) loss = name(v);
      wanted.push_back(v);
      scalars.push_back(fmt::format("\"{}\": {}", outside, name(v)));
    }
    if (loss.empty()) throw error("the network has no loss: jax:constraints is of networks that are trained");
    for (ValueId v : kept) for_update.push_back(fmt::format("\"{0}\": {0}", name(v)));
    const std::vector<Update> states = updates(true);
    for (const Update& u : states) wanted.push_back(u.value);
    return function(
               "def forward(given):\n    \"\"\"The loss, scalars, the states behind it and what the update "
               "reads."
               "\"\"\"\n",
               wanted, {}, {}) +
           fmt::format("    return {}, ({{{}}}, {}, {{{}}})\n", loss, join(scalars, ", "), named(states),
                       join(for_update, ", "));
  }

  std::string update(const std::set<ValueId>& kept) {
    const std::vector<Update> all = updates(false);
    std::vector<ValueId> wanted;
    std::set<ValueId> gradients;
    for (const Update& u : all) wanted.push_back(u.value);
    for (const auto& [v, leaf] : gradients_) gradients.insert(v);
    return function("def update(given, gradients, kept):\n    \"\"\"The new values of leaves.\"\"\"\n",
                    wanted, gradients, kept) +
           fmt::format("    return {}\n", named(all));
  }

  std::string model_text() {
    std::string out = fmt::format(
        "\"\"\"{}: what all devices compute together, on {}, by shardwright.\n\n{}\nThe order of the step, "
        "its "
        "collectives and what is recomputed are XLA's.\n\"\"\"\n\nimport math\n\nimport jax\nimport "
        "jax.numpy as "
        "jnp\nfrom jax import lax\n\nfrom operators import *\nfrom parallel import constrain\n",
        plan_.model, to_text(mesh_), plan_.summary);
    const std::set<ValueId> kept = kept_for_update();
    out += forward(kept);
    return out + update(kept);
  }

  // ---- program.py ----

  std::string program_text() const {
    Json leaves = Json::object(), inputs = Json::object(), mesh = Json::array(), trained = Json::array();
    for (const Node& node : graph_.nodes) {
      if (python::is_leaf(node) && node.op->kind != OpKind::accumulator)
        leaves[name(node.results[0])] = leaf_json(graph_, node);
      if (node.op->kind == OpKind::input)
        inputs[name(node.results[0])] = placed_json(graph_, node.results[0]);
    }
    for (const Axis& axis : mesh_.axes) mesh.push_back({axis.name, axis.size});
    for (const auto& [v, leaf] : gradients_) trained.push_back(name(leaf));
    const Json stage{{"first_rank", 0},
                     {"ranks", program_.rank_count()},
                     {"mesh", mesh},
                     {"leaves", leaves},
                     {"inputs", inputs}};
    std::string out = python::program_head(pipeline_, plan_) + "\n";
    out += "STAGES = " + python_lines(Json::array({stage}), 3) + "\n\n";
    return out + "# What has gradients.\nTRAINED = " + python_lines(trained, 1) + "\n";
  }

  const Pipeline& pipeline_;
  const EmittedPlan& plan_;
  const Program& program_;
  const Graph& graph_;
  const Mesh& mesh_;
  std::vector<std::string> names_;
  std::map<ValueId, ValueId> gradients_;  // what the backward has made, or accumulated: of which parameter
  std::map<std::string, std::string> functions_;
};

}  // namespace

std::map<std::string, std::string> jax_constraints_package(const Pipeline& pipeline,
                                                           const EmittedPlan& plan) {
  if (pipeline.stage_count() > 1)
    throw error("the plan has {} stages, and constraints are of one program: take --to jax, or --stages 1",
                pipeline.stage_count());
  for (const Node& node : pipeline.stage(0).graph.nodes)
    if (updates_rows(node))
      throw error("{}: {} updates rows, and jax.grad makes gradients of whole tables: take --to jax",
                  pipeline.stage(0).graph.value(node.operands[0]).name, node.op->name);
  jax::check_layouts(pipeline);
  return ConstraintsWriter(pipeline, plan).write();
}

}  // namespace shardwright
