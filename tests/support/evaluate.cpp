#include "tests/support/evaluate.h"

#include "shardwright/base/error.h"
#include "shardwright/ops/strided.h"

namespace shardwright {

namespace {

/// Operand `x` as it stands for every element of a tensor of shape `to`.
Tensor expanded(const TensorView& x, const Shape& to) {
  Tensor out({x.dtype, to});
  visit(x.dtype, [&]<class T>(std::type_identity<T>) {
    const ops::Walk<2> walk = ops::broadcast_walk(x.shape, to);
    const auto [n, strides] = walk.row();
    ops::for_each_row(walk, [&, n = n, step = strides[1]](const auto& at) {
      for (std::int64_t i = 0; i < n; ++i) out.as<T>().data()[at[0] + i] = x.as<T>().data()[at[1] + i * step];
    });
  });
  return out;
}

/// A point-wise call as one block.
void run_pointwise(const OpDef& op, const KernelCall& call) {
  std::vector<Type> operands, results;
  for (const TensorView& x : call.operands) operands.push_back({x.dtype, x.shape});
  for (const TensorView& y : call.results) results.push_back({y.dtype, y.shape});
  const std::int64_t count = call.results[0].size();
  if (count == 0) return;
  std::vector<Tensor> copies;
  std::vector<std::byte*> x, y;
  copies.reserve(call.operands.size());
  for (const TensorView& t : call.operands)
    x.push_back(t.size() == count ? t.data
                                  : copies.emplace_back(expanded(t, call.results[0].shape)).bytes().data());
  for (const TensorView& t : call.results) y.push_back(t.data);
  op.block({operands, results, call.attributes})({x, y, count});
}

}  // namespace

LoopBox whole_box(const Rule& rule) {
  LoopBox box;
  for (const LoopDim& l : rule.loops) box.loops.push_back({0, l.size, l.size});
  return box;
}

void run_kernel(const OpDef& op, const KernelCall& call) {
  if (op.block) return run_pointwise(op, call);
  require(op.kernel != nullptr, "{} has no kernel", op.name);
  if (!op.workspace) return op.kernel(call);
  std::vector<std::max_align_t> memory(
      static_cast<std::size_t>(op.workspace(call)) / sizeof(std::max_align_t) + 1);
  op.kernel({call.operands, call.results, call.attributes, call.rule, call.box,
             reinterpret_cast<std::byte*>(memory.data())});
}

std::vector<Tensor> run_kernel(const OpDef& op, std::span<const Tensor> operands,
                               std::span<const Type> results, const Attributes& attributes, const Rule& rule,
                               const LoopBox& box) {
  std::vector<Tensor> in(operands.begin(), operands.end());
  std::vector<Tensor> out;
  for (const Type& t : results) out.emplace_back(t);
  std::vector<TensorView> in_views, out_views;
  for (Tensor& t : in) in_views.push_back(t.view());
  for (Tensor& t : out) out_views.push_back(t.view());
  run_kernel(op, {in_views, out_views, attributes, rule, box});
  return out;
}

std::vector<Tensor> evaluate(const OpDef& op, std::span<const Tensor> operands,
                             const Attributes& attributes) {
  std::vector<Type> types;
  for (const Tensor& t : operands) types.push_back(t.type());
  const std::vector<Type> results = infer(op, {types, {}, attributes});
  const Rule rule = rule_of(op, {types, results, attributes});
  return run_kernel(op, operands, results, attributes, rule, whole_box(rule));
}

std::vector<Tensor> evaluate(const Graph& graph, const std::map<std::string, Tensor>& leaves) {
  std::vector<Tensor> values(graph.values.size());
  const auto at = [&](ValueId v) -> Tensor& { return values[static_cast<std::size_t>(v.index)]; };
  for (const Node& node : graph.nodes) {
    require(node.op->kind != OpKind::step, "a graph with redistribution steps cannot be evaluated");
    if (node.op->kind != OpKind::compute) {
      const Value& v = graph.value(node.results[0]);
      const auto leaf = leaves.find(v.name);
      if (leaf == leaves.end()) throw error("leaf %{} has no tensor", v.name);
      if (leaf->second.type() != v.type)
        throw error("leaf %{} is {} but its tensor is {}", v.name, to_text(v.type),
                    to_text(leaf->second.type()));
      at(node.results[0]) = leaf->second;
      continue;
    }
    std::vector<Tensor> operands;
    for (ValueId v : node.operands) operands.push_back(at(v));
    std::vector<Tensor> results = evaluate(*node.op, operands, node.attributes);
    for (std::size_t i = 0; i < results.size(); ++i) at(node.results[i]) = std::move(results[i]);
  }
  return values;
}

}  // namespace shardwright
