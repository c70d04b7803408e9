// Shortest path over layouts; what leads from one to the next is in layout_steps.h.

#include "shardwright/layout/redistribution.h"

#include <algorithm>
#include <array>
#include <map>
#include <queue>

#include "shardwright/base/index.h"
#include "shardwright/layout/joined_axes.h"
#include "shardwright/layout/layout_steps.h"
#include "shardwright/layout/uneven.h"

namespace shardwright {
namespace {

double slowest(const MeshCost& cost, double LinkCost::*what) {
  double worst = 0;
  for (const LinkCost& axis : cost.axes) worst = std::max(worst, axis.*what);
  return worst;
}

/// On one mesh it starts once more with each peer, so that known collectives win where they do the work. Between meshes
/// there are none but to gather, and it is one all_to_all of uneven parts.
double exchange_seconds(const ExchangeTraffic& traffic, const MeshCost& cost, bool is_one_mesh) {
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
        std::move(next), step_seconds(StepKind::all_reduce, static_cast<double>(held), axes, mesh, cost));
  }
  if (now != reduced(to)) {
    const ExchangeTraffic traffic = exchange_traffic(mesh, now, mesh, reduced(to), type);
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

double Redistributor::latency(const Step& step, double bytes) const {
  const std::size_t mesh = at(step.from.mesh);
  return starting_seconds(step.kind, bytes, step.axes, meshes_[mesh], costs_[mesh]);
}

std::vector<LinkUse> Redistributor::link_uses(const Step& step) const {
  const MeshCost& cost = costs_[at(std::max(step.from.mesh, step.to.mesh))];
  if (step.kind != StepKind::exchange) return step_uses(step, meshes_[at(step.from.mesh)], cost);
  const auto slowest_axis = std::ranges::max_element(cost.axes, {}, &LinkCost::seconds_per_byte);
  return {{slowest_axis->level, static_cast<double>(step.bytes) * slowest_axis->seconds_per_byte}};
}

const Redistribution& Redistributor::find(const Layout& from, const Layout& to, const Type& type) {
  Key key{from, to, type.shape, size_of(type.dtype)};
  const auto known = found_.find(key);
  if (known != found_.end()) return known->second;
  Redistribution r =
      from.has_halo() || to.has_halo() ? with_halo(from, to, type) : on_few_axes(from, to, type);
  return found_.emplace(std::move(key), std::move(r)).first->second;
}

const Redistribution& Redistributor::find_routed(const Step& step, const Type& type) {
  Key key{step.from, step.to, type.shape, size_of(type.dtype), step.routing};
  const auto known = found_.find(key);
  if (known != found_.end()) return known->second;
  Redistribution r = find(step.from, step.to, type);
  if (r.steps.size() == 1 && r.steps.front().kind == step.kind) {
    Step& only = r.steps.front();
    only.routing = step.routing;
    const std::size_t mesh = at(std::max(step.from.mesh, step.to.mesh));
    r.seconds = only.seconds = routed_seconds(only, meshes_[mesh], costs_[mesh]);
  }
  return found_.emplace(std::move(key), std::move(r)).first->second;
}

/// To the same layout without a halo, and on. What leads away from a halo starts at the parts inside it.
Redistribution Redistributor::with_halo(const Layout& from, const Layout& to, const Type& type) {
  if (from == to) return {};
  if (from.has_halo()) return find(without_halo(from), to, type);
  const Layout plain = without_halo(to);
  Redistribution out = find(from, plain, type);
  const ExchangeTraffic traffic = exchange_traffic(mesh_of(to), plain, mesh_of(to), to, type);
  Step step{.kind = StepKind::halo, .axes = {}, .from = plain, .to = to, .bytes = traffic.bytes};
  for (std::size_t d = 0; d < to.dims.size(); ++d)
    if (to.windows[d].loop > 0) step.axes = step.axes.with(to.dims[d]);
  step.seconds =
      step_seconds(step.kind, static_cast<double>(step.bytes), step.axes, mesh_of(to), costs_[at(to.mesh)]);
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
    for (Step& step : steps_from(layout, to, meshes_[mesh], costs_[mesh], type, options_.even_only)) {
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
    const ExchangeTraffic traffic = exchange_traffic(mesh_of(layout), layout, to_mesh, whole_target, type);
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
