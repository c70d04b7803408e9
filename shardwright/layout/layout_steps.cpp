#include "shardwright/layout/layout_steps.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "shardwright/base/index.h"
#include "shardwright/layout/uneven.h"

namespace shardwright {
namespace {

std::int64_t volume(const Shape& extent) { return element_count(extent); }

/// As below, of parts by shares: those of the ranks that are 0 along all other axes.
std::int64_t shared_parts_touched(std::int64_t n, const Axes& axes, const Mesh& mesh, std::int64_t begin,
                                  std::int64_t end) {
  std::int64_t out = 0;
  for (const int rank : mesh.group_of(0, axes)) {
    const Range part = part_of(axes, mesh, n, rank);
    out += std::max(part.begin, begin) < std::min(part.end, end);
  }
  return out;
}

/// How many parts of a dim of size `n` cut by `axes` hold some of [begin, end).
std::int64_t parts_touched(std::int64_t n, const Axes& axes, const Mesh& mesh, std::int64_t begin,
                           std::int64_t end) {
  if (axes.is_by_shares()) return shared_parts_touched(n, axes, mesh, begin, end);
  const std::int64_t grain = std::max<std::int64_t>(1, axes.grain()), parts = mesh.count(axes);
  const auto part_with = [&](std::int64_t i) { return ((i / grain + 1) * parts - 1) / (n / grain); };
  return part_with(end - 1) - part_with(begin) + 1;
}

/// What a rank holds of a step over `ranks`, told by what it receives: of parts that are not equal the largest.
double bytes_held(const Step& step, int ranks) {
  const auto received = static_cast<double>(step.bytes);
  if (step.kind == StepKind::permute || ranks == 1) return received;
  return received * ranks / (ranks - 1) / (step.kind == StepKind::all_reduce ? 2 : 1);
}

/// Calls `use` with every ordered selection of at least one of `axes`.
template <class F>
void for_each_selection(const Axes& axes, F use) {
  std::vector<Axes> open{Axes{}};
  while (!open.empty()) {
    const Axes chosen = open.back();
    open.pop_back();
    if (!chosen.empty()) use(chosen);
    for (int a : axes)
      if (!chosen.contains(a)) open.push_back(chosen.with({a}));
  }
}

/// The layouts next to one layout on one mesh, with the steps that lead there.
class Neighbours {
 public:
  Neighbours(const Mesh& mesh, const MeshCost& cost, const Type& type, const Layout& target, bool even_only)
      : mesh_(mesh), cost_(cost), type_(type), target_(target), even_only_(even_only) {}

  std::vector<Step> of(const Layout& from) {
    out_.clear();
    from_ = &from;
    from_bytes_ = bytes_of(from);
    is_from_even_ = is_even(from, mesh_, type_.shape);
    free_ = mesh_.all_axes().without(from.used());
    for (int d = 0; d < static_cast<int>(from.dims.size()); ++d) {
      slices(d);
      gathers_and_moves(d);
      scatters(d);
      reorderings(d);
    }
    reductions(from.sum, Reduction::sum);
    reductions(from.max, Reduction::max);
    masks();
    swaps();
    return std::move(out_);
  }

 private:
  std::int64_t bytes_of(const Layout& layout) const {
    return volume(largest_local_shape(layout, mesh_, type_.shape)) *
           static_cast<std::int64_t>(size_of(type_.dtype));
  }

  Layout with_dim(int d, const Axes& axes) const {
    Layout to = *from_;
    to.dims[at(d)] = settled(axes, mesh_, type_.shape[at(d)]);
    return to;
  }

  /// Dim `d` cut by `more` axes, too: in the target's runs, unless it is cut unevenly by now.
  Axes cut_further(int d, const Axes& axes, const Axes& more) const {
    const Axes out = axes.with(more);
    if (is_target_elsewhere()) return out;
    const Axes& wanted = target_.dims[at(d)];
    return settled(axes.cut_as(wanted), mesh_, type_.shape[at(d)]) == axes ? out.cut_as(wanted) : out;
  }

