#include "shardwright/search/recursive/cut_seconds.h"

#include <algorithm>

#include "shardwright/base/index.h"

namespace shardwright::recursive {
namespace {

/// A part goes on as along the axis before, unless another way is worth it: plans on fewer axes are easier to read, and
/// redistribute in fewer steps than are priced here. In shares of the part's work.
double change(const CutPart& part, int loop) {
  constexpr double share = 0.05;
  const bool goes_on =
      loop == no_loop_dim ? used_axes(part.strategy).empty() : !part.strategy.loops[at(loop)].empty();
  return goes_on ? 0 : share;
}

/// What a collective pays once, however many axes it runs over.
double start_of(const AxisLevel& level) {
  double start = 0;
  for (const GroupLink& g : level.group) start = std::max(start, g.link.start_seconds);
  return start;
}

}  // namespace

MovePrices CutSeconds::moves(double bytes, const AxisLevel& level) const {
  const double n = level.halving.parts, whole = bytes / level.inner;
  const auto seconds = [&](StepKind kind, double held) {
    return collective_seconds(kind, held, level.group);
  };
  return {.all_reduce = seconds(StepKind::all_reduce, whole),
          .reduce_scatter = seconds(StepKind::reduce_scatter, whole),
          .all_gather = seconds(StepKind::all_gather, whole),
          .all_to_all = seconds(StepKind::all_to_all, whole / n),
          .slice = whole / n * 2 / cluster().memory_bytes_per_second,  // a copy of one's own part
          .reorder = seconds(StepKind::permute, whole / n),
          .start = start_of(level)};
}

double CutSeconds::reduce(const CutProblem& problem, const CutValue& v, Cut gradient, const AxisLevel& level,
                          Joined joined) const {
  if (gradient != partial_cut) return 0;
  const CutUse& owner = v.uses.front();
  // Of a table that is updated by rows, each device that keeps them gets those of the others.
  if (const double bytes = row_bytes(v.example); bytes > 0) {
    const Graph& graph = problem.graph();
    const Type& looked_up = graph.value(graph.node(problem.part(owner.part).example).results[0]).type;
    const double own =
        problem.result_elements(owner.part, 0) / static_cast<double>(element_count(looked_up.shape));
    return moves(bytes * own, level).all_gather;
  }
  return moves(problem.operand_elements(owner.part, owner.operand) * reduced_bytes(v.example), level)
      .of(partial_cut, not_cut, joined);
}

CutPrices CutSeconds::prices(const CutProblem& problem, const AxisLevel& level,
                             const CutWeights& weights) const {
  return {.axis = level.halving.axis,
          .own =
              [this, &problem, level, weights](int part, int loop) {
                const double work = compute(problem, part, loop, level);
                const double seconds =
                    work * (level.halving.axis == 0 ? 1 : 1 + change(problem.part(part), loop));
                return weights.memory > 0
                           ? seconds + weights.memory * memory(problem, part, loop, level).all()
                           : seconds;
              },
          .moves = [this, level](double bytes) { return moves(bytes, level); },
          .reduce =
              [this, &problem, level, weights](const CutValue& v, Cut gradient, Joined joined) {
                return weights.gradients * reduce(problem, v, gradient, level, joined);
              },
          .is_followed = [](const CutValue&) { return false; }};
}

}  // namespace shardwright::recursive
