#include "shardwright/layout/strategy.h"

#include "shardwright/base/index.h"
#include "shardwright/layout/rule_dims.h"
#include "shardwright/layout/uneven.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>

namespace shardwright {
namespace {

/// Axes over which a tensor is partial because loop dims of `kind` are missing in it. Over those that shard it it is not:
/// there one of the dims goes round.
Axes missing_axes(const Rule& rule, const Strategy& strategy, const RuleTensor& tensor, bool of_max) {
  Axes out;
  for (std::size_t l = 0; l < rule.loops.size(); ++l) {
    if ((rule.loops[l].kind == LoopKind::max) != of_max) continue;
    if (!has_loop(tensor, static_cast<int>(l))) out = out.with(strategy.loops[l]);
  }
  if (out.empty()) return out;
  for (const auto& loops : tensor.dims)
    for (int l : loops) out = out.without(strategy.loops[at(l)]);
  return out;
}

Layout sharded_layout(const Rule& rule, const RuleTensor& tensor, const Strategy& strategy) {
  Layout out;
  out.mesh = strategy.mesh;
  for (const auto& loops : tensor.dims) {
    Axes axes;
    std::int64_t together = 0;  // elements of what is minor to a loop that is cut unevenly
    bool is_by_shares = false;
    for (int l : loops) {
      const Axes& of_loop = strategy.loops[at(l)];
      axes = axes.with(of_loop);
      together = of_loop.grain() > 0 ? of_loop.grain() : together * rule.loops[at(l)].size;
      is_by_shares = is_by_shares || of_loop.is_by_shares();
    }
    out.dims.push_back(axes.of_grain(together > 1 ? together : 0).by_shares(is_by_shares));
  }
  for (std::size_t d = 0; d < tensor.windows.size(); ++d) {
    if (tensor.windows[d].loop == 0 || out.dims[d].empty()) continue;
    out.windows.resize(out.dims.size());
    out.windows[d] = tensor.windows[d];
  }
  return out;
}

Layout normal(Layout layout) {
  if (layout.used().empty()) layout.mesh = 0;
  return layout;
}

/// A dim with a window is held in even parts too, and every part reads something.
std::optional<std::string> window_violation(const Rule& rule, const Strategy& s, const Mesh& mesh,
                                            const RuleTensor& tensor) {
  for (std::size_t d = 0; d < tensor.windows.size(); ++d) {
    const Window& w = tensor.windows[d];
    if (w.loop == 0) continue;
    const LoopDim& dim = rule.loops[at(tensor.dims[d].front())];
    const int parts = mesh.count(s.loops[at(tensor.dims[d].front())]);
    if (tensor.shape[d] % parts)
      return fmt::format("dim {} reads a dim of size {}, which cannot be split evenly into {}", dim.name,
                         tensor.shape[d], parts);
    for (int i = 0; parts > 1 && i < parts; ++i)
      if (const Range r = w.of(tensor.shape[d], parts, i); r.begin == r.end)
        return fmt::format("dim {} split into {} leaves a part that reads nothing", dim.name, parts);
      else if (r.end > tensor.shape[d])
        return fmt::format("dim {} split into {} leaves a part that reads around the end", dim.name, parts);
  }
  return std::nullopt;
}

/// In `(h d)`, d may be cut only if h is cut down to 1.
std::optional<std::string> group_violation(const Rule& rule, const Strategy& s, const Mesh& mesh,
                                           const RuleTensor& tensor) {
  for (const auto& loops : tensor.dims) {
    bool is_cut_down = true;
    for (int l : loops) {
      const LoopDim& dim = rule.loops[at(l)];
      if (!s.loops[at(l)].empty() && !is_cut_down)
        return fmt::format("dim {} can be split only when the dims before it are split down to 1", dim.name);
      is_cut_down = is_cut_down && mesh.count(s.loops[at(l)]) == dim.size;
    }
  }
  return std::nullopt;
}

}  // namespace

Strategy whole(const Rule& rule) {
  return {std::vector<Axes>(rule.loops.size()), std::vector<Axes>(rule.linear.size()), 0};
}

NodeLayouts layouts_of(const Rule& rule, const Strategy& strategy) {
  NodeLayouts out;
  for (std::size_t i = 0; i < rule.operands.size(); ++i) {
    Layout layout = sharded_layout(rule, rule.operands[i], strategy);
    for (std::size_t g = 0; g < rule.linear.size(); ++g)
      if (std::find(rule.linear[g].begin(), rule.linear[g].end(), static_cast<int>(i)) !=
          rule.linear[g].end())
        layout.sum = layout.sum.with(strategy.linear[g]);
    layout.sum = layout.sum.sorted();
    out.operands.push_back(normal(std::move(layout)));
  }
  for (const RuleTensor& tensor : rule.results) {
    Layout layout = sharded_layout(rule, tensor, strategy);
    layout.sum = missing_axes(rule, strategy, tensor, false);
    layout.max = missing_axes(rule, strategy, tensor, true).sorted();
    for (const Axes& axes : strategy.linear) layout.sum = layout.sum.with(axes);
    layout.sum = layout.sum.sorted();
    out.results.push_back(normal(std::move(layout)));
  }
  return out;
}

namespace {

bool is_even(const LoopDim& dim, const Axes& axes, const Mesh& mesh) {
  return !axes.is_by_shares() && are_parts_equal(axes, mesh, dim.size);
}

std::optional<std::string> violation_of(const Rule& rule, const Strategy& strategy, const Mesh& mesh,
                                        bool may_be_uneven) {
  if (strategy.loops.size() != rule.loops.size() || strategy.linear.size() != rule.linear.size())
    return fmt::format("the strategy is for {} loop dims but the operator has {}", strategy.loops.size(),
                       rule.loops.size());
  Axes seen;
  for (const auto* side : {&strategy.loops, &strategy.linear})
    for (const Axes& axes : *side)
      for (int a : axes) {
        if (a >= mesh.axis_count()) return fmt::format("there is no axis {} in {}", a, to_text(mesh));
        if (seen.contains(a)) return fmt::format("axis '{}' is used twice", mesh.axes[at(a)].name);
        seen.push_back(a);
      }
  for (std::size_t l = 0; l < rule.loops.size(); ++l) {
    const LoopDim& dim = rule.loops[l];
    const int parts = mesh.count(strategy.loops[l]);
    if (parts > 1 && dim.stays_whole())
      return fmt::format("dim {} (size {}) must stay whole but is split into {}", dim.name, dim.size, parts);
    const Axes& axes = strategy.loops[l];
    if (axes.grain() > 1 && dim.size % axes.grain())
      return fmt::format("dim {} of size {} is not made of runs of {}", dim.name, dim.size, axes.grain());
    if (!is_even(dim, axes, mesh) &&
        !(may_be_uneven && may_be_cut_unevenly(rule, strategy, mesh, static_cast<int>(l))))
      return fmt::format("dim {} of size {} cannot be split evenly into {}", dim.name, dim.size, parts);
  }
  for (const auto* side : {&rule.operands, &rule.results})
    for (const RuleTensor& tensor : *side)
      if (auto why = group_violation(rule, strategy, mesh, tensor)) return why;
  for (const RuleTensor& tensor : rule.operands)
    if (auto why = window_violation(rule, strategy, mesh, tensor)) return why;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> violation(const Rule& rule, const Strategy& strategy, const Mesh& mesh) {
  return violation_of(rule, strategy, mesh, true);
}

std::optional<std::string> violation_if_even(const Rule& rule, const Strategy& strategy, const Mesh& mesh) {
  return violation_of(rule, strategy, mesh, false);
}

bool needs_expansion(const Rule& rule, const Strategy& strategy) {
  for (std::size_t l = 0; l < std::min(rule.loops.size(), strategy.loops.size()); ++l)
    if (rule.loops[l].kind >= LoopKind::expandable && !strategy.loops[l].empty()) return true;
  return false;
}

namespace {

/// Of what goes round in `strategy`.
std::optional<std::string> round_violation(const Rule& rule, const Strategy& strategy, const Mesh& mesh,
                                           std::size_t round) {
  const Axes& axes = strategy.loops[round];
  const LoopDim& dim = rule.loops[round];
  if (dim.size % mesh.count(axes))
    return fmt::format("dim {} of size {} cannot be split evenly into {}", dim.name, dim.size,
                       mesh.count(axes));
  for (std::size_t l = 0; l < rule.loops.size(); ++l) {
    if (l == round || strategy.loops[l] != axes) continue;
    for (const auto* side : {&rule.operands, &rule.results})
      for (const RuleTensor& tensor : *side)
        if (has_loop(tensor, static_cast<int>(round)) && has_loop(tensor, static_cast<int>(l)))
          return fmt::format("dims {} and {} cannot be split alike: one tensor has both", rule.loops[l].name,
                             dim.name);
    return std::nullopt;
  }
  return fmt::format("dim {} must stay whole where no other dim is split over its axes", dim.name);
}

}  // namespace

std::optional<std::string> violation_as_asked(const Rule& rule, const Strategy& strategy, const Mesh& mesh) {
  if (!needs_expansion(rule, strategy)) return violation(rule, strategy, mesh);
  Rule freed = rule;
  Strategy others = strategy;
  for (std::size_t l = 0; l < rule.loops.size(); ++l) {
    if (rule.loops[l].kind == LoopKind::expandable) freed.loops[l].kind = LoopKind::plain;
    if (rule.loops[l].kind != LoopKind::round || l >= strategy.loops.size() || strategy.loops[l].empty())
      continue;
    if (auto why = round_violation(rule, strategy, mesh, l)) return why;
    others.loops[l] = {};
  }
  for (std::size_t l = 0; l < rule.loops.size(); ++l)
    if (rule.loops[l].kind >= LoopKind::expandable && !strategy.loops[l].empty())
      for (const Axes& partial : strategy.linear)
        if (!partial.empty())
          return fmt::format("dim {} must stay whole where operands are partial", rule.loops[l].name);
  return violation(freed, others, mesh);
}

namespace {

/// One operand has all loop dims, each a dim of its own, as updates do: where a rank has nothing of it there is nothing to do.
bool may_have_empty_parts(const Rule& rule) {
  const auto is_plain = [](const RuleTensor& tensor) {
    return tensor.shape.empty() &&  // it never had windows
           std::ranges::all_of(tensor.dims, [](const auto& loops) { return loops.size() <= 1; });
  };
  const auto has_all = [&](const RuleTensor& tensor) {
    std::set<int> loops;
    for (const auto& dim : tensor.dims) loops.insert(dim.begin(), dim.end());
    return loops.size() == rule.loops.size();
  };
  return std::ranges::all_of(rule.operands, is_plain) && std::ranges::all_of(rule.results, is_plain) &&
         std::ranges::any_of(rule.operands, has_all);
}

}  // namespace

bool may_be_cut_unevenly(const Rule& rule, const Strategy& strategy, const Mesh& mesh, int loop) {
  const Axes& axes = strategy.loops[at(loop)];
  const bool has_empty = smallest_part(axes, mesh, rule.loops[at(loop)].size) == 0;
  if (has_empty && !may_have_empty_parts(rule)) return false;
  const auto is_left = [&](int l) {  // it is not cut down to 1
    return l == loop || mesh.count(strategy.loops[at(l)]) < rule.loops[at(l)].size;
  };
  const auto is_minor = [&](int l) { return l != loop && rule.loops[at(l)].size > 1 && is_left(l); };
  const auto allows = [&](const RuleTensor& tensor) {
    for (std::size_t d = 0; d < tensor.dims.size(); ++d) {
      const std::vector<int>& loops = tensor.dims[d];
      if (std::ranges::find(loops, loop) == loops.end()) continue;
      if (*std::ranges::find_if(loops, is_left) != loop) return false;
      if (axes.grain() == 0 && std::ranges::any_of(loops, is_minor)) return false;
      // A window that reads as many elements for each step of the loop as it moves on is none where cuts are even.
      const bool has_window = !tensor.windows.empty() && tensor.windows[d].loop > 0;
      const bool is_of_one = loops.size() == 1;
      if (has_window || (!tensor.shape.empty() && is_of_one && tensor.shape[d] != rule.loops[at(loop)].size))
        return false;
    }
    return true;
  };
  return std::ranges::all_of(rule.operands, allows) && std::ranges::all_of(rule.results, allows);
}

std::optional<LoopCut> uneven_cut(const Rule& rule, const std::vector<int>& loops, const Axes& axes,
                                  const Mesh& mesh) {
  const auto [major, minor] = major_loop(rule, loops);
  const std::int64_t grain = std::max<std::int64_t>(1, axes.grain());
  if (major < 0 || grain % minor) return std::nullopt;
  const LoopCut out{major, axes.of_grain(grain / minor)};  // by shares where these are
  return is_even(rule.loops[at(major)], out.axes, mesh) ? std::nullopt : std::optional(out);
}

std::vector<Strategy> legal_strategies(const Rule& rule, const Mesh& mesh, const StrategyOptions& options) {
  std::vector<Strategy> out;
  std::set<Strategy> seen;
  const std::size_t loops = rule.loops.size();
  const std::size_t choices = 1 + loops + (options.linear ? rule.linear.size() : 0);

  std::vector<int> order(at(mesh.axis_count()));
  std::iota(order.begin(), order.end(), 0);
  do {
    // An odometer over one choice per axis: 0 = unused, then loop dims, then linear groups.
    std::vector<std::size_t> choice(order.size(), 0);
    for (;;) {
      Strategy s = whole(rule);
      for (std::size_t i = 0; i < order.size(); ++i) {
        if (choice[i] == 0 || mesh.size_of(order[i]) == 1) continue;
        if (choice[i] <= loops)
          s.loops[choice[i] - 1].push_back(order[i]);
        else
          s.linear[choice[i] - 1 - loops].push_back(order[i]);
      }
      for (Axes& axes : s.linear) axes = axes.sorted();
      if (!violation_if_even(rule, s, mesh) && seen.insert(s).second) out.push_back(std::move(s));
      std::size_t i = order.size();
      while (i > 0 && ++choice[i - 1] == choices) choice[--i] = 0;
      if (i == 0) break;
    }
  } while (options.all_orders && std::next_permutation(order.begin(), order.end()));
  return out;
}

LoopBox loop_box(const Rule& rule, const Strategy& strategy, const Mesh& mesh, int rank) {
  LoopBox out;
  for (std::size_t l = 0; l < rule.loops.size(); ++l) {
    const Axes& axes = strategy.loops[l];
    const Range r = part_of(axes, mesh, rule.loops[l].size, rank);
    out.loops.push_back({r.begin, r.end - r.begin, rule.loops[l].size});
  }
  return out;
}

Axes used_axes(const Strategy& strategy) {
  Axes out;
  const auto add = [&](const Axes& axes) {
    for (int a : axes)
      if (!out.contains(a)) out.push_back(a);
  };
  std::ranges::for_each(strategy.loops, add);
  std::ranges::for_each(strategy.linear, add);
  return out;
}

std::vector<std::int64_t> integers_of(const RuleTensor& tensor, const Strategy& strategy, const Mesh& mesh) {
  std::vector<std::int64_t> out;
  for (const auto& loops : tensor.dims) {
    std::int64_t parts = 1;
    for (int l : loops) parts *= mesh.count(strategy.loops[at(l)]);
    out.push_back(parts);
  }
  return out;
}

std::string to_text(const Strategy& strategy, const Rule& rule, const Mesh& mesh) {
  std::string out = "{";
  const auto add = [&](std::string_view name, const Axes& axes) {
    if (axes.empty()) return;
    out += fmt::format("{}{}: {}", out.size() > 1 ? ", " : "", name, to_text(axes, mesh));
  };
  for (std::size_t l = 0; l < rule.loops.size(); ++l) add(rule.loops[l].name, strategy.loops[l]);
  for (std::size_t g = 0; g < rule.linear.size(); ++g) add(fmt::format("+{}", g), strategy.linear[g]);
  return out + "}";
}

Strategy parse_strategy(Scanner& in, const Rule& rule, const Mesh& mesh) {
  Strategy out = whole(rule);
  std::set<std::string> seen;
  in.expect("{");
  if (in.accept("}")) return out;
  do {
    if (in.accept("+")) {
      const std::int64_t g = in.integer("a linear group");
      if (g < 0 || g >= static_cast<std::int64_t>(rule.linear.size()))
        throw error("linear group +{} does not exist; the operator has {}", g, rule.linear.size());
      if (!seen.insert(fmt::format("+{}", g)).second)
        throw error("linear group +{} is twice in the strategy", g);
      in.expect(":");
      out.linear[static_cast<std::size_t>(g)] = parse_axes(in, mesh).sorted();
      continue;
    }
    const std::string name = in.name("a loop dim");
    const int l = rule.loop(name);
    if (l < 0) {
      std::vector<std::string> known;
      for (const LoopDim& dim : rule.loops) known.push_back(dim.name);
      throw error("loop dim '{}' does not exist; the operator has {}", name, join(known, ", "));
    }
    if (!seen.insert(name).second) throw error("loop dim '{}' is twice in the strategy", name);
    in.expect(":");
    Axes axes = parse_axes(in, mesh);
    if (axes.is_by_shares()) axes = axes.of_grain(std::max<std::int64_t>(1, axes.grain()));
    const LoopDim& dim = rule.loops[at(l)];
    const bool has_runs = axes.grain() > 0 && dim.size % axes.grain() == 0;
    out.loops[at(l)] = has_runs && is_even(dim, axes, mesh) ? axes.of_grain(0) : axes;
  } while (in.accept(","));
  in.expect("}");
  return out;
}

}  // namespace shardwright