  void add(Step step, Layout to) {
    to.mesh = to.used().empty() ? 0 : mesh_index();
    if (even_only_ && !is_even_enough(to)) return;
    step.from = *from_;
    const std::int64_t to_bytes = bytes_of(to);
    step.bytes = received(step, to, to_bytes);
    step.to = std::move(to);
    if (is_local(step.kind)) {
      // The constant keeps a path from taking two local steps where one does.
      step.seconds = 1e-9 + static_cast<double>(to_bytes) * cost_.copy_seconds_per_byte;
    } else {
      step.seconds =
          step_seconds(step.kind, bytes_held(step, mesh_.count(step.axes)), step.axes, mesh_, cost_);
    }
    out_.push_back(std::move(step));
  }

  /// Every dim is cut evenly, or as before, or on the way to the cut of a target that is not.
  bool is_even_enough(const Layout& to) const {
    if (is_even(to, mesh_, type_.shape)) return true;
    if (is_target_elsewhere()) return false;
    for (std::size_t d = 0; d < to.dims.size(); ++d) {
      const Axes &axes = to.dims[d], &wanted = target_.dims[d];
      const bool leads_there = axes.size() <= wanted.size() && axes == wanted.prefix(axes.size());
      const bool stays = axes == from_->dims[d];
      if (is_cut_unevenly(to, mesh_, type_.shape, d) && !leads_there && !stays) return false;
    }
    return true;
  }

  int mesh_index() const { return from_->used().empty() ? target_.mesh : from_->mesh; }

  std::int64_t received(const Step& step, const Layout& to, std::int64_t to_bytes) const {
    const std::int64_t n = mesh_.count(step.axes);
    const bool moves = step.kind == StepKind::all_gather || step.kind == StepKind::all_to_all ||
                       step.kind == StepKind::permute;
    if (moves && !(is_from_even_ && is_even(to, mesh_, type_.shape)))
      return exchange_traffic(mesh_, *from_, mesh_, to, type_).bytes;
    switch (step.kind) {
      case StepKind::all_gather: return to_bytes - to_bytes / n;
      case StepKind::reduce_scatter: return from_bytes_ - from_bytes_ / n;
      case StepKind::all_reduce: return 2 * (from_bytes_ - from_bytes_ / n);
      case StepKind::all_to_all: return from_bytes_ - from_bytes_ / n;
      case StepKind::permute: return to_bytes;
      default: return 0;
    }
  }

  /// The target's axes are another mesh's: they say nothing about the axes here.
  bool is_target_elsewhere() const { return !target_.used().empty() && target_.mesh != mesh_index(); }

  bool target_shards_over(int axis) const {
    return std::any_of(target_.dims.begin(), target_.dims.end(),
                       [&](const Axes& a) { return a.contains(axis); });
  }

  void slices(int d) {
    if (is_target_elsewhere()) return;
    for (int a : free_)
      if (target_shards_over(a))
        add({.kind = StepKind::slice, .axes = {a}, .dim_from = d},
            with_dim(d, cut_further(d, from_->dims[at(d)], {a})));
  }

  void gathers_and_moves(int d) {
    const Axes& axes = from_->dims[at(d)];
    for (int k = 1; k <= axes.size(); ++k) {
      const Axes suffix = axes.suffix(k);
      const Layout gathered = with_dim(d, axes.prefix(axes.size() - k));
      add({.kind = StepKind::all_gather, .axes = suffix, .dim_from = d}, gathered);
      for (int e = 0; e < static_cast<int>(from_->dims.size()); ++e) {
        if (e == d) continue;
        Layout moved = gathered;
        moved.dims[at(e)] = settled(cut_further(e, moved.dims[at(e)], suffix), mesh_, type_.shape[at(e)]);
        add({.kind = StepKind::all_to_all, .axes = suffix, .dim_from = d, .dim_to = e}, std::move(moved));
      }
    }
  }

  void scatters(int d) {
    for_each_selection(from_->sum, [&](const Axes& some) {
      const bool is_of_use = is_target_elsewhere() || std::all_of(some.begin(), some.end(), [&](int a) {
                               return target_shards_over(a);
                             });
      if (!is_of_use) return;
      Layout to = with_dim(d, cut_further(d, from_->dims[at(d)], some));
      to.sum = from_->sum.without(some);
      add({.kind = StepKind::reduce_scatter, .axes = some, .dim_from = d}, std::move(to));
    });
  }

