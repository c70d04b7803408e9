#include "shardwright/annotations/local_split.h"

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

bool is_power_of_two(std::int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

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
                  used > devices_ ? "" : fmt::format(", which {} does not divide", used))
          .between({.key = "devices", .wanted = std::to_string(used), .given = std::to_string(devices_)});
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
      throw error("dim {} of {} has size {} and cannot be split evenly into {}", d, who, size, parts)
          .between({.key = fmt::format("dim {} of {}", d, who),
                    .wanted = std::to_string(parts),
                    .given = std::to_string(size)});
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
                  known, parts, who)
          .between({.key = rule_.loops[at(loop)].name,
                    .wanted = std::to_string(parts),
                    .given = std::to_string(known)});
    known = parts;
  }

  void set_axes(int loop, const Axes& axes, std::string_view who) {
    if (parts_[at(loop)] != 0 && axes_[at(loop)] != axes) {
      const std::string known = shardwright::to_text(axes_[at(loop)], *matrix_),
                        asked = shardwright::to_text(axes, *matrix_);
      throw error("dim {} is split over {} in an earlier input but over {} in {}", rule_.loops[at(loop)].name,
                  known, asked, who)
          .between({.key = rule_.loops[at(loop)].name, .wanted = asked, .given = known});
    }
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
                devices)
        .between(
            {.key = "devices", .wanted = std::to_string(matrix->size()), .given = std::to_string(devices)});
}

}  // namespace

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
  if (const auto why = violation_as_asked(rule, strategy, out.mesh))
    throw error("strategy {}: {}", to_text(annotation.in), *why);
  return out;
}

LocalSplit split_of_leaf(const Graph& graph, const Node& leaf, const Annotation& annotation, int devices,
                         std::string_view who) {
  check_matrix(annotation.device_matrix, devices);
  const Rule rule = rule_of(graph, leaf);
  LoopSplits splits(rule, devices, annotation.device_matrix);
  splits.learn(rule.results[0], graph.value(leaf.results[0]).type.shape, annotation.out.front(), who);
  return splits.finish(to_text(annotation.out));
}

std::vector<LocalSplit> splits_of_data(const Graph& graph, const Annotation& dataset, int devices) {
  std::vector<LocalSplit> out;
  for (const Node& node : graph.nodes) {
    if (node.op->kind != OpKind::input) continue;
    const std::string& name = graph.value(node.results.front()).name;
    if (out.size() >= dataset.in.size())
      throw error("has {} entries but the network has more inputs (%{})", dataset.in.size(), name);
    out.push_back(split_of_leaf(
        graph, node, {.device_matrix = dataset.device_matrix, .in = {}, .out = {dataset.in[out.size()]}},
        devices, "input %" + name));
  }
  if (out.size() < dataset.in.size())
    throw error("has {} entries but the network has {} inputs", dataset.in.size(), out.size());
  return out;
}

Layout asked_result(const Rule& rule, const LocalSplit& split, const TensorSplit& out, const Shape& shape) {
  const Strategy strategy{split.loops, std::vector<Axes>(rule.linear.size()), 0};
  const Layout raw = layouts_of(rule, strategy).results[0];
  const Layout all_reduced = reduced(raw);
  Axes partial;  // in the order in which the reduced loop dims are split
  for (const Axes& axes : split.loops)
    for (int a : axes)
      if (raw.sum.contains(a)) partial.push_back(a);
  Layout scattered = all_reduced;
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
  if (is_asked(all_reduced)) return all_reduced;
  const std::int64_t rows = shape.empty() ? 1 : shape[0];
  if (is_asked(scattered) && rows % split.mesh.count(scattered.dims[0]) == 0) return scattered;
  if (partial.empty())
    throw error("out strategy {} is not possible; the result comes out as {}", to_text(out),
                to_text(as_written(all_reduced)));
  throw error("out strategy {} is not possible; the result can be {} (all-reduce) or {} (reduce-scatter)",
              to_text(out), to_text(as_written(all_reduced)), to_text(as_written(scattered)));
}

}  // namespace shardwright
