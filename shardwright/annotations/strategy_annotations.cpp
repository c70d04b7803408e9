#include "shardwright/annotations/strategy_annotations.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "shardwright/base/text.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

TensorSplit split_of(const MatrixLayout& layout) {
  TensorSplit out;
  out.is_by_axes = true;
  for (const Axes& axes : layout.dims) {
    auto& names = out.axes.emplace_back();
    for (const int axis : axes) names.push_back(layout.matrix.axes[static_cast<std::size_t>(axis)].name);
  }
  return out;
}

TensorSplit split_of(const std::vector<std::int64_t>& parts) {
  TensorSplit out;
  out.parts = parts;
  return out;
}

std::vector<TensorSplit> by_parts(const FileOperator& op) {
  std::vector<TensorSplit> out;
  for (const auto& parts : op.parts) out.push_back(split_of(parts));
  return out;
}

std::vector<std::vector<std::int64_t>> parts_of(const FileOperator& op) {
  if (op.in.empty()) return op.parts;
  std::vector<std::vector<std::int64_t>> out;
  for (const MatrixLayout& layout : op.in) out.push_back(layout.parts());
  return out;
}

Annotation annotation_of(const FileOperator& op) {
  Annotation out;
  if (op.in.empty()) {
    out.in = by_parts(op);
    return out;
  }
  FileOperator by_layout{.name = op.name, .parts = parts_of(op)};
  if (!op.parts.empty() && op.parts != by_layout.parts)
    throw error("operator '{}': its parts are {} but its layouts cut {}", op.name, to_text(by_parts(op)),
                to_text(by_parts(by_layout)));
  out.device_matrix = op.in.front().matrix;
  for (const MatrixLayout& layout : op.in) out.in.push_back(split_of(layout));
  return out;
}

/// By operator; none where there is one stage. Stages of an interleaved schedule have several turns.
/// Throws: Error if the file is of some stages only.
std::map<std::string, int> stages_of(const StrategyFile& file) {
  std::map<std::string, int> out;
  const int stages = file.stages();
  const auto says_stage = [](const FileParameter& p) { return p.names_stage; };
  if (stages == 1 && file.stage > 0 && std::ranges::none_of(file.parameters, says_stage))
    throw error("it is of stage {} alone (current_stage); merge the files of all stages", file.stage);
  if (stages == 1) return out;
  std::set<int> there;
  for (const FileOperator& op : file.operators) {
    out[op.name] = op.turn * stages + op.stage;
    there.insert(op.stage);
  }
  for (int s = 0; s < stages && !file.operators.empty(); ++s)
    if (!there.contains(s))
      throw error("it has operators of stage {} but none of stage {}; merge the files of all stages",
                  stages - 1, s);
  return out;
}

/// Names by what they are in `graph`.
struct Known {
  std::vector<std::string> operators, parameters;
  std::set<std::string> operator_set, parameter_set;

  explicit Known(const Graph& graph) {
    for (const Node& node : graph.nodes) {
      const std::string& name = graph.value(node.results.front()).name;
      if (node.op->kind == OpKind::parameter) parameters.push_back(name);
      if (node.op->kind == OpKind::compute && node.phase == Phase::forward) operators.push_back(name);
    }
    operator_set = {operators.begin(), operators.end()};
    parameter_set = {parameters.begin(), parameters.end()};
  }

  /// `moments.w` and `w.momentum` are of w; so is the count of steps, of the optimizer.
  bool is_state(const std::string& name) const {
    for (std::size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1))
      if (parameter_set.contains(name.substr(dot + 1)) || parameter_set.contains(name.substr(0, dot)))
        return true;
    return name.starts_with("optimizer");
  }
};

std::string and_others(const std::string& first, std::size_t others) {
  if (others == 0) return fmt::format("'{}'", first);
  return fmt::format("'{}' and {} other{}", first, others, others == 1 ? "" : "s");
}

void check_operators(const StrategyFile& file, const Known& known) {
  std::vector<std::string> unknown;
  for (const FileOperator& op : file.operators)
    if (!known.operator_set.contains(op.name)) unknown.push_back(op.name);
  if (unknown.empty()) return;
  if (unknown.size() == file.operators.size() && unknown.size() > 1)
    throw error("the network has none of its {} operators, as '{}'; the file is of another network",
                unknown.size(), unknown.front());
  throw error("operator '{}': the network has no such operator{}", unknown.front(),
              near_names(unknown.front(), known.operators));
}

void check_devices(const Mesh& matrix, int devices, std::string_view what, const std::string& name) {
  if (matrix.size() == devices) return;
  throw error("{} '{}' lies on {} devices ({}) but there are {}", what, name, matrix.size(), to_text(matrix),
              devices);
}

/// By axes: what cuts a dim, as (size, stride in ranks), major to minor, neighbours as one.
using Cuts = std::vector<std::pair<std::int64_t, std::int64_t>>;

Cuts cuts_of(const Mesh& matrix, const std::vector<std::string>& names) {
  Cuts out;
  for (const std::string& name : names) {
    const int axis = matrix.axis(name);
    const std::int64_t size = matrix.size_of(axis), stride = matrix.stride_of(axis);
    if (size == 1) continue;
    if (out.empty() || out.back().second != size * stride)
      out.emplace_back(size, stride);
    else
      out.back() = {out.back().first * size, stride};
  }
  return out;
}

