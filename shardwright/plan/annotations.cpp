// From annotations to constraints. Each annotated thing first becomes a split of loop dims over a device
// matrix of its own (LocalSplit); then all device matrices are refined to common meshes and the splits
// translated.

#include "shardwright/plan/annotations.h"

#include <algorithm>
#include <array>

#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

constexpr std::array<std::string_view, 4> mode_names{"stand_alone", "data_parallel", "semi_auto_parallel",
                                                     "auto_parallel"};

bool is_power_of_two(std::int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

/// Axes of one device matrix behind each loop dim (or, for data, behind each tensor dim).
struct LocalSplit {
  Mesh mesh;
  std::vector<Axes> loops;
};

/// How often each loop dim is split, or over which axes, learnt operand by operand.
class LoopSplits {
 public:
  LoopSplits(const Rule& rule, int devices, const std::optional<Mesh>& matrix)
      : rule_(rule),
        devices_(devices),
        matrix_(matrix),
        parts_(rule.loops.size(), 0),
        axes_(rule.loops.size()) {}

  void learn(const RuleTensor& tensor, const Shape& shape, const TensorSplit& split, std::string_view who) {
    const std::size_t count = split.is_by_axes ? split.axes.size() : split.parts.size();
    if (count == 0 && !tensor.is_sharded) return;
    if (count != shape.size())
      throw error("{} has {} dims but its strategy {} has {}", who, shape.size(), to_text(split), count);
    if (split.is_by_axes && !matrix_) throw error("axis names need a device matrix");
    Axes seen;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const Axes axes = split.is_by_axes ? named(split.axes[d], seen) : Axes{};
      const std::int64_t parts = split.is_by_axes ? matrix_->count(axes) : split.parts[d];
      check_parts(parts, shape[d], d, who, split.is_by_axes);
      if (tensor.is_sharded) learn_dim(tensor.dims[d], parts, axes, who, split.is_by_axes);
    }
  }

  LocalSplit finish(std::string_view strategy) const {
    if (matrix_) return {*matrix_, axes_};
    std::int64_t used = 1;
    for (std::int64_t p : parts_) used *= std::max<std::int64_t>(p, 1);
    if (used > devices_ || devices_ % used)
      throw error("strategy {} needs {} devices but there are {}{}", strategy, used, devices_,
                  used > devices_ ? "" : fmt::format(", which {} does not divide", used));
    LocalSplit out{{}, std::vector<Axes>(parts_.size())};
    for (std::size_t l = 0; l < parts_.size(); ++l) {
      if (parts_[l] < 2) continue;
      out.loops[l] = {out.mesh.axis_count()};
      out.mesh.axes.push_back({"", static_cast<int>(parts_[l])});
    }
    // Devices that the strategy leaves over repeat the work of their neighbours: one more axis at the right.
    if (used < devices_) out.mesh.axes.push_back({"", devices_ / static_cast<int>(used)});
    return out;
  }

 private:
  Axes named(const std::vector<std::string>& names, Axes& seen) const {
    Axes out;
    for (const std::string& name : names) {
      const int a = matrix_->axis(name);
      if (seen.contains(a)) throw error("axis '{}' is used twice for one tensor", name);
      seen.push_back(a);
      out.push_back(a);
    }
    return out;
  }

  void check_parts(std::int64_t parts, std::int64_t size, std::size_t d, std::string_view who,
                   bool is_by_axes) const {
    if (parts < 1) throw error("dim {} of {} is split into {}; parts start at 1", d, who, parts);
    if (!is_by_axes && is_power_of_two(devices_) && !is_power_of_two(parts))
      throw error(
          "dim {} of {} is split into {}, but with {} devices the number of parts must be a power of two", d,
          who, parts, devices_);
    if (size % parts)
      throw error("dim {} of {} has size {} and cannot be split evenly into {}", d, who, size, parts);
  }

  void learn_dim(const std::vector<int>& loops, std::int64_t parts, const Axes& axes, std::string_view who,
                 bool is_by_axes) {
    if (loops.size() == 1) {
      is_by_axes ? set_axes(loops[0], axes, who) : set_parts(loops[0], parts, who);
      return;
    }
    // A dim made of several loop dims is cut from the major one on.
    int next = 0;
    for (int l : loops) {
      const std::int64_t size = rule_.loops[at(l)].size;
      if (is_by_axes) {
        Axes taken;
        for (; next < axes.size() && size % (matrix_->count(taken) * matrix_->size_of(axes[next])) == 0;
             ++next)
          taken.push_back(axes[next]);
        set_axes(l, taken, who);
      } else {
        const std::int64_t taken = size % parts == 0 ? parts : parts % size == 0 ? size : 1;
        set_parts(l, taken, who);
        parts /= taken;
      }
    }
    if (is_by_axes ? next < axes.size() : parts > 1)
      throw error("a dim of {} is made of several ({}) and cannot be split so", who,
                  rule_.loops[at(loops[0])].name);
  }

  void set_parts(int loop, std::int64_t parts, std::string_view who) {
    std::int64_t& known = parts_[at(loop)];
    if (known != 0 && known != parts)
      throw error("dim {} is split into {} in an earlier input but into {} in {}", rule_.loops[at(loop)].name,
                  known, parts, who);
    known = parts;
  }

  void set_axes(int loop, const Axes& axes, std::string_view who) {
    if (parts_[at(loop)] != 0 && axes_[at(loop)] != axes)
      throw error("dim {} is split over {} in an earlier input but over {} in {}", rule_.loops[at(loop)].name,
                  shardwright::to_text(axes_[at(loop)], *matrix_), shardwright::to_text(axes, *matrix_), who);
    parts_[at(loop)] = 1;
    axes_[at(loop)] = axes;
  }

  const Rule& rule_;
  int devices_;
  const std::optional<Mesh>& matrix_;
  std::vector<std::int64_t> parts_;  // 0 = nothing said
  std::vector<Axes> axes_;
};

