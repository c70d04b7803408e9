// Shortest path over layouts. The neighbours of a layout are written out one kind of step per function; the
// search itself (Redistributor::search) knows nothing of what they do.

#include "shardwright/layout/redistribution.h"

#include <algorithm>
#include <array>
#include <map>
#include <queue>

#include "shardwright/layout/uneven.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

std::int64_t volume(const Shape& extent) { return element_count(extent); }

/// Bytes that the busiest rank receives, and from how many others, when each rank fills its box of `to` from
/// boxes of `from`. Exact for any boxes.
struct Traffic {
  std::int64_t bytes = 0;
  int peers = 0;
};

/// How many of `parts` parts of a dim of size `n` hold some of [begin, end).
std::int64_t parts_touched(std::int64_t n, std::int64_t parts, std::int64_t begin, std::int64_t end) {
  const auto part_with = [&](std::int64_t i) { return ((i + 1) * parts - 1) / n; };
  return part_with(end - 1) - part_with(begin) + 1;
}

Traffic exchange_traffic(const Mesh& from_mesh, const Layout& from, const Mesh& to_mesh, const Layout& to,
                         const Type& type) {
  Traffic worst;
  constexpr int most_ranks = 1024;  // are looked at; of more ranks some, evenly spread
  const int step = std::max(1, from_mesh.size() / most_ranks);
  for (int r = 0; r < from_mesh.size(); r += step) {
    const Box want = box(to, to_mesh, type.shape, r);
    const std::int64_t wanted = volume(want.extent);
    const std::int64_t held = volume(intersect(want, box(from, from_mesh, type.shape, r)).extent);
    if (held == wanted) continue;
    std::int64_t peers = held > 0 ? -1 : 0;  // replicas hold the same box; one of them sends
    std::int64_t sources = 1;
    for (std::size_t d = 0; d < type.shape.size(); ++d)
      sources *= parts_touched(type.shape[d], from_mesh.count(from.dims[d]), want.offset[d],
                               want.offset[d] + want.extent[d]);
    peers += sources;
    worst.bytes = std::max(worst.bytes, (wanted - held) * static_cast<std::int64_t>(size_of(type.dtype)));
    worst.peers = std::max(worst.peers, static_cast<int>(peers));
  }
  return worst;
}

/// What a rank holds of a step over `ranks`, told by what it receives: of parts that are not equal the largest.
double bytes_held(const Step& step, int ranks) {
  const auto received = static_cast<double>(step.bytes);
  if (step.kind == StepKind::permute || ranks == 1) return received;
  return received * ranks / (ranks - 1) / (step.kind == StepKind::all_reduce ? 2 : 1);
}