/// One tensor's split, made comparable with that of another device matrix.
struct Compared {
  std::vector<std::int64_t> parts;
  std::vector<Cuts> cuts;  // per dim; none where only parts are said
  std::string text;        // by axes

  Compared(const Annotation& a, const TensorSplit& split) : parts(split.parts) {
    if (!split.is_by_axes) return;
    if (!a.device_matrix) throw error("axis names need a device matrix");
    for (const auto& names : split.axes) {
      cuts.push_back(cuts_of(*a.device_matrix, names));
      parts.push_back(1);
      for (const auto& [size, stride] : cuts.back()) parts.back() *= size;
    }
    text = fmt::format("{} over {}", to_text(split), to_text(*a.device_matrix));
  }
};

std::vector<Compared> compared(const Annotation& a, const std::vector<TensorSplit>& splits) {
  std::vector<Compared> out;
  for (const TensorSplit& split : splits) out.emplace_back(a, split);
  return out;
}

/// Of one tensor in the one and the other, if they differ, how; parts alone do not say which rank has which.
std::optional<std::pair<std::string, std::string>> difference(const Compared& theirs, const Compared& ours) {
  if (theirs.parts != ours.parts)
    return std::pair{to_text(split_of(theirs.parts)), to_text(split_of(ours.parts))};
  if (theirs.text.empty() || ours.text.empty() || theirs.cuts == ours.cuts) return std::nullopt;
  return std::pair{theirs.text, ours.text};
}

}  // namespace

Constraints annotations_of(const StrategyFile& file, const std::string& path) try {
  Constraints out;
  for (const FileOperator& op : file.operators) {
    Annotation said = annotation_of(op);
    if (said.in.empty()) continue;
    said.said_in = path;
    out.tensors[op.name] = std::move(said);
  }
  // A parameter that several stages read lies where the first of them has it.
  std::map<std::string, int> stage_of;
  for (const FileParameter& p : file.parameters) {
    const auto [it, is_new] = stage_of.emplace(p.name, p.stage);
    if (!is_new && it->second <= p.stage) continue;
    it->second = p.stage;
    out.tensors[p.name] = {
        .device_matrix = p.layout.matrix, .in = {}, .out = {split_of(p.layout)}, .said_in = path};
  }
  out.stages = stages_of(file);
  return out;
} catch (const Error& e) {
  throw with_context(e, path);
}

std::vector<std::string> states_in(const StrategyFile& file, const Graph& graph) {
  const Known known(graph);
  std::vector<std::string> out;
  for (const FileParameter& p : file.parameters)
    if (!known.parameter_set.contains(p.name)) out.push_back(p.name);
  return out;
}

std::vector<std::string> not_heeded(const StrategyFile& file, const Graph& graph) {
  const Known known(graph);
  const std::vector<std::string> states = states_in(file, graph);
  std::vector<std::string> sharded;
  for (const FileParameter& p : file.parameters)
    if (p.optimizer_shards != 1 && known.parameter_set.contains(p.name)) sharded.push_back(p.name);
  std::vector<std::string> out;
  if (!states.empty())
    out.push_back(
        fmt::format("the layout of state{} {} is not read: it follows from parameters and "
                    "--optimizer-parallel",
                    states.size() > 1 ? "s" : "", and_others(states.front(), states.size() - 1)));
  if (!sharded.empty())
    out.push_back(fmt::format("the optimizer's shards of {} are not read: --optimizer-parallel sets them",
                              and_others(sharded.front(), sharded.size() - 1)));
  return out;
}

void check_fits(const StrategyFile& file, const std::string& path, const Graph& graph,
                int devices_of_stage) try {
  const Known known(graph);
  check_operators(file, known);
  for (const FileOperator& op : file.operators)
    if (!op.in.empty()) check_devices(op.in.front().matrix, devices_of_stage, "operator", op.name);
  for (const FileParameter& p : file.parameters) {
    if (known.parameter_set.contains(p.name)) {
      check_devices(p.layout.matrix, devices_of_stage, "parameter", p.name);
      continue;
    }
    if (!known.is_state(p.name))
      throw error("parameter '{}': the network has no such parameter{}", p.name,
                  near_names(p.name, known.parameters));
  }
} catch (const Error& e) {
  throw with_context(e, path);
}

void check_agrees(const StrategyFile& file, const std::string& path, const Constraints& said,
                  const std::string& whose) {
  for (const auto& [name, own] : annotations_of(file, path).tensors) {
    const auto it = said.tensors.find(name);
    if (it == said.tensors.end()) continue;
    const Annotation& other = it->second;
    const bool is_parameter = own.in.empty();
    if (!is_parameter && !other.out.empty())
      throw error(
          "{} and --strategy {} both say how '{}' is split, and the one also what becomes of its result; "
          "take "
          "it out of one of them",
          whose, path, name);
    const std::vector<Compared> ours = compared(own, is_parameter ? own.out : own.in);
    std::vector<Compared> theirs;
    try {
      theirs = compared(other, is_parameter ? other.out : other.in);
    } catch (const Error& e) {
      throw with_context(with_context(e, name, name), whose);
    }
    for (std::size_t i = 0; i < std::min(theirs.size(), ours.size()); ++i)
      if (const auto differ = difference(theirs[i], ours[i]))
        throw error("{} and --strategy {} contradict each other: '{}' is {} in the one and {} in the other",
                    whose, path, name, differ->first, differ->second);
  }
}

}  // namespace shardwright