void check_matrix(const std::optional<Mesh>& matrix, int devices) {
  if (matrix && matrix->size() != devices)
    throw error("the device matrix has {} devices ({}) but there are {}", matrix->size(), to_text(*matrix),
                devices);
}

LocalSplit split_of_node(const Graph& graph, const Node& node, const Annotation& annotation, int devices) {
  check_matrix(annotation.device_matrix, devices);
  const Rule rule = rule_of(graph, node);
  if (annotation.in.size() > node.operands.size())
    throw error("has {} inputs but the strategy {} has {}", node.operands.size(), to_text(annotation.in),
                annotation.in.size());
  LoopSplits splits(rule, devices, annotation.device_matrix);
  for (std::size_t i = 0; i < annotation.in.size(); ++i)
    splits.learn(rule.operands[i], graph.value(node.operands[i]).type.shape, annotation.in[i],
                 fmt::format("input {}", i));
  LocalSplit out = splits.finish(to_text(annotation.in));
  const Strategy strategy{out.loops, std::vector<Axes>(rule.linear.size()), 0};
  if (const auto why = violation(rule, strategy, out.mesh))
    throw error("strategy {}: {}", to_text(annotation.in), *why);
  return out;
}

/// The data's splits, as one split per input on a common device matrix each.
std::vector<LocalSplit> splits_of_data(const Graph& graph, const Annotation& dataset, int devices) {
  check_matrix(dataset.device_matrix, devices);
  std::vector<LocalSplit> out;
  for (const Node& node : graph.nodes) {
    if (node.op->kind != OpKind::input) continue;
    const Value& v = graph.value(node.results.front());
    if (out.size() >= dataset.in.size())
      throw error("has {} entries but the network has more inputs (%{})", dataset.in.size(), v.name);
    const Rule rule = rule_of(graph, node);
    LoopSplits splits(rule, devices, dataset.device_matrix);
    splits.learn(rule.results[0], v.type.shape, dataset.in[out.size()], "input %" + v.name);
    out.push_back(splits.finish(to_text(dataset.in)));
  }
  if (out.size() < dataset.in.size())
    throw error("has {} entries but the network has {} inputs", dataset.in.size(), out.size());
  return out;
}

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

Axes translated(const Axes& axes, const std::vector<Axes>& axes_of) {
  Axes out;
  for (int a : axes) out = out.with(axes_of[at(a)]);
  return out;
}