/// Seconds of a step over `axes` of which a rank holds `bytes`.
double price(StepKind kind, double bytes, const Axes& axes, const Mesh& mesh, const MeshCost& cost) {
  std::array<GroupLink, 4 * Axes::max_size> group;
  std::size_t n = 0;
  for (int a : axes.sorted()) {
    if (cost.levels.empty())
      group[n++] = {mesh.size_of(a), cost.axes[at(a)]};
    else
      for (const GroupLink& level : cost.levels[at(a)]) group[n++] = level;
  }
  return collective_seconds(kind, bytes, {group.data(), n});
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
    to.dims[at(d)] = axes;
    return to;
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
      step.seconds = price(step.kind, bytes_held(step, mesh_.count(step.axes)), step.axes, mesh_, cost_);
    }
    out_.push_back(std::move(step));
  }

  /// Every dim is cut evenly, or on the way to the cut of a target that is not.
  bool is_even_enough(const Layout& to) const {
    if (is_even(to, mesh_, type_.shape)) return true;
    if (is_target_elsewhere()) return false;
    for (std::size_t d = 0; d < to.dims.size(); ++d) {
      const Axes &axes = to.dims[d], &wanted = target_.dims[d];
      const bool leads_there = axes.size() <= wanted.size() && axes == wanted.prefix(axes.size());
      if (is_cut_unevenly(to, mesh_, type_.shape, d) && !leads_there) return false;
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
        add({.kind = StepKind::slice, .axes = {a}, .dim_from = d}, with_dim(d, from_->dims[at(d)].with({a})));
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
        moved.dims[at(e)] = moved.dims[at(e)].with(suffix);
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
      Layout to = with_dim(d, from_->dims[at(d)].with(some));
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
    if (axes.size() < 2) return;
    for_each_selection(axes, [&](const Axes& order) {
      if (order.size() != axes.size() || order == axes) return;
      add({.kind = StepKind::permute, .axes = axes.sorted(), .dim_from = d}, with_dim(d, order));
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
        Layout to = *from_;
        for (Axes& axes : to.dims) {
          Axes swapped;
          for (int x : axes) swapped.push_back(x == a ? b : x == b ? a : x);
          axes = swapped;
        }
        if (to != *from_) add({.kind = StepKind::permute, .axes = {a, b}}, std::move(to));
      }
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

double slowest(const MeshCost& cost, double LinkCost::*what) {
  double worst = 0;
  for (const LinkCost& axis : cost.axes) worst = std::max(worst, axis.*what);
  return worst;
}

/// On one mesh it starts once more with each peer, so that known collectives win where they do the work. Between meshes
/// there are none but to gather, and it is one all_to_all of uneven parts.
double exchange_seconds(const Traffic& traffic, const MeshCost& cost, bool is_one_mesh) {
  return (is_one_mesh ? traffic.peers + 1 : 1) * slowest(cost, &LinkCost::start_seconds) +
         traffic.peers * slowest(cost, &LinkCost::latency_seconds) +
         static_cast<double>(traffic.bytes) * slowest(cost, &LinkCost::seconds_per_byte);
}

/// A path without a search, for layouts that differ in so many axes that one would take minutes: reduce what is partial,
/// exchange, and leave the addends that the target wants.
Redistribution direct(const Mesh& mesh, const MeshCost& cost, const Layout& from, const Layout& to,
                      const Type& type) {
  Redistribution out;
  Layout now = from;
  const auto add = [&](Step step, Layout next, double seconds) {
    step.from = now;
    step.to = now = std::move(next);
    step.seconds = seconds;
    out.bytes += step.bytes;
    out.seconds += seconds;
    out.steps.push_back(std::move(step));
  };
  const std::int64_t held = element_count(largest_local_shape(from, mesh, type.shape)) *
                            static_cast<std::int64_t>(size_of(type.dtype));
  for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
    const Axes axes = reduction == Reduction::sum ? now.sum : now.max;
    if (axes.empty()) continue;
    Layout next = now;
    (reduction == Reduction::sum ? next.sum : next.max) = {};
    if (next.used().empty()) next.mesh = 0;
    add({.kind = StepKind::all_reduce,
         .axes = axes,
         .reduction = reduction,
         .bytes = 2 * (held - held / mesh.count(axes))},
        std::move(next), price(StepKind::all_reduce, static_cast<double>(held), axes, mesh, cost));
  }
  if (now != reduced(to)) {
    const Traffic traffic = exchange_traffic(mesh, now, mesh, reduced(to), type);
    add({.kind = StepKind::exchange, .axes = {}, .bytes = traffic.bytes}, reduced(to),
        exchange_seconds(traffic, cost, true));
  }
  for (int a : to.sum) {
    Layout next = now;
    next.sum = now.sum.with({a}).sorted();
    add({.kind = StepKind::mask, .axes = {a}}, std::move(next),
        static_cast<double>(held) * cost.copy_seconds_per_byte);
  }
  return out;
}

/// Axes that two layouts of one mesh have together, side by side, as one.
struct JoinedAxes {
  Mesh mesh;
  MeshCost cost;
  std::vector<Axes> axes_of;  // per joined axis

  JoinedAxes(const Mesh& whole, const MeshCost& prices, const Layout& a, const Layout& b)
      : cost{.axes = {}, .levels = {}, .copy_seconds_per_byte = prices.copy_seconds_per_byte} {
    for (int x = 0; x < whole.axis_count(); ++x) {
      if (!a.used().contains(x) && !b.used().contains(x)) continue;
      if (!axes_of.empty() && stand_together(a, last(), x) && stand_together(b, last(), x)) {
        axes_of.back().push_back(x);
        mesh.axes.back().size *= whole.size_of(x);
      } else {
        axes_of.push_back({x});
        mesh.axes.push_back(whole.axes[at(x)]);
        cost.axes.push_back(prices.axes[at(x)]);
        cost.levels.emplace_back();
      }
      if (prices.levels.empty())
        cost.levels.back().push_back({whole.size_of(x), prices.axes[at(x)]});
      else
        cost.levels.back().insert(cost.levels.back().end(), prices.levels[at(x)].begin(),
                                  prices.levels[at(x)].end());
    }
  }

  Layout layout(const Layout& whole) const {
    Layout out{.dims = {}};
    for (const Axes& axes : whole.dims) out.dims.push_back(joined(axes));
    out.sum = joined(whole.sum);
    out.max = joined(whole.max);
    return out;
  }

 private:
  int last() const { return axes_of.back()[axes_of.back().size() - 1]; }

  static bool stand_together(const Layout& layout, int x, int y) {
    for (const Axes& axes : layout.dims)
      for (int i = 0; i < axes.size(); ++i)
        if (axes[i] == x || axes[i] == y) return axes[i] == x && i + 1 < axes.size() && axes[i + 1] == y;
    return layout.sum.contains(x) == layout.sum.contains(y) &&
           layout.max.contains(x) == layout.max.contains(y);
  }

  Axes joined(const Axes& axes) const {
    Axes out;
    for (int a : axes)
      for (std::size_t j = 0; j < axes_of.size(); ++j)
        if (axes_of[j][0] == a) out.push_back(static_cast<int>(j));
    return out;
  }
};

}  // namespace

int Redistribution::collective_count() const {
  return static_cast<int>(
      std::count_if(steps.begin(), steps.end(), [](const Step& s) { return !is_local(s.kind); }));
}

std::string to_text(const Step& step, std::span<const Mesh> meshes) {
  if (step.kind == StepKind::exchange)
    return fmt::format("exchange({} to {})", to_text(step.from, meshes[at(step.from.mesh)]),
                       to_text(step.to, meshes[at(step.to.mesh)]));
  const int mesh = std::max(step.from.mesh, step.to.mesh);
  std::string out = fmt::format(
      "{}{}(", name_of(step.kind),
      step.kind == StepKind::all_reduce ? (step.reduction == Reduction::sum ? ".sum" : ".max") : "");
  if (step.dim_from >= 0) out += fmt::format("dim {}", step.dim_from);
  if (step.dim_to >= 0) out += fmt::format(" to {}", step.dim_to);
  return out + fmt::format("{}{})", step.dim_from >= 0 ? ", " : "", to_text(step.axes, meshes[at(mesh)]));
}

std::string to_text(const Redistribution& r, std::span<const Mesh> meshes) {
  std::string out;
  for (const Step& step : r.steps) out += (out.empty() ? "" : "; ") + to_text(step, meshes);
  return out.empty() ? "nothing" : out;
}

MeshCost uniform_cost(const Mesh& mesh) { return {std::vector<LinkCost>(mesh.axes.size())}; }

Redistributor::Redistributor(std::vector<Mesh> meshes, std::vector<MeshCost> costs,
                             RedistributorOptions options)
    : meshes_(std::move(meshes)), costs_(std::move(costs)), options_(options) {
  require(meshes_.size() == costs_.size(), "{} meshes but {} costs", meshes_.size(), costs_.size());
}

Redistributor::Redistributor(const Mesh& mesh, RedistributorOptions options)
    : Redistributor({mesh}, {uniform_cost(mesh)}, options) {}

std::size_t Redistributor::KeyHash::operator()(const Key& key) const {
  std::size_t h = std::hash<Layout>()(key.from) * 31 + std::hash<Layout>()(key.to);
  for (std::int64_t d : key.shape) h = h * 1000003 + static_cast<std::size_t>(d);
  return h * 31 + key.element_bytes;
}

double Redistributor::latency(const Step& step) const {
  const std::size_t mesh = at(step.from.mesh);
  return price(step.kind, 0, step.axes, meshes_[mesh], costs_[mesh]);
}

const Redistribution& Redistributor::find(const Layout& from, const Layout& to, const Type& type) {
  Key key{from, to, type.shape, size_of(type.dtype)};
  const auto known = found_.find(key);
  if (known != found_.end()) return known->second;
  Redistribution r =
      from.has_halo() || to.has_halo() ? with_halo(from, to, type) : on_few_axes(from, to, type);
  return found_.emplace(std::move(key), std::move(r)).first->second;
}

/// To the same layout without a halo, and on. What leads away from a halo starts at the parts inside it.
Redistribution Redistributor::with_halo(const Layout& from, const Layout& to, const Type& type) {
  if (from == to) return {};
  if (from.has_halo()) return find(without_halo(from), to, type);
  const Layout plain = without_halo(to);
  Redistribution out = find(from, plain, type);
  const Traffic traffic = exchange_traffic(mesh_of(to), plain, mesh_of(to), to, type);
  Step step{.kind = StepKind::halo, .axes = {}, .from = plain, .to = to, .bytes = traffic.bytes};
  for (std::size_t d = 0; d < to.dims.size(); ++d)
    if (to.windows[d].loop > 0) step.axes = step.axes.with(to.dims[d]);
  step.seconds =
      price(step.kind, static_cast<double>(step.bytes), step.axes, mesh_of(to), costs_[at(to.mesh)]);
  out.bytes += step.bytes;
  out.seconds += step.seconds;
  out.steps.push_back(std::move(step));
  return out;
}

/// The search on a mesh in which axes are one that both layouts have together or not at all. Axes that neither has are
/// none: paths over many axes are many.
Redistribution Redistributor::on_few_axes(const Layout& from, const Layout& to, const Type& type) const {
  constexpr int few = 3;
  const int m = from.used().empty() ? to.mesh : from.mesh;
  const Mesh& mesh = meshes_[at(m)];
  const bool is_one_mesh = to.used().empty() || to.mesh == m;
  if (mesh.axis_count() <= few || !is_one_mesh) return search(from, to, type);
  const JoinedAxes joined(mesh, costs_[at(m)], from, to);
  constexpr int most = 4;  // the number of paths grows faster than the factorial
  const bool is_searched = joined.mesh.axis_count() <= most || !to.max.empty();
  const Layout small_from = joined.layout(from), small_to = joined.layout(to);
  Redistribution out =
      is_searched ? Redistributor({joined.mesh}, {joined.cost}, options_).search(small_from, small_to, type)
                  : direct(joined.mesh, joined.cost, small_from, small_to, type);
  for (Step& step : out.steps) {
    step.axes = translate(step.axes, joined.axes_of);
    for (Layout* layout : {&step.from, &step.to}) *layout = translate(*layout, joined.axes_of, m);
  }
  return out;
}

Redistribution Redistributor::search(const Layout& from, const Layout& to, const Type& type) const {
  struct Reached {
    double seconds;
    Step last;
    bool is_final = false;
  };
  std::unordered_map<Layout, Reached> reached;
  using Entry = std::pair<double, Layout>;
  const auto later = [](const Entry& a, const Entry& b) { return b < a; };
  std::priority_queue<Entry, std::vector<Entry>, decltype(later)> open(later);

  const auto offer = [&](double seconds, Step step) {
    const Layout key = step.to;
    const auto known = reached.find(key);
    if (known != reached.end() && known->second.seconds <= seconds) return;
    reached[key] = {seconds, std::move(step)};
    open.push({seconds, key});
  };

  const Layout whole_target = reduced(to);  // an exchange cannot make a value partial

  reached[from] = {0, {}};
  open.push({0, from});
  while (!open.empty()) {
    const auto [seconds, layout] = open.top();
    open.pop();
    Reached& here = reached[layout];
    if (here.is_final) continue;
    here.is_final = true;
    if (layout == to) break;
    const std::size_t mesh = at(layout.used().empty() ? to.mesh : layout.mesh);
    for (Step& step : Neighbours(meshes_[mesh], costs_[mesh], type, to, options_.even_only).of(layout)) {
      const double total = seconds + step.seconds;
      offer(total, std::move(step));
    }
    // An exchange goes from anything to anything, so it is of use at the start, or as soon as partials are reduced.
    const bool is_start = layout == from || reached[layout].last.from.is_partial();
    if (!is_start || layout.is_partial() || layout == whole_target) continue;
    // It has to start at least: not worth a look if the target is as near already.
    const double start = slowest(costs_[mesh], &LinkCost::start_seconds);
    const auto known = reached.find(whole_target);
    if (known != reached.end() && known->second.seconds <= seconds + start) continue;
    const Mesh& to_mesh = mesh_of(whole_target);
    const bool is_one_mesh =
        whole_target.used().empty() || at(whole_target.mesh) == static_cast<std::size_t>(mesh);
    const Traffic traffic = exchange_traffic(mesh_of(layout), layout, to_mesh, whole_target, type);
    // What every rank has already is sliced, however long copying takes; ranks need not meet for that.
    if (traffic.bytes == 0 && is_one_mesh) continue;
    Step step{
        .kind = StepKind::exchange, .axes = {}, .from = layout, .to = whole_target, .bytes = traffic.bytes};
    step.seconds = exchange_seconds(traffic, costs_[mesh], is_one_mesh);
    const double total = seconds + step.seconds;
    offer(total, std::move(step));
  }
  require(reached.contains(to) && reached[to].is_final, "no way from {} to {} for {}",
          to_text(from, mesh_of(from)), to_text(to, mesh_of(to)), to_text(type));

  Redistribution out;
  for (Layout l = to; l != from;) {
    Step step = reached[l].last;
    l = step.from;
    out.bytes += step.bytes;
    out.seconds += step.seconds;
    out.steps.push_back(std::move(step));
  }
  std::reverse(out.steps.begin(), out.steps.end());
  return out;
}

}  // namespace shardwright
