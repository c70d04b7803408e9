// From annotations to fixed choices: what each annotation says by itself (local_split.h) is brought onto common
// meshes, refined from all device matrices that are named.

#include <algorithm>
#include <map>
#include <numeric>

#include "shardwright/annotations/degree_checks.h"
#include "shardwright/annotations/fixed_choices.h"
#include "shardwright/annotations/local_split.h"
#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/batch.h"

namespace shardwright {
namespace {

/// Groups device matrices into meshes: each joins the first mesh with which it has a common refinement.
struct CommonMeshes {
  std::vector<Mesh> meshes;
  std::vector<int> mesh_of;                // per device matrix
  std::vector<std::vector<Axes>> axes_of;  // per device matrix and axis: axes of that mesh
};

CommonMeshes unify(const std::vector<Mesh>& matrices) {
  std::vector<std::vector<Mesh>> classes;
  CommonMeshes out;
  std::vector<std::size_t> place;
  for (const Mesh& m : matrices) {
    std::size_t c = 0;
    for (; c < classes.size(); ++c) {
      std::vector<Mesh> wider = classes[c];
      wider.push_back(m);
      if (refine(wider)) break;
    }
    if (c == classes.size()) classes.emplace_back();
    out.mesh_of.push_back(static_cast<int>(c));
    place.push_back(classes[c].size());
    classes[c].push_back(m);
  }
  std::vector<Refinement> refined;
  for (const auto& members : classes) {
    refined.push_back(*refine(members));
    out.meshes.push_back(refined.back().mesh);
  }
  for (std::size_t i = 0; i < matrices.size(); ++i)
    out.axes_of.push_back(refined[at(out.mesh_of[i])].axes_of[place[i]]);
  return out;
}

/// An input is no operator: its first user is what can be annotated.
std::string near_operators(const Graph& graph, const std::string& name,
                           const std::vector<std::string>& known) {
  for (const Node& node : graph.nodes)
    for (ValueId v : node.operands)
      if (graph.value(v).name == name && graph.node(graph.value(v).producer).op->kind != OpKind::compute)
        return fmt::format("; it is an operand of {}", graph.value(node.results.front()).name);
  return near_names(name, known);
}

class ConstraintMaker {
 public:
  ConstraintMaker(const Graph& graph, const Constraints& constraints, int devices, Parallel mode)
      : graph_(graph), constraints_(constraints), devices_(devices), mode_(mode) {
    out_.strategies.resize(graph.nodes.size());
    out_.reasons.resize(graph.nodes.size());
  }

  FixedChoices make() {
    const bool uses_annotations = mode_ == Parallel::semi_auto_parallel || mode_ == Parallel::auto_parallel;
    if (uses_annotations) collect_operators();
    if (uses_annotations) collect_parameters();
    if (splits_data()) collect_data();
    if (mode_ == Parallel::data_parallel) check_batch();
    if (matrices_.empty()) matrices_.push_back(batch_mesh());
    common_ = unify(matrices_);
    out_.meshes = common_.meshes;
    for (std::size_t i = 0; i < nodes_.size(); ++i) fix_node(i);
    for (std::size_t i = 0; i < leaves_.size(); ++i) fix_leaf(i);
    if (!splits_data()) fix_data();
    if (mode_ == Parallel::semi_auto_parallel) fix_rest();
    return std::move(out_);
  }

 private:
  bool splits_data() const { return constraints_.dataset && constraints_.dataset->word.empty(); }

  /// What is said of `node`, or nullptr.
  const Annotation* annotation_of(NodeId id) const {
    const auto it = constraints_.tensors.find(graph_.name_of(id));
    return it == constraints_.tensors.end() ? nullptr : &it->second;
  }

  /// With the name of what is annotated in front, and that of the file, if it has one.
  Error told(const Error& e, NodeId id) const {
    const Error named = with_context(e, graph_.name_of(id), graph_.name_of(id));
    const std::string& file = annotation_of(id)->said_in;
    return file.empty() ? named : with_context(named, file);
  }