/// The layout that `out` asks for: the result as it is, all-reduced, or reduce-scattered over dim 0.
Layout asked_result(const Rule& rule, const LocalSplit& split, const TensorSplit& out, const Shape& shape) {
  const Strategy strategy{split.loops, std::vector<Axes>(rule.linear.size()), 0};
  const Layout raw = layouts_of(rule, strategy).results[0];
  Layout reduced = raw;
  reduced.sum = reduced.max = {};
  Axes partial;  // in the order in which the reduced loop dims are split
  for (const Axes& axes : split.loops)
    for (int a : axes)
      if (raw.sum.contains(a)) partial.push_back(a);
  Layout scattered = reduced;
  if (!scattered.dims.empty()) scattered.dims[0] = scattered.dims[0].with(partial);

  const auto as_written = [&](const Layout& layout) {
    TensorSplit s;
    s.is_by_axes = out.is_by_axes;
    for (const Axes& axes : layout.dims) {
      s.parts.push_back(split.mesh.count(axes));
      auto& names = s.axes.emplace_back();
      for (int a : axes) names.push_back(split.mesh.axes[at(a)].name);
    }
    return s;
  };
  const auto is_asked = [&](const Layout& layout) {
    const TensorSplit s = as_written(layout);
    return out.is_by_axes ? s.axes == out.axes : s.parts == out.parts;
  };
  if (is_asked(reduced)) return reduced;
  const std::int64_t rows = shape.empty() ? 1 : shape[0];
  if (is_asked(scattered) && rows % split.mesh.count(scattered.dims[0]) == 0) return scattered;
  if (partial.empty())
    throw error("out strategy {} is not possible; the result comes out as {}", to_text(out),
                to_text(as_written(reduced)));
  throw error("out strategy {} is not possible; the result can be {} (all-reduce) or {} (reduce-scatter)",
              to_text(out), to_text(as_written(reduced)), to_text(as_written(scattered)));
}

/// Which dims of each value carry the batch: dim 0 of the inputs, and what rules make of it.
std::vector<std::vector<bool>> batch_dims(const Graph& graph) {
  std::vector<std::vector<bool>> is_batch(graph.values.size());
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::forward) break;
    for (ValueId v : node.results) is_batch[at(v.index)].assign(graph.value(v).type.shape.size(), false);
    if (node.op->kind == OpKind::input && !graph.value(node.results[0]).type.shape.empty())
      is_batch[at(node.results[0].index)][0] = true;
    if (node.op->kind != OpKind::compute) continue;
    const Rule rule = rule_of(graph, node);
    std::vector<bool> loops(rule.loops.size(), false);
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      for (std::size_t d = 0; d < rule.operands[i].dims.size(); ++d)
        if (is_batch[at(node.operands[i].index)][d] && !rule.operands[i].dims[d].empty())
          loops[at(rule.operands[i].dims[d][0])] = true;
    for (std::size_t i = 0; i < node.results.size(); ++i)
      for (std::size_t d = 0; d < rule.results[i].dims.size(); ++d)
        if (!rule.results[i].dims[d].empty() && loops[at(rule.results[i].dims[d][0])])
          is_batch[at(node.results[i].index)][d] = true;
  }
  return is_batch;
}

/// The split of the batch over all devices, or nothing at all where the batch does not divide.
Strategy batch_strategy(const Graph& graph, const Node& node, const std::vector<std::vector<bool>>& is_batch,
                        const Mesh& mesh) {
  const Rule rule = rule_of(graph, node);
  for (std::size_t i = 0; i < node.operands.size(); ++i)
    for (std::size_t d = 0; d < rule.operands[i].dims.size(); ++d) {
      if (!is_batch[at(node.operands[i].index)][d] || rule.operands[i].dims[d].empty()) continue;
      Strategy s = whole(rule);
      s.loops[at(rule.operands[i].dims[d][0])] = mesh.all_axes();
      if (!violation(rule, s, mesh)) return s;
    }
  return whole(rule);
}

class ConstraintMaker {
 public:
  ConstraintMaker(const Graph& graph, const Annotations& annotations, int devices, Parallel mode)
      : graph_(graph), annotations_(annotations), devices_(devices), mode_(mode) {
    out_.strategies.resize(graph.nodes.size());
    out_.reasons.resize(graph.nodes.size());
  }

