// Uneven cuts: a dim of 10 over 8 ranks. Plans cut what operators compute evenly, so that ranks have the same to do;
// but what optimizer parallelism shares among replicas is cut whether it divides or not, and then its update too.
//
// Kernels compute the boxes that they are given, so an operator may be cut unevenly whose rule says that a part is
// computed from the same part: where one operand has all loop dims, each a dim of its own, without windows.
#pragma once

#include <optional>
#include <string>

#include "shardwright/layout/strategy.h"

namespace shardwright {

/// Whether an operator of this rule computes any part of its loop dims from its operands' same parts.
bool may_be_cut_unevenly(const Rule& rule);

/// As `violation`, but of such a rule uneven cuts are none.
std::optional<std::string> violation_but_uneven(const Rule& rule, const Strategy& strategy, const Mesh& mesh);

/// `layout` cuts dim `d` of a tensor of `shape` unevenly.
bool is_cut_unevenly(const Layout& layout, const Mesh& mesh, const Shape& shape, std::size_t d);

}  // namespace shardwright