  void collect_operators() {
    if (constraints_.tensors.empty()) return;
    check_names(graph_, constraints_);
    for (NodeId id : graph_.node_ids()) {  // in graph order, whatever the order of the file
      const Node& node = graph_.node(id);
      const Annotation* const annotation = annotation_of(id);
      if (!annotation || annotation->in.empty() || node.phase != Phase::forward) continue;
      try {
        splits_.push_back(split_of_node(graph_, node, *annotation, devices_));
      } catch (const Error& e) {
        throw told(e, id);
      }
      matrices_.push_back(splits_.back().mesh);
      nodes_.push_back(id);
    }
  }

  void add_leaf(ValueId v, LocalSplit split) {
    matrices_.push_back(split.mesh);
    leaves_.push_back({v, std::move(split)});
  }

  void collect_parameters() {
    if (constraints_.tensors.empty()) return;
    for (NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      const Annotation* const annotation = annotation_of(id);
      if (!annotation || node.op->kind != OpKind::parameter) continue;
      try {
        add_leaf(node.results[0], split_of_leaf(graph_, node, *annotation, devices_, "the parameter"));
      } catch (const Error& e) {
        throw told(e, id);
      }
    }
  }

  void collect_data() {
    std::vector<LocalSplit> splits;
    try {
      splits = splits_of_data(graph_, constraints_.dataset->splits, devices_);
    } catch (const Error& e) {
      throw with_context(e, "dataset strategy " + to_text(constraints_.dataset->splits.in));
    }
    auto next = splits.begin();
    for (const Node& node : graph_.nodes)
      if (node.op->kind == OpKind::input) add_leaf(node.results[0], std::move(*next++));
  }

  /// Data parallelism is asked for by name, so it never turns into something else silently.
  void check_batch() const {
    const auto batch = batch_of_data();
    if (batch && batch->second % devices_)
      throw Infeasible(fmt::format(
          "data_parallel: the batch of {} (%{}) cannot be split over {} devices; choose a --global-batch "
          "that is a multiple of {}{}",
          batch->second, batch->first, devices_, devices_,
          batch->second > devices_ && !has_routed_rows(graph_)
              ? fmt::format(", or --set dp={} for unequal shares", devices_)
              : ""));
  }

  /// Name and samples of the first leaf that brings any.
  std::optional<std::pair<std::string, std::int64_t>> batch_of_data() const {
    for (const Node& node : graph_.nodes) {
      const Value& v = graph_.value(node.results.front());
      for (std::size_t d : batch_dims_of_leaf(graph_, node)) return {{v.name, v.type.shape[d]}};
    }
    return std::nullopt;
  }

  void fix_node(std::size_t i) {
    const NodeId id = nodes_[i];
    const Node& node = graph_.node(id);
    const Rule rule = rule_of(graph_, node);
    Strategy s = whole(rule);
    for (std::size_t l = 0; l < s.loops.size(); ++l)
      s.loops[l] = translate(splits_[i].loops[l], common_.axes_of[i]);
    s.mesh = used_axes(s).empty() ? 0 : common_.mesh_of[i];
    out_.strategies[at(id.index)] = s;
    out_.reasons[at(id.index)] = "annotated";
    const Annotation& annotation = constraints_.tensors.at(graph_.name_of(id));
    try {
      if (annotation.out.size() > 1)
        throw error("out strategy {} has {} entries but there is one result", to_text(annotation.out),
                    annotation.out.size());
      if (annotation.out.empty()) return;
      const Shape& shape = graph_.value(node.results[0]).type.shape;
      const Layout local = asked_result(rule, splits_[i], annotation.out[0], shape);
      out_.layouts[node.results[0]] = translate(local, common_.axes_of[i], common_.mesh_of[i]);
    } catch (const Error& e) {
      throw with_context(e, graph_.name_of(id), graph_.name_of(id));
    }
  }

  void fix_leaf(std::size_t i) {
    const auto& [v, split] = leaves_[i];
    const std::size_t matrix = nodes_.size() + i;
    Layout layout = replicated(split.loops.size());
    for (std::size_t d = 0; d < split.loops.size(); ++d)
      layout.dims[d] = translate(split.loops[d], common_.axes_of[matrix]);
    layout.mesh = layout.used().empty() ? 0 : common_.mesh_of[matrix];
    out_.layouts[v] = layout;
  }

