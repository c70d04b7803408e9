#include "tests/support/sharded_call.h"

#include "shardwright/layout/sharded_tensor.h"
#include "tests/support/evaluate.h"
#include "tests/support/samples.h"

namespace shardwright {
namespace {

/// What each rank holds of `whole`; over the axes of a partial sum, random addends.
std::vector<Tensor> spread(const Tensor& whole, const Layout& layout, const Mesh& mesh, std::uint64_t seed) {
  if (layout.sum.empty()) return split(whole, layout, mesh);
  std::vector<Tensor> addends;
  Tensor first = whole;
  for (int k = 1; k < mesh.count(layout.sum); ++k) {
    addends.push_back(
        draw({{{whole.type()}}, {}}, Values::integers, seed + static_cast<std::uint64_t>(k))[0]);
    first = sum_of(first, addends.back(), -1);
  }
  addends.insert(addends.begin(), first);
  std::vector<Tensor> parts;
  for (int r = 0; r < mesh.size(); ++r)
    parts.push_back(take(addends[static_cast<std::size_t>(mesh.index_along(r, layout.sum))],
                         box(layout, mesh, whole.shape(), r)));
  return parts;
}

}  // namespace

std::vector<RankCall> calls_on_ranks(const OpDef& op, const Rule& rule, const Strategy& strategy,
                                     const Mesh& mesh, const std::vector<Tensor>& in,
                                     const Attributes& attributes) {
  const NodeLayouts layouts = layouts_of(rule, strategy);
  const std::vector<Type> whole_types = infer(op, {types_of(in), {}, attributes});
  std::vector<std::vector<Tensor>> held;  // [operand][rank]
  for (std::size_t i = 0; i < in.size(); ++i)
    held.push_back(spread(in[i], layouts.operands[i], mesh, 100 * (i + 1)));
  std::vector<RankCall> calls;
  for (int r = 0; r < mesh.size(); ++r) {
    RankCall& call = calls.emplace_back();
    for (const auto& parts : held) call.operands.push_back(parts[static_cast<std::size_t>(r)]);
    std::vector<Type> results = whole_types;
    for (std::size_t i = 0; i < results.size(); ++i)
      results[i].shape = box(layouts.results[i], mesh, whole_types[i].shape, r).extent;
    const std::vector<Type> types = types_of(call.operands);
    call.attributes = op.localize ? op.localize({types, results, attributes}) : attributes;
    call.box = loop_box(rule, strategy, mesh, r);
    call.results = run_kernel(op, call.operands, results, call.attributes, rule, call.box);
  }
  return calls;
}

std::vector<std::vector<Tensor>> run_on_ranks(const OpDef& op, const Rule& rule, const Strategy& strategy,
                                              const Mesh& mesh, const std::vector<Tensor>& in,
                                              const Attributes& attributes) {
  std::vector<std::vector<Tensor>> made;
  for (RankCall& call : calls_on_ranks(op, rule, strategy, mesh, in, attributes)) {
    made.resize(call.results.size());
    for (std::size_t i = 0; i < made.size(); ++i) made[i].push_back(std::move(call.results[i]));
  }
  return made;
}

Tensor sum_of(const Tensor& a, const Tensor& b, double sign) {
  std::vector<double> x = to_doubles(a);
  const std::vector<double> y = to_doubles(b);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += sign * y[i];
  return make_tensor(a.type(), x);
}

}  // namespace shardwright
