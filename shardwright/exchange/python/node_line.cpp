#include "shardwright/exchange/python/node_line.h"

#include <algorithm>
#include <map>

#include "shardwright/base/index.h"
#include "shardwright/lower/program.h"

namespace shardwright {
namespace {

/// What a node's call is on each rank; ranks at equal coordinates of all axes that matter share one.
class OnRanks {
 public:
  OnRanks(const Graph& graph, const Node& node) : graph_(graph), node_(node) {
    calls_.reserve(at(graph.meshes[0].size()));
  }

  const KernelCall& operator()(int rank) {
    auto known = of_.find(key_of(rank));
    if (known != of_.end()) return kernel_calls_[known->second];
    of_.emplace(key_of(rank), calls_.size());
    calls_.push_back(local_call(graph_, node_, rank));
    kernel_calls_.reserve(calls_.capacity());
    kernel_calls_.push_back(calls_.back().call());
    return kernel_calls_.back();
  }

 private:
  std::vector<Box> key_of(int rank) const {
    std::vector<Box> out;
    const auto add = [&](ValueId v) { out.push_back(box_of(graph_, v, rank)); };
    std::ranges::for_each(node_.operands, add);
    std::ranges::for_each(node_.results, add);
    if (!node_.strategy) return out;
    const Mesh& mesh = graph_.meshes[at(node_.strategy->mesh)];
    for (const Axes& axes : node_.strategy->loops) out.push_back({{mesh.index_along(rank, axes)}, {}});
    return out;
  }
  struct Less {
    bool operator()(const std::vector<Box>& a, const std::vector<Box>& b) const {
      return std::ranges::lexicographical_compare(a, b, [](const Box& x, const Box& y) {
        return std::tie(x.offset, x.extent) < std::tie(y.offset, y.extent);
      });
    }
  };

  const Graph& graph_;
  const Node& node_;
  std::map<std::vector<Box>, std::size_t, Less> of_;
  std::vector<LocalCall> calls_;
  std::vector<KernelCall> kernel_calls_;
};

/// What stands behind a TorchCall.
class CallOfRanks {
 public:
  CallOfRanks(const Graph& graph, const Node& node, std::vector<std::string> operands, bool is_in_place)
      : from_(operand_types(graph, node)),
        to_(result_types(graph, node)),
        on_ranks_(graph, node),
        call{*node.op,
             {from_, to_, node.attributes},
             std::move(operands),
             graph.meshes[0],
             [this](int rank) -> const KernelCall& { return on_ranks_(rank); },
             is_in_place} {}
  CallOfRanks(const CallOfRanks&) = delete;
  CallOfRanks& operator=(const CallOfRanks&) = delete;

 private:
  std::vector<Type> from_, to_;
  OnRanks on_ranks_;

 public:
  const TorchCall call;
};

}  // namespace

std::string line_of(const Graph& graph, const Node& node, std::vector<std::string> operands, Engine engine,
                    bool is_in_place) {
  const CallOfRanks of(graph, node, std::move(operands), is_in_place);
  return engine == Engine::torch ? torch_line(of.call) : jax_line(of.call);
}

std::string joint_line_of(const Graph& graph, const JointForm& form, NamedCall call, NamedCall next) {
  const CallOfRanks first(graph, call.node, std::move(call.operands), false);
  const CallOfRanks second(graph, next.node, std::move(next.operands), false);
  return joint_line(form, first.call, second.call);
}

std::string line_of_whole(const Graph& graph, const Node& node, std::vector<std::string> operands) {
  const std::vector<Type> from = operand_types(graph, node), to = result_types(graph, node);
  const auto views = [](const std::vector<Type>& types) {
    std::vector<TensorView> out;
    for (const Type& t : types) out.push_back({t.dtype, t.shape});
    return out;
  };
  const std::vector<TensorView> operand_views = views(from), result_views = views(to);
  Attributes attributes = node.attributes;
  if (node.op->localize) attributes = node.op->localize({from, to, node.attributes});
  const Rule rule = rule_of(graph, node);
  LoopBox box;
  for (const LoopDim& loop : rule.loops) box.loops.push_back({0, loop.size, loop.size});
  const KernelCall whole{operand_views, result_views, attributes, rule, box};
  const Mesh one{{{"rank", 1}}};
  return jax_line(
      {*node.op, {from, to, node.attributes}, std::move(operands), one, [&](int) -> const KernelCall& {
         return whole;
       }});
}

}  // namespace shardwright