  void reductions(const Axes& partial, Reduction reduction) {
    for_each_selection(partial, [&](const Axes& some) {
      if (some != some.sorted()) return;  // an all_reduce has no order
      Layout to = *from_;
      (reduction == Reduction::sum ? to.sum : to.max) = partial.without(some);
      add({.kind = StepKind::all_reduce, .axes = some, .reduction = reduction}, std::move(to));
    });
  }

  void masks() {
    if (is_target_elsewhere()) return;
    for (int a : free_) {
      if (!target_.sum.contains(a)) continue;
      Layout to = *from_;
      to.sum = to.sum.with({a}).sorted();
      add({.kind = StepKind::mask, .axes = {a}}, std::move(to));
    }
  }

  /// Reorders the axes of one dim. Only orders that start as the target's do are of use.
  void reorderings(int d) {
    const Axes& axes = from_->dims[at(d)];
    if (axes.size() < 2 || axes.is_by_shares()) return;  // in another order it is cut at other places
    for_each_selection(axes, [&](const Axes& order) {
      if (order.size() != axes.size() || order == axes) return;
      add({.kind = StepKind::permute, .axes = axes.sorted(), .dim_from = d}, with_dim(d, order.cut_as(axes)));
    });
  }

  /// Exchanges two axes of one size, one of which may be unused.
  void swaps() {
    const Axes used = from_->used();
    const Axes partial = from_->sum.with(from_->max);
    for (int a = 0; a < mesh_.axis_count(); ++a)
      for (int b = a + 1; b < mesh_.axis_count(); ++b) {
        if (mesh_.size_of(a) != mesh_.size_of(b) || partial.contains(a) || partial.contains(b)) continue;
        if (!used.contains(a) && !used.contains(b)) continue;
        if (has_other_shares(a, b)) continue;
        Layout to = *from_;
        for (Axes& axes : to.dims) {
          Axes swapped;
          for (int x : axes) swapped.push_back(x == a ? b : x == b ? a : x);
          axes = swapped.cut_as(axes);
        }
        if (to != *from_) add({.kind = StepKind::permute, .axes = {a, b}}, std::move(to));
      }
  }

  /// With one in the place of the other a dim would be cut at other places.
  bool has_other_shares(int a, int b) const {
    const auto is_cut_by = [&](const Axes& axes) {
      return axes.is_by_shares() && (axes.contains(a) || axes.contains(b));
    };
    return mesh_.axes[at(a)].shares != mesh_.axes[at(b)].shares &&
           std::ranges::any_of(from_->dims, is_cut_by);
  }

  const Mesh& mesh_;
  const MeshCost& cost_;
  const Type& type_;
  const Layout& target_;
  bool even_only_;
  const Layout* from_ = nullptr;
  std::int64_t from_bytes_ = 0;
  bool is_from_even_ = true;
  Axes free_;
  std::vector<Step> out_;
};

/// What a rank has of both of two boxes, and of the first.
struct Volumes {
  std::int64_t common = 1, all = 1;
};

/// Ranks of which no two hold the same by both layouts.
std::vector<int> unlike_ranks(const Mesh& mesh, const Layout& from, const Mesh& to_mesh, const Layout& to) {
  if (mesh == to_mesh) return mesh.group_of(0, from.used().with(to.used().without(from.used())));
  std::vector<int> out(at(mesh.size()));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

}  // namespace

ExchangeTraffic exchange_traffic(const Mesh& from_mesh, const Layout& from, const Mesh& to_mesh,
                                 const Layout& to, const Type& type) {
  ExchangeTraffic worst;
  const Shape& shape = type.shape;
  const auto volumes_of = [&](int rank) {
    Volumes out;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const Range want = part_of(to, to_mesh, shape, rank, d),
                  have = part_of(from, from_mesh, shape, rank, d);
      out.all *= want.end - want.begin;
      out.common *=
          std::max<std::int64_t>(0, std::min(want.end, have.end) - std::max(want.begin, have.begin));
    }
    return out;
  };
  constexpr std::size_t most_ranks = 1024;  // are looked at; of more ranks some, evenly spread
  const std::vector<int> ranks = unlike_ranks(from_mesh, from, to_mesh, to);
  const std::size_t step = std::max<std::size_t>(1, ranks.size() / most_ranks);
  for (std::size_t i = 0; i < ranks.size(); i += step) {
    const auto [held, wanted] = volumes_of(ranks[i]);
    if (held == wanted) continue;
    std::int64_t peers = held > 0 ? -1 : 0;  // replicas hold the same box; one of them sends
    std::int64_t sources = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const Range want = part_of(to, to_mesh, shape, ranks[i], d);
      sources *= parts_touched(shape[d], from.dims[d], from_mesh, want.begin, want.end);
    }
    peers += sources;
    worst.bytes = std::max(worst.bytes, (wanted - held) * static_cast<std::int64_t>(size_of(type.dtype)));
    worst.peers = std::max(worst.peers, static_cast<int>(peers));
  }
  return worst;
}

