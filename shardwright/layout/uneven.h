// Uneven cuts: a dim of 10 over 8 ranks. Searches over strategies cut what operators compute evenly, so that ranks have the
// same to do; what optimizer parallelism shares among replicas is cut whether it divides or not, and then its update too;
// and degrees (`dp=7`, `tp=6`) are taken where some ranks have a sample or a head more than others.
//
// Kernels compute the boxes that they are given, so a loop dim may be cut so that is alone behind each dim that it is in, without
// a window, as long as each rank has a part of it; an update may have nothing to do. Where it is the major part of a dim,
// `(h d)`, or all in front of it are cut down to 1, what is minor stays together: its axes say so (`h: tp/1`), and those of the
// dim that it makes (`[tp/128]`).
#pragma once

#include <optional>
#include <string>

#include "shardwright/layout/strategy.h"

namespace shardwright {

/// Whether `strategy` may cut this loop dim though its axes do not divide it.
bool may_be_cut_unevenly(const Rule& rule, const Strategy& strategy, const Mesh& mesh, int loop);

/// As `violation`, of what ranks are to have alike.
std::optional<std::string> violation_if_even(const Rule& rule, const Strategy& strategy, const Mesh& mesh);

/// Which of the loop dims behind a dim `axes` cut that do not divide it, and the axes as they cut it; nothing where they divide
/// the dim, or its runs are not what is minor to one of them.
struct LoopCut {
  int loop = -1;
  Axes axes;
};
std::optional<LoopCut> uneven_cut(const Rule& rule, const std::vector<int>& loops, const Axes& axes,
                                  const Mesh& mesh);

/// `layout` cuts dim `d` of a tensor of `shape` unevenly.
bool is_cut_unevenly(const Layout& layout, const Mesh& mesh, const Shape& shape, std::size_t d);

}  // namespace shardwright