  /// By the word for it; without one the data come as their first user wants them.
  void fix_data() {
    if (!constraints_.dataset) return;
    for (const Node& node : graph_.nodes) {
      if (node.op->kind != OpKind::input) continue;
      const Value& v = graph_.value(node.results.front());
      Layout layout = replicated(v.type.shape.size());
      if (constraints_.dataset->word == "data_parallel" && !v.type.shape.empty()) {
        layout.dims[0] = out_.meshes[0].all_axes();
        if (v.type.shape[0] % devices_)
          throw error(
              "dataset strategy data_parallel: the batch of %{} is {} and cannot be split over {} devices",
              v.name, v.type.shape[0], devices_);
      }
      out_.layouts[node.results.front()] = layout;
    }
  }

  /// Where nobody names a device matrix: as many devices along the batch as divide it, the others beside them.
  Mesh batch_mesh() const {
    std::int64_t dp = devices_;
    for (const Node& node : graph_.nodes) {
      if (mode_ != Parallel::auto_parallel) break;
      for (std::size_t d : batch_dims_of_leaf(graph_, node))
        dp = std::gcd(dp, graph_.value(node.results.front()).type.shape[d]);
    }
    Mesh mesh;
    if (dp > 1) mesh.axes.push_back({"dp", static_cast<int>(dp)});
    if (dp < devices_) mesh.axes.push_back({"tp", devices_ / static_cast<int>(dp)});
    return mesh;
  }

  /// An operand seen otherwise (reshape) has no work to split: it lies as the operators around it want it,
  /// which the search finds.
  void fix_rest() {
    const auto is_batch = batch_dims(graph_);
    for (NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      auto& strategy = out_.strategies[at(id.index)];
      if (node.phase != Phase::forward || node.op->kind != OpKind::compute || node.op->is_alias || strategy)
        continue;
      strategy = batch_strategy(graph_, node, is_batch, out_.meshes[0]);
      out_.reasons[at(id.index)] = used_axes(*strategy).empty() ? "not annotated, and no batch to split"
                                                                : "not annotated: the batch is split";
    }
  }

  const Graph& graph_;
  const Constraints& constraints_;
  int devices_;
  Parallel mode_;
  FixedChoices out_;
  struct Leaf {
    ValueId value;
    LocalSplit split;
  };
  std::vector<NodeId> nodes_;       // annotated operators
  std::vector<LocalSplit> splits_;  // theirs
  std::vector<Leaf> leaves_;        // annotated parameters and inputs
  std::vector<Mesh> matrices_;      // of operators, then of leaves
  CommonMeshes common_;
};

}  // namespace

void check_names(const Graph& graph, const Constraints& constraints) {
  if (constraints.tensors.empty()) return;
  std::map<std::string, OpKind> kinds;  // of what can be annotated
  for (const Node& node : graph.nodes)
    if (node.phase == Phase::forward &&
        (node.op->kind == OpKind::compute || node.op->kind == OpKind::parameter))
      kinds.emplace(graph.value(node.results.front()).name, node.op->kind);
  std::vector<std::string> known;
  for (const auto& [name, kind] : kinds) known.push_back(name);
  for (const auto& [name, annotation] : constraints.tensors) {
    const auto it = kinds.find(name);
    if (it == kinds.end())
      throw error("annotation of '{}': the network has no such operator or parameter{}", name,
                  near_operators(graph, name, known));
    const bool is_parameter = it->second == OpKind::parameter;
    if (is_parameter && (!annotation.in.empty() || annotation.out.size() != 1))
      throw error(
          "annotation of '{}': a parameter has no inputs; say how it lies with \"out\", a list of one entry",
          name);
    if (!is_parameter && annotation.in.empty() && !annotation.out.empty())
      throw error("annotation of '{}': needs \"in\" beside \"out\"", name);
  }
}

FixedChoices fixed_choices_of(const Graph& graph, const Constraints& constraints, int devices,
                              Parallel mode) {
  return ConstraintMaker(graph, constraints, devices, mode).make();
}

}  // namespace shardwright
