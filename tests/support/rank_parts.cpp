#include "tests/support/rank_parts.h"

#include <algorithm>

#include "shardwright/layout/sharded_tensor.h"
#include "tests/support/evaluate.h"

namespace shardwright {

void for_each_rank_part(const OpDef& op, const Sample& sample,
                        const std::function<void(const RankPart&)>& use, int ranks) {
  const std::vector<Tensor> in = draw(sample, Values::integers, 1);
  const std::vector<Type> types = types_of(in), whole = infer(op, {types, {}, sample.attributes});
  const Rule rule = rule_of(op, {types, whole, sample.attributes});
  for (const Mesh& mesh :
       {Mesh{{{"a", 1}}}, Mesh{{{"a", 2}}}, Mesh{{{"a", 3}}}, Mesh{{{"a", 2}, {"b", 2}}}}) {
    if (mesh.size() > ranks) continue;
    for (const Strategy& strategy : legal_strategies(rule, mesh)) {
      const NodeLayouts layouts = layouts_of(rule, strategy);
      const bool is_split =
          std::any_of(strategy.loops.begin(), strategy.loops.end(), [](const Axes& a) { return !a.empty(); });
      for (int r = 0; r < (is_split ? mesh.size() : 1); ++r) {
        RankPart part{.where = fmt::format("{} {} rank {}", to_text(mesh), to_text(strategy, rule, mesh), r),
                      .rule = rule,
                      .loops = loop_box(rule, strategy, mesh, r)};
        for (std::size_t i = 0; i < in.size(); ++i)
          part.operands.push_back(take(in[i], box(layouts.operands[i], mesh, in[i].shape(), r)));
        for (std::size_t i = 0; i < whole.size(); ++i)
          part.results.push_back({whole[i].dtype, box(layouts.results[i], mesh, whole[i].shape, r).extent});
        part.attributes = op.localize
                              ? op.localize({types_of(part.operands), part.results, sample.attributes})
                              : sample.attributes;
        use(part);
      }
    }
  }
}

std::vector<Tensor> reference(const OpDef& op, const RankPart& part) {
  return run_kernel(op, part.operands, part.results, part.attributes, part.rule, part.loops);
}

}  // namespace shardwright