  Constraints make() {
    const bool uses_annotations = mode_ == Parallel::semi_auto_parallel || mode_ == Parallel::auto_parallel;
    if (uses_annotations) collect_nodes();
    if (annotations_.dataset) collect_data();
    if (mode_ == Parallel::data_parallel && matrices_.empty()) check_batch();
    if (matrices_.empty()) matrices_.push_back(devices_ == 1 ? Mesh{} : Mesh{{{"dp", devices_}}});
    common_ = unify(matrices_);
    out_.meshes = common_.meshes;
    for (std::size_t i = 0; i < nodes_.size(); ++i) fix_node(i);
    fix_data();
    if (mode_ == Parallel::semi_auto_parallel) fix_rest();
    return std::move(out_);
  }

 private:
  void collect_nodes() {
    std::vector<std::string> known;
    std::map<std::string, NodeId> by_name;
    for (NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      if (node.op->kind != OpKind::compute || node.phase != Phase::forward) continue;
      known.push_back(graph_.name_of(id));
      by_name.emplace(known.back(), id);
    }
    for (const auto& [name, annotation] : annotations_.nodes)
      if (!by_name.contains(name))
        throw error("annotation of '{}': the network has no such operator{}", name,
                    near_operators(name, known));
    for (NodeId id : graph_.node_ids()) {  // in graph order, whatever the order of the file
      const auto it = annotations_.nodes.find(graph_.name_of(id));
      if (it == annotations_.nodes.end() || graph_.node(id).phase != Phase::forward || it->second.in.empty())
        continue;
      try {
        splits_.push_back(split_of_node(graph_, graph_.node(id), it->second, devices_));
      } catch (const Error& e) {
        throw with_context(e, it->first);
      }
      matrices_.push_back(splits_.back().mesh);
      nodes_.push_back(id);
    }
  }

  /// An input or a parameter is no operator: its first user is what the user can annotate.
  std::string near_operators(const std::string& name, const std::vector<std::string>& known) const {
    for (const Node& node : graph_.nodes)
      for (ValueId v : node.operands)
        if (graph_.value(v).name == name && graph_.node(graph_.value(v).producer).op->kind != OpKind::compute)
          return fmt::format("; it is an operand of {}", graph_.value(node.results.front()).name);
    return near_names(name, known);
  }

  void collect_data() {
    try {
      data_ = splits_of_data(graph_, *annotations_.dataset, devices_);
    } catch (const Error& e) {
      throw with_context(e, "dataset strategy " + to_text(annotations_.dataset->in));
    }
    for (const LocalSplit& s : data_) matrices_.push_back(s.mesh);
  }

  /// Data parallelism is asked for by name, so it never turns into something else silently.
  void check_batch() const {
    const auto batch = batch_of_data();
    if (batch && batch->second % devices_)
      throw error(
          "data_parallel: the batch of {} (%{}) cannot be split over {} devices; choose a --global-batch "
          "that is a multiple of {}",
          batch->second, batch->first, devices_, devices_);
  }

  /// Name and dim 0 of the first input that has dims.
  std::optional<std::pair<std::string, std::int64_t>> batch_of_data() const {
    for (const Node& node : graph_.nodes) {
      const Value& v = graph_.value(node.results.front());
      if (node.op->kind == OpKind::input && !v.type.shape.empty()) return {{v.name, v.type.shape[0]}};
    }
    return std::nullopt;
  }

  void fix_node(std::size_t i) {
    const NodeId id = nodes_[i];
    const Node& node = graph_.node(id);
    const Rule rule = rule_of(graph_, node);
    Strategy s = whole(rule);
    for (std::size_t l = 0; l < s.loops.size(); ++l)
      s.loops[l] = translated(splits_[i].loops[l], common_.axes_of[i]);
    s.mesh = used_axes(s).empty() ? 0 : common_.mesh_of[i];
    out_.strategies[at(id.index)] = s;
    out_.reasons[at(id.index)] = "annotated";
    const Annotation& annotation = annotations_.nodes.at(graph_.name_of(id));
    try {
      if (annotation.out.size() > 1)
        throw error("out strategy {} has {} entries but there is one result", to_text(annotation.out),
                    annotation.out.size());
      if (annotation.out.empty()) return;
      const Shape& shape = graph_.value(node.results[0]).type.shape;
      const Layout local = asked_result(rule, splits_[i], annotation.out[0], shape);
      out_.layouts[node.results[0]] = translate(local, common_.axes_of[i], common_.mesh_of[i]);
    } catch (const Error& e) {
      throw with_context(e, graph_.name_of(id));
    }
  }

