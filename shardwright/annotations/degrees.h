// Degrees of parallelism instead of annotations: how an expert says a split, `dp=4, tp=2`, turned into the strategies of
// all operators.
//
// The batch is split over `dp` wherever it goes. Over `tp` a rule reads off the graph what Megatron's authors wrote into
// their modules (Shoeybi et al., 2019; Korthikanti et al., 2022), so it holds for imported networks, too:
//
//   a product with a parameter of a value that is whole over tp      by columns: the parameter's own dim
//   an operator that reads what is split over tp                     as that is: heads, inner features, classes; of a
//                                                                    product whose summed dim it is, by rows
//   rows of a table (embedding)                                      by vocabulary: the table's dim
//   all else                                                         repeated, or with `sequence` by the sequence
//
// Over `cp` all that has a sequence is split by it. Attention asks keys of the whole sequence (a dim that goes round,
// layout/rule.h): it gets them as ContextWay says. ../../docs/long-context.md tells which.
//
// By `batch_shares` replicas have unequal shares of the batch, those on faster devices more.
//
// What dp or tp does not divide is cut unevenly, runs of what stays together at once (grains.h); a dim with fewer of them than
// tp stays whole. Where there are fewer heads of keys than tp, those devices that share one work repeat its products: tp
// becomes two axes.
#pragma once

#include "shardwright/annotations/fixed_choices.h"
#include "shardwright/graph/calls.h"
#include "shardwright/plan/constraints.h"

namespace shardwright {

/// The strategies of all forward operators of `graph`, a network or a stage of it, by the degrees dp, cp and tp of `constraints`
/// its sequence_parallel, its context and its operators. Axes: dp, within it cp, and within that tp.
/// Where tp splits nothing they say so: another stage may have more.
/// `has_equal_parts`: nothing is cut unevenly. Throws: Error if data cannot be split over dp. Cost: O(nodes), or as many times as tp becomes more axes.
FixedChoices fixed_choices_of(const Graph& graph, const Calls& calls, const Constraints& constraints,
                              bool has_equal_parts = false);

}  // namespace shardwright
