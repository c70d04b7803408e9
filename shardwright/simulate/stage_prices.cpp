#include "shardwright/simulate/stage_prices.h"

#include <algorithm>

#include "shardwright/cost/mixed_cluster.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/comm_fusion.h"

namespace shardwright {
namespace {

/// What is multiplied; of a chain, what is carried on may be wider.
DType dtype_of(const Graph& graph, const Node& node) {
  return graph.value(node.op->is_chain ? node.operands.front() : node.results.front()).type.dtype;
}

/// What runs on the host has a device's share of its processors.
Cluster of_host(Cluster cluster) {
  const auto share = [&](double rate) { return rate / cluster.devices_per_node; };
  const PeakFlops& flops = cluster.host.flops_per_second;
  cluster.flops_per_second = {
      .f64 = share(flops.f64), .f32 = share(flops.f32), .bf16 = share(flops.bf16), .f16 = share(flops.f16)};
  cluster.memory_bytes_per_second = share(cluster.host.memory_bytes_per_second);
  cluster.kernel_seconds = 0;
  return cluster;
}

double bytes_of(const PreparedTransfer& t, const Graph& graph) {
  double bytes = 0;
  for (const Part& part : t.parts) bytes += static_cast<double>(graph.value(part.to).type.bytes());
  return bytes;
}

}  // namespace

const CallWork& CallWorks::of(const Graph& graph, const Node& node) {
  std::shared_ptr<const Rule> rule = shared_rule_of(graph, node);
  const auto known = works_.find(rule.get());
  if (known != works_.end()) return known->second.work;
  const CallWork work = call_work(*node.op, *rule);
  const Rule* of = rule.get();
  return works_.emplace(of, Known{std::move(rule), work}).first->second.work;
}

StagePrices::StagePrices(const Program& program, int stage, const Cluster& cluster)
    : program_(program),
      graph_(program.graph),
      stage_(stage),
      cluster_(cluster),
      redistributor_(redistributor_for(graph_.meshes, cluster)) {
  int first = 0;
  for (const Cluster& kind : kinds_of(cluster)) {
    kinds_.push_back({kind, of_host(kind), {first, kind.devices()}});
    first += kind.devices();
  }
  if (kinds_.empty()) kinds_.push_back({cluster, of_host(cluster), {}});
  for (const Fusion& f : fusions_of(graph_)) ends_.emplace(f.begin.index, f.end);
  if (!cluster.caches.empty()) reuse_.emplace(program);
}

/// An operand seen otherwise, where it lies.
bool StagePrices::is_free(const Fusion& fusion) const {
  const Node& node = graph_.node(fusion.begin);
  return fusion.size() == 1 && node.op->is_alias &&
         place(node.operands.front()) == place(node.results.front());
}

/// Of a table that is read in part, as much of that part.
void StagePrices::add_cached_bytes(Work& work, int first, const Cluster& device) const {
  if (!reuse_) return;
  work.is_ordered = true;
  double touched = 0;
  for (const Touch& t : reuse_->of(first)) touched += t.bytes;
  for (const Touch& t : reuse_->of(first)) add_cached(work, t.bytes * work.bytes / touched, t.since, device);
}

void StagePrices::add_peak_seconds(const Fusion& fusion) {
  for (NodeId id = fusion.begin; id < fusion.end; ++id.index) {
    const Node& node = graph_.node(id);
    const CallWork& call = works_.of(graph_, node);
    if (streams(call.kind)) continue;
    double peak = 0;  // of all devices together
    for (const Devices& kind : kinds_)
      peak += kind.device.flops_per_second.of(dtype_of(graph_, node)) *
              (kinds_.size() == 1 ? program_.rank_count() : kind.ranks.count);
    (node.is_recomputed ? repeated_peak_seconds_ : peak_seconds_) += call.flops / peak;
  }
}

/// Nodes that run together move each value between cache and memory once, and those only they use never. The first
/// decides by its rule what limits them: the others are point-wise.
StagePrices::Timed StagePrices::timed(const Fusion& fusion, const Devices& on) {
  const auto is_in_memory = [this](ValueId v) { return place(v) != no_place; };
  Timed out;
  Work& all = out.work;
  all = {.dtype = dtype_of(graph_, graph_.node(fusion.begin))};
  std::vector<Work> works;
  moved_.clear();
  for (NodeId id = fusion.begin; id < fusion.end; ++id.index) {
    const Node& node = graph_.node(id);
    const CallWork& call = works_.of(graph_, node);
    if (id == fusion.begin) {
      all.kind = call.kind;
      all.row_bytes = row_bytes(graph_, node, call, on.ranks);
      all.is_batched = call.is_batched;
    }
    Work own{.kind = all.kind, .dtype = all.dtype};
    own.flops = call.flops * share_of(graph_, node, call, on.ranks) * imbalance_of(node, call, cluster_);
    own.bytes = bytes_moved(graph_, node, own.flops, moved_, is_in_memory, on.ranks);
    all.flops += own.flops;
    all.bytes += own.bytes;
    if (fusion.size() > 1) own.kind = call.kind;
    if (id == fusion.begin) own.row_bytes = all.row_bytes, own.is_batched = all.is_batched;
    works.push_back(own);
    out.owned.push_back({stage_, node.owner, &OperatorSeconds::compute, 0});
  }
  add_cached_bytes(all, fusion.begin.index, on.device);
  const bool is_on_host = graph_.node(fusion.begin).space == Space::host;
  const Cluster& devices = is_on_host ? on.host : on.device;
  out.seconds = compute_seconds(all, devices);
  double alone = 0;
  for (std::size_t i = 0; i < works.size(); ++i) {
    works[i].is_ordered = all.is_ordered;
    for (std::size_t c = 0; c < most_caches && all.bytes > 0; ++c)
      works[i].cached[c] = all.cached[c] * works[i].bytes / all.bytes;
    alone += out.owned[i].seconds = compute_seconds(works[i], devices);
  }
  if (alone > 0)
    for (OwnedSeconds& item : out.owned) item.seconds *= out.seconds / alone;
  return out;
}

double StagePrices::compute_seconds_of(int first, std::size_t kind, std::vector<OwnedSeconds>& owned) {
  const Timed& known = timed(first)[kind];
  owned.insert(owned.end(), known.owned.begin(), known.owned.end());
  return known.seconds;
}

double StagePrices::mean_compute_seconds_of(int first) {
  const std::vector<Timed>& known = timed(first);
  if (known.size() == 1) return known.front().seconds;
  double sum = 0;
  for (std::size_t k = 0; k < known.size(); ++k) sum += kinds_[k].ranks.count * known[k].seconds;
  return sum / program_.rank_count();
}

std::size_t StagePrices::kind_of(int rank) const {
  std::size_t out = 0;
  while (out + 1 < kinds_.size() && rank >= kinds_[out].ranks.first + kinds_[out].ranks.count) ++out;
  return out;
}

const std::vector<StagePrices::Timed>& StagePrices::timed(int first) {
  const auto [known, is_new] = compute_.try_emplace(first);
  if (!is_new) return known->second;
  const Fusion fusion{{first}, ends_.at(first)};
  const bool is_work = !is_free(fusion);
  if (is_work) add_peak_seconds(fusion);
  for (const Devices& kind : kinds_) known->second.push_back(is_work ? timed(fusion, kind) : Timed{});
  return known->second;
}

double StagePrices::seconds_of(const Node& node) {
  if (!is_of_host(*node.op->step)) return redistribution(node).seconds;
  const auto bytes = static_cast<double>(graph_.value(node.results.front()).type.bytes());
  return cluster_.host.latency_seconds + bytes / cluster_.host.bytes_per_second;
}

double StagePrices::seconds_of(const PreparedTransfer& t) {
  if (is_of_host(t.kind()))
    return cluster_.host.latency_seconds + bytes_of(t, graph_) / cluster_.host.bytes_per_second;
  const Node& first = graph_.node(t.node);
  if (!is_transfer(first)) return 0;
  if (t.parts.size() == 1) return redistribution(first).seconds;
  return joined_price(step_of(graph_, first), bytes_of_all(t), redistributor_).seconds();
}

JoinedBytes StagePrices::bytes_of_all(const PreparedTransfer& t) {
  JoinedBytes out;
  for (int n = 0; n < static_cast<int>(t.parts.size()); ++n)
    out += joined_bytes(graph_, graph_.node({t.node.index + n}), redistributor_);
  return out;
}

StagePrices::AmongMany StagePrices::among_many(const PreparedTransfer& t) {
  const double seconds = seconds_of(t);
  const StepKind kind = t.kind();
  const bool may_join =
      kind == StepKind::all_reduce || kind == StepKind::reduce_scatter || kind == StepKind::all_gather;
  if (!may_join || seconds == 0) return {.moving = seconds};
  const JoinedBytes own = bytes_of_all(t);
  const double times = static_cast<double>(BucketLimit().bytes()) / static_cast<double>(own.held);
  const auto many = [&](std::int64_t bytes) {
    return static_cast<std::int64_t>(times * static_cast<double>(bytes));
  };
  const JoinedPrice price = joined_price(step_of(graph_, graph_.node(t.node)),
                                         {many(own.received), many(own.held)}, redistributor_);
  return {price.starting, price.moving / times, static_cast<double>(own.held)};
}

std::vector<LinkUse> StagePrices::link_uses(const PreparedTransfer& t) {
  if (is_of_host(t.kind())) {  // levels of their own behind those between devices, one for each way
    const int level = static_cast<int>(cluster_.links.size()) + (t.kind() == StepKind::evict);
    return {{level, bytes_of(t, graph_) / cluster_.host.bytes_per_second}};
  }
  std::vector<LinkUse> out;
  const auto add = [&](const LinkUse& use) {
    const auto known = std::ranges::find(out, use.level, &LinkUse::level);
    if (known == out.end())
      out.push_back(use);
    else
      known->seconds += use.seconds;
  };
  if (t.parts.size() > 1 && t.kind() == StepKind::all_reduce) {
    Step all = step_of(graph_, graph_.node(t.node));
    all.bytes = bytes_of_all(t).received;
    return redistributor_.link_uses(all);
  }
  for (int n = 0; n < static_cast<int>(t.parts.size()); ++n) {
    const Node& node = graph_.node({t.node.index + n});
    if (!is_transfer(node)) continue;
    for (const Step& step : redistribution(node).steps)
      if (!is_local(step.kind)) std::ranges::for_each(redistributor_.link_uses(step), add);
  }
  std::ranges::sort(out, {}, &LinkUse::level);
  return out;
}

void StagePrices::share(double seconds, const PreparedTransfer& t, std::vector<OwnedSeconds>& owned) {
  double whole = 0;
  const auto nodes = [&](auto use) {
    for (int n = 0; n < static_cast<int>(t.parts.size()); ++n) use(graph_.node({t.node.index + n}));
  };
  nodes([&](const Node& node) { whole += seconds_of(node); });
  nodes([&](const Node& node) {
    const auto what =
        is_reducing(*node.op->step) ? &OperatorSeconds::reduction : &OperatorSeconds::redistribution;
    owned.push_back({stage_, node.owner, what, seconds * seconds_of(node) / whole});
  });
}

}  // namespace shardwright