  void fix_data() {
    std::size_t next = 0;
    for (const Node& node : graph_.nodes) {
      if (node.op->kind != OpKind::input) continue;
      const ValueId v = node.results.front();
      const Shape& shape = graph_.value(v).type.shape;
      Layout layout = replicated(shape.size());
      if (annotations_.dataset) {
        const std::size_t i = nodes_.size() + next;
        for (std::size_t d = 0; d < shape.size(); ++d)
          layout.dims[d] = translated(data_[next].loops[d], common_.axes_of[i]);
        layout.mesh = layout.used().empty() ? 0 : common_.mesh_of[i];
        ++next;
      } else if (annotations_.dataset_word == "data_parallel") {
        if (!shape.empty()) layout.dims[0] = out_.meshes[0].all_axes();
        if (!shape.empty() && shape[0] % devices_)
          throw error(
              "dataset strategy data_parallel: the batch of %{} is {} and cannot be split over {} devices",
              graph_.value(v).name, shape[0], devices_);
      } else if (annotations_.dataset_word.empty()) {
        continue;  // the data come as their first user wants them
      }
      out_.layouts[v] = layout;
    }
  }

  void fix_rest() {
    const auto is_batch = batch_dims(graph_);
    for (NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      auto& strategy = out_.strategies[at(id.index)];
      if (node.phase != Phase::forward || node.op->kind != OpKind::compute || strategy) continue;
      strategy = batch_strategy(graph_, node, is_batch, out_.meshes[0]);
      out_.reasons[at(id.index)] = used_axes(*strategy).empty() ? "not annotated, and no batch to split"
                                                                : "not annotated: the batch is split";
    }
  }

  const Graph& graph_;
  const Annotations& annotations_;
  int devices_;
  Parallel mode_;
  Constraints out_;
  std::vector<NodeId> nodes_;       // annotated
  std::vector<LocalSplit> splits_;  // of annotated nodes
  std::vector<LocalSplit> data_;    // of inputs
  std::vector<Mesh> matrices_;      // of annotated nodes, then of inputs
  CommonMeshes common_;
};

}  // namespace

std::string to_text(const TensorSplit& split) {
  std::string out = "(";
  const std::size_t count = split.is_by_axes ? split.axes.size() : split.parts.size();
  for (std::size_t d = 0; d < count; ++d) {
    if (d) out += ", ";
    if (!split.is_by_axes)
      out += fmt::format("{}", split.parts[d]);
    else if (split.axes[d].empty())
      out += "None";
    else if (split.axes[d].size() == 1)
      out += split.axes[d][0];
    else
      out += "(" + join(split.axes[d], ", ") + ")";
  }
  return out + (count == 1 ? ",)" : ")");
}

std::string to_text(const std::vector<TensorSplit>& splits) {
  std::string out = "(";
  for (std::size_t i = 0; i < splits.size(); ++i) out += (i ? ", " : "") + to_text(splits[i]);
  return out + (splits.size() == 1 ? ",)" : ")");
}

std::string_view name_of(Parallel mode) { return mode_names[static_cast<std::size_t>(mode)]; }

Parallel parallel_called(std::string_view name) {
  for (std::size_t i = 0; i < mode_names.size(); ++i)
    if (mode_names[i] == name) return static_cast<Parallel>(i);
  throw error(
      "parallel mode '{}' does not exist; there are stand_alone, data_parallel, semi_auto_parallel, "
      "auto_parallel",
      name);
}

Constraints constraints_of(const Graph& graph, const Annotations& annotations, int devices, Parallel mode) {
  return ConstraintMaker(graph, annotations, devices, mode).make();
}

}  // namespace shardwright
