#include "shardwright/runtime/odd_values.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

Tensor read(const TensorView& view, Backend& backend) {
  Tensor out({view.dtype, view.shape});
  backend.read(out.bytes(), view.data);
  return out;
}

/// What a forward of a stage has left, by value.
class Left {
 public:
  Left(const Executor& executor, Backend& backend, const Graph& graph, int stage, int micro_batch)
      : executor_(executor), backend_(backend), graph_(graph), stage_(stage), micro_batch_(micro_batch) {
    const std::size_t count = graph.values.size();
    overwritten_.resize(count);
    std::vector<std::size_t> written;  // values in memory, in the order of their nodes
    for (const Node& node : graph.nodes) {
      if (!is_of_forward(node)) continue;
      for (ValueId v : node.results) {
        const TensorView own = view(v);
        if (!own.data) continue;
        for (std::size_t before : written)
          if (overlap(own, view({static_cast<int>(before)}))) overwritten_[before] = true;
        std::erase_if(written, [&](std::size_t before) { return overwritten_[before]; });
        written.push_back(at(v.index));
      }
    }
  }

  static bool is_leaf(const Node& node) {
    return node.op->kind == OpKind::input || node.op->kind == OpKind::parameter ||
           node.op->kind == OpKind::state;
  }
  static bool is_of_forward(const Node& node) {
    return is_leaf(node) || (node.phase == Phase::forward && node.op->kind != OpKind::accumulator);
  }

  bool is_there(ValueId v) const { return view(v).data && !overwritten_[at(v.index)]; }
  /// It is there, and holds NaN, or infinity above zero.
  bool is_odd(ValueId v) const {
    const TensorView own = view(v);
    if (!is_there(v) || !is_floating(own.dtype)) return false;
    return std::ranges::any_of(to_doubles(read(own, backend_)),
                               [](double x) { return std::isnan(x) || x == INFINITY; });
  }

 private:
  TensorView view(ValueId v) const { return executor_.view(stage_, v, micro_batch_); }
  static bool overlap(const TensorView& a, const TensorView& b) {
    const auto end = [](const TensorView& t) {
      return t.data + t.size() * static_cast<std::int64_t>(size_of(t.dtype));
    };
    return a.data < end(b) && b.data < end(a);
  }

  const Executor& executor_;
  Backend& backend_;
  const Graph& graph_;
  int stage_, micro_batch_;
  std::vector<bool> overwritten_;
};

std::string words_of(const Graph& graph, const Node& node) {
  return fmt::format("%{} = {}", graph.value(node.results.front()).name, node.op->name);
}

/// `, or what it was computed from and is overwritten: %a = matmul, %b = add`: back to what is still there, which is finite.
std::string suspects_of(const Graph& graph, const Left& left, const Node& node) {
  std::set<int> found;
  std::vector<const Node*> open{&node};
  while (!open.empty()) {
    const Node& last = *open.back();
    open.pop_back();
    for (ValueId v : last.operands) {
      const NodeId producer = graph.value(v).producer;
      if (!left.is_there(v) && found.insert(producer.index).second) open.push_back(&graph.node(producer));
    }
  }
  if (found.empty()) return "";
  constexpr std::size_t most = 4;
  std::vector<std::string> names;
  for (int n : found)
    if (names.size() < most) names.push_back(words_of(graph, graph.node({n})));
  return fmt::format(" (or what it was computed from, which is overwritten: {}{})", fmt::join(names, ", "),
                     found.size() > most ? fmt::format(" and {} more", found.size() - most) : "");
}

std::string name_of_leaf(const Node& node, const std::string& value) {
  if (node.op->kind == OpKind::parameter) return fmt::format("parameter '{}'", value);
  if (node.op->kind == OpKind::state) return fmt::format("state '{}'", value);
  return fmt::format("'{}'", value);
}

}  // namespace

std::optional<OddValue> first_odd_value(const Executor& executor, Backend& backend, const Pipeline& pipeline,
                                        int stage, int micro_batch) {
  using From = OddValue::From;
  const Graph& graph = pipeline.stage(stage).graph;
  const Left left(executor, backend, graph, stage, micro_batch);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!Left::is_of_forward(node)) continue;
    const auto odd = std::ranges::find_if(node.results, [&](ValueId v) { return left.is_odd(v); });
    if (odd == node.results.end()) continue;
    const std::string& name = graph.value(*odd).name;
    OddValue out{.stage = stage, .node = static_cast<int>(n), .micro_batch = micro_batch};
    if (Left::is_leaf(node)) {
      out.from = node.op->kind == OpKind::input ? From::input : From::parameter;
      out.what = name_of_leaf(node, name);
      return out;
    }
    out.what = fmt::format("%{} = {}{}", name, node.op->name, suspects_of(graph, left, node));
    if (node.op->kind != OpKind::compute) out.from = From::transfer;
    return out;
  }
  return std::nullopt;
}

bool is_odd_scalar(const TensorView& view, Backend& backend) {
  return view.data && view.size() == 1 && is_floating(view.dtype) &&
         !std::isfinite(to_doubles(read(view, backend)).front());
}

}  // namespace shardwright
