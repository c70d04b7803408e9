#include "shardwright/search/automatic/tables.h"

#include <algorithm>

#include "shardwright/plan/batch.h"

namespace shardwright::search {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Samples of the step of `graph`, which has all of them; nothing where no input brings a batch.
std::optional<std::int64_t> samples_of(const Graph& graph) {
  for (const Node& node : graph.nodes)
    if (const auto dims = batch_dims_of_leaf(graph, node); !dims.empty())
      return graph.value(node.results.front()).type.shape[dims.front()];
  return std::nullopt;
}

}  // namespace

Tables::Tables(const StepOf& step, const PlanRequest& request) : step_(step), request_(request) {
  const auto samples = samples_of(network(1)->graph());
  if (!samples)
    throw error("search auto: no input of the network has a batch, of which there could be parts");
  samples_ = *samples;
}

const Network* Tables::network(int micro_batches) {
  const auto [it, is_new] = networks_.try_emplace(micro_batches);
  if (is_new) try {
      it->second = std::make_unique<Network>(step_(micro_batches), *request_.cluster, micro_batches);
    } catch (const Error&) {
      if (micro_batches == 1) throw;
    }
  return it->second.get();
}

const Pieces* Tables::figures(const Structure& s) {
  const auto key = std::tuple(s.degrees.data, s.degrees.tensor, s.degrees.sequence,
                              s.pipelining.micro_batches, s.zero, s.recompute);
  const auto [it, is_new] = figures_.try_emplace(key);
  if (!is_new) return it->second.get();
  const Network* row = network_of(s);
  if (!row) return nullptr;
  const Network& whole = *row;
  Structure kept = s;
  kept.recompute = RecomputeMode::none;
  // Only layers are computed again.
  const Pieces* others = s.recompute == RecomputeMode::full ? figures(kept) : nullptr;
  if (s.recompute == RecomputeMode::full && !others) return nullptr;
  try {
    const Cluster stage = request_.cluster->part(0, s.stage_devices());
    auto out = std::make_unique<Pieces>();
    for (int k = 0; k < whole.kinds(); ++k)
      out->push_back(others && !whole.is_layer(k) ? (*others)[at(k)]
                                                  : figures_of(whole, k, s, request_, stage));
    figures_.at(key) = std::move(out);
  } catch (const Error&) {  // a dim that does not divide
  }
  return figures_.at(key).get();
}

const Pieces* Tables::alone(Structure s, std::int64_t samples_of_device) {
  s.pipelining.micro_batches = static_cast<int>(samples_ / samples_of_device);
  s.degrees.data = 1;
  s.zero = 0;
  return figures(s);
}

std::optional<Pieces> Tables::of_stage(const Structure& s) {
  const Pieces* all = figures(s);
  const Pieces* own = alone(s);
  if (!all || !own) return std::nullopt;
  Pieces out = *all;
  for (std::size_t k = 0; k < out.size(); ++k) {
    Figures& f = out[k];
    const Figures& without = (*own)[k];
    f.reduction = std::max(0.0, f.communication - without.communication);
    if (s.zero < 2) f.forward = without.forward, f.backward = without.backward;
  }
  return out;
}

std::optional<Pieces> Tables::at_least(const Structure& s, std::int64_t fewest) {
  const std::int64_t few = fewest, more = 2 * few, here = samples_of_device(s);
  if (here <= more || samples_ % more) {
    const Pieces* own = alone(s);
    return own ? std::optional(*own) : std::nullopt;
  }
  Structure kept = s;
  kept.recompute = RecomputeMode::none;
  const Pieces *one = alone(kept, few), *two = alone(kept, more), *bytes = alone(s, few);
  if (!one || !two || !bytes) return std::nullopt;
  Pieces out = *bytes;
  const double times = static_cast<double>(here) / static_cast<double>(few);
  for (std::size_t k = 0; k < out.size(); ++k) {
    const auto beyond = [&](double Figures::*part) {
      const double first = (*one)[k].*part, slope = (*two)[k].*part - first;
      return std::max(first, first + (times - 1) * slope);
    };
    out[k].forward = beyond(&Figures::forward);
    out[k].backward = beyond(&Figures::backward);
    out[k].kept *= times;
  }
  return out;
}

}  // namespace shardwright::search