namespace {

/// The links that ranks along `axes` use, outermost first.
class LinksOfAxes {
 public:
  LinksOfAxes(const Axes& axes, const Mesh& mesh, const MeshCost& cost) {
    for (int a : axes.sorted()) {
      if (cost.levels.empty())
        links_[count_++] = {mesh.size_of(a), cost.axes[at(a)]};
      else
        for (const GroupLink& level : cost.levels[at(a)]) links_[count_++] = level;
      ends_[at(a)] = count_;
    }
  }
  /// Of rows that go to few devices a link moves what those behind it have use for, of the busiest of which that is more than of
  /// the mean.
  LinksOfAxes(const Step& step, const Mesh& mesh, const MeshCost& cost) : LinksOfAxes(step.axes, mesh, cost) {
    if (!step.routing) return;
    const Axes routed = routed_axes(*step.routing, step.kind == StepKind::all_gather ? step.to : step.from);
    std::int64_t parts = mesh.count(routed);
    std::size_t end = count_;
    const Axes axes = step.axes.sorted();
    for (int i = axes.size(); i-- > 0;) {
      const std::size_t begin = i == 0 ? 0 : ends_[at(axes[i - 1])];
      for (; end > begin; --end) {
        GroupLink& link = links_[end - 1];
        link.share = std::min(1.0, share_of_rows(*step.routing, parts) * cost.routing_imbalance);
        if (routed.contains(axes[i])) parts /= link.ranks;
      }
    }
  }
  operator std::span<const GroupLink>() const { return {links_.data(), count_}; }

 private:
  std::array<GroupLink, 4 * Axes::max_size> links_;
  std::array<std::size_t, Axes::max_size> ends_{};  // by axis
  std::size_t count_ = 0;
};

}  // namespace

double step_seconds(StepKind kind, double bytes, const Axes& axes, const Mesh& mesh, const MeshCost& cost) {
  return collective_seconds(kind, bytes, LinksOfAxes(axes, mesh, cost));
}

double starting_seconds(StepKind kind, double bytes, const Axes& axes, const Mesh& mesh,
                        const MeshCost& cost) {
  const LinksOfAxes links(axes, mesh, cost);
  double out = collective_seconds(kind, bytes, links);
  for (const LinkUse& use : link_uses(kind, bytes, links)) out -= use.seconds;
  return out;
}

double routed_seconds(const Step& step, const Mesh& mesh, const MeshCost& cost) {
  return collective_seconds(step.kind, bytes_held(step, mesh.count(step.axes)),
                            LinksOfAxes(step, mesh, cost));
}

std::vector<LinkUse> step_uses(const Step& step, const Mesh& mesh, const MeshCost& cost) {
  const double bytes =
      step.kind == StepKind::halo ? static_cast<double>(step.bytes) : bytes_held(step, mesh.count(step.axes));
  return link_uses(step.kind, bytes, LinksOfAxes(step, mesh, cost));
}

std::vector<Step> steps_from(const Layout& from, const Layout& target, const Mesh& mesh, const MeshCost& cost,
                             const Type& type, bool even_only) {
  return Neighbours(mesh, cost, type, target, even_only).of(from);
}

}  // namespace shardwright
