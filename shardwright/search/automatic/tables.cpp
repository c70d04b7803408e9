#include "shardwright/search/automatic/tables.h"

#include <algorithm>
#include <utility>

#include "shardwright/annotations/operator_splits.h"
#include "shardwright/base/attempt.h"
#include "shardwright/base/index.h"
#include "shardwright/cost/mixed_cluster.h"
#include "shardwright/plan/batch.h"
#include "shardwright/plan/slots_of_parts.h"

namespace shardwright::automatic {
namespace {

/// Their forward and backward wait for what they move.
Pieces waited_for(Pieces pieces) {
  for (Figures& f : pieces) f.wait_in_passes();
  return pieces;
}

/// Of several kinds, as if all were of one: the mean where each has as much of the batch as it is fast, else the slowest.
Cluster of_several(Cluster cluster, bool is_by_shares) {
  if (is_by_shares) return of_mean_device(std::move(cluster));
  cluster.kinds.clear();  // its own figures are those
  return cluster;
}

/// Without the update, of which replicas may each do a share.
Pieces passes_alone(Pieces pieces) {
  for (Figures& f : pieces) f.transfers = {}, f.starts = {}, f.update = f.late = f.gradient_transfers = 0;
  return pieces;
}

}  // namespace

Tables::Tables(const StepOf& step, const PlanRequest& request, const Row* known)
    : step_(step),
      request_(request),
      interleave_(settings_of(request).pipelining.interleave),
      framework_(framework_called(settings_of(request).framework)),
      stock_(request.stock ? *request.stock : own_) {
  const auto samples = samples_of(*graph(1));
  if (!samples) throw error("search auto: no input of the network has a batch to cut into micro-batches");
  samples_ = *samples;
  check_operators(*graph(1), request.constraints);
  Row row = known ? *known : row_of(*graph(1), *request.cluster, request.constraints);
  const Graph* least = known ? nullptr : graph(static_cast<int>(samples_));
  if (least) row = without_missing(std::move(row), *least);
  if (!known) row = with_crossings(std::move(row), *graph(1));
  if (!least) why_.clear();  // nobody has asked for it
  shelf_ = &stock_.of(row), names_layers_ = shardwright::has_layers(*graph(1));
  for (int kind = 0; kind < row.kind_count(); ++kind) has_layers_ = has_layers_ || row.is_layer(kind);
}

Tables& Tables::on(const StageKind& kind) {
  std::unique_ptr<OnKind>& own = kinds_[kind];
  if (!own) {
    PlanRequest request = request_;
    const Cluster& all = *request_.cluster;
    if (kind.only)
      request.cluster = shardwright::kinds_of(all)[*kind.only];
    else
      request.cluster = of_several(all.part(kind.first, kind.count), kind.is_by_shares);
    own = std::make_unique<OnKind>(step_, std::move(request), shelf_->row);
  }
  return own->tables;
}

std::vector<StageKind> Tables::kinds_of(const Constraints& s) const {
  std::vector<StageKind> out;
  const int devices = stage_devices(s);
  for (int stage = 0; stage < stages_of(s); ++stage) {
    const int first = stage * devices;
    const auto only = kind_of(*request_.cluster, first, devices);
    out.push_back(only ? StageKind{.only = only}
                       : StageKind{{}, first, devices, static_cast<bool>(s.batch_shares)});
  }
  return out;
}

Cluster Tables::devices_of(const Constraints& s) const {
  const Cluster& all = *request_.cluster;
  if (is_on_fastest(s))
    return s.batch_shares ? fastest_stage_by_shares(all, stage_devices(s))
                          : fastest_part(all, stage_devices(s));
  if (all.kinds.empty()) return all.part(0, stage_devices(s));
  Cluster out = of_several(all, static_cast<bool>(s.batch_shares));
  out.kinds.clear();
  return out.part(0, stage_devices(s));
}

const Graph* Tables::graph(int micro_batches) {
  if (micro_batches < 1) return nullptr;
  const auto [it, is_new] = graphs_.try_emplace(micro_batches);
  if (is_new && micro_batches == 1)
    it->second = step_(interleave_);  // whose error is the user's
  else if (is_new)
    it->second = attempt(why_, [&] { return step_(micro_batches * interleave_); });
  return it->second ? &*it->second : nullptr;
}

const Network* Tables::network(int micro_batches, int summed, const Row& row) {
  const auto [it, is_new] =
      shelf_->networks.try_emplace(std::tuple(micro_batches * interleave_, summed, &row == &shelf_->whole));
  auto& [network, why] = it->second;
  const Graph* made = is_new ? graph(micro_batches) : nullptr;
  if (made)
    network = attempt(why_, [&] { return std::make_unique<Network>(*made, row, summed); }).value_or(nullptr);
  if (is_new && !network) why = why_;
  if (!network && !why.empty()) why_ = why;
  return network.get();
}

/// Null where the structure cannot split one of them.
const Pieces* Tables::figures(const Constraints& s, int summed, Backward backward) {
  const Row& pieces = row(s);
  const bool is_step = stages_of(s) == 1 && contexts_of(s) == 1 && replicas_of(s) > 1;
  const KeyOfPieces key(of_pieces(s), summed, &pieces == &shelf_->whole, is_on_fastest(s), backward, is_step);
  const auto [it, is_new] = figures_.try_emplace(key);
  if (!is_new) return it->second.get();
  const Network* network = this->network(*s.micro_batches, summed, pieces);
  if (!network) return nullptr;
  // Only layers are computed again; of a network that has none, what the mode says of all of it.
  const bool repeats_layers = mode_of(s) == RecomputeMode::full && pieces.size() > 1;
  Constraints kept = s;
  kept.recompute = RecomputeMode::none;
  const Pieces* others = repeats_layers ? figures(kept, summed, backward) : nullptr;
  if (repeats_layers && !others) return nullptr;
  auto made = attempt(why_, [&] {  // else of a dim that does not divide
    const Cluster stage = devices_of(s);
    const FiguresFor what{request_, stage, summed, backward, is_step, names_layers_};
    auto out = std::make_unique<Pieces>();
    for (int k = 0; k < pieces.kind_count(); ++k)
      out->push_back(others && !pieces.is_layer(k)
                         ? (*others)[at(k)]
                         : stock_.figures(network->piece(k), pieces.is_layer(k), s, what));
    return out;
  });
  return (figures_.at(key) = std::move(made).value_or(nullptr)).get();
}

/// Layers in a row take less than each by itself: what is selected to be computed again is chosen over all of them, so that
/// one keeps for another what it would compute again; and with sequence parallelism one gathers while the other computes.
/// What that is of a sample is known from `of_samples`: of more samples no more.
void Tables::let_layers_share(Pieces& pieces, const Constraints& s, std::int64_t of_samples) {
  if (mode_of(s) != RecomputeMode::selected && !splits_sequence(s)) return;
  const double times = static_cast<double>(samples_of_device(s)) / static_cast<double>(of_samples);
  const Pieces& shared = shared_by_layers(s, of_samples);
  for (std::size_t k = 0; k < shared.size(); ++k) {
    Figures& f = pieces[k];
    f.forward -= std::min(f.forward / 2, times * shared[k].forward);
    f.backward -= std::min(f.backward / 2, times * shared[k].backward);
    const double kept = times * shared[k].kept;
    f.kept -= kept, f.passing += kept, f.working += kept;  // of one it is there again
  }
}

const Pieces& Tables::shared_by_layers(Constraints s, std::int64_t samples) {
  const int summed = summed_of(pipelining_of(s));
  Constraints kind = of_pieces(without_replicas(s));
  kind.micro_batches.reset();
  const auto [it, is_new] =
      shared_.try_emplace({kind, samples, summed, &row(s) == &shelf_->whole, is_on_fastest(s)});
  const Pieces* one = is_new ? alone(s, samples) : nullptr;
  if (!one) return it->second;
  s = without_replicas(s);
  s.micro_batches = static_cast<int>(samples_ / samples / replicas_of(s));
  const Cluster stage = devices_of(s);
  const Network* network = this->network(*s.micro_batches, summed, row(s));
  for (std::size_t k = 0; k < one->size(); ++k) {
    Figures& shared = it->second.emplace_back();
    const Network::Part* pair = network->pair(static_cast<int>(k));
    if (!pair) continue;
    const FiguresFor what{request_, stage, summed, Backward::alone, false, names_layers_};
    const Figures two = stock_.figures(*pair, true, s, what);
    // What is selected is chosen anew of all layers; what is gathered is there for the next one, too.
    if (mode_of(s) == RecomputeMode::selected) shared.kept = (*one)[k].kept - two.kept / 2;
    if (mode_of(s) == RecomputeMode::none) shared.kept = 2 * (*one)[k].kept - two.kept;
    if (!splits_sequence(s)) continue;
    shared.forward = std::max(0.0, 2 * (*one)[k].forward - two.forward);
    shared.backward = std::max(0.0, 2 * (*one)[k].backward - two.backward);
  }
  return it->second;
}

/// With so many samples on each of its devices and alone, where nothing but samples passes between replicas: with several
/// micro-batches that are summed, gradients wait for the update.
Tables::BesideReplicas Tables::beside_replicas(Constraints s, std::int64_t samples) {
  constexpr int summed = 2;
  s.micro_batches = static_cast<int>(samples_ / samples / replicas_of(s));
  s.zero = 0;
  BesideReplicas out{.together = figures(s, summed)};
  s = without_replicas(s);
  s.micro_batches = static_cast<int>(samples_ / samples / replicas_of(s));
  out.alone = figures(s, summed);
  return out;
}

bool Tables::replicas_wait(Constraints s) {
  if (replicas_of(s) == 1 || !are_shares_even(s)) return false;
  if (replicas_wait_) return *replicas_wait_;
  s.degrees.share(Sharing::work, 1);
  s.degrees.share(Sharing::experts, std::nullopt);
  s.sequence_parallel = false;
  s.recompute = RecomputeMode::none;
  const BesideReplicas beside = beside_replicas(s, samples_of_device(s));
  if (!beside) return false;
  double all = 0, waits = 0;  // of a micro-batch's forward; for its loss alone they may
  for (std::size_t k = 0; k < beside.alone->size(); ++k) {
    const auto times = static_cast<double>(std::ranges::count(row(s).kinds, static_cast<int>(k)));
    all += times * (*beside.alone)[k].forward, waits += times * beside.more(k, &Figures::forward);
  }
  replicas_wait_ = waits > 0.005 * all;
  return *replicas_wait_;
}

/// Where neighbours have wires of their own, what a few devices send each other goes by those of the others, too, if the
/// stage has more: tensor parallelism waits less than alone.
void Tables::take_detours(Pieces& pieces, const Constraints& s) {
  const auto has_wires = [](const LinkLevel& l) { return l.wiring != Wiring::switched; };
  if (!has_replicas(s) || shards_of(s) == 1 || !are_shares_even(s) || replicas_wait(s) ||
      std::ranges::none_of(request_.cluster->links, has_wires))
    return;
  const BesideReplicas of_one = beside_replicas(s, 1);
  const auto samples = static_cast<double>(samples_of_device(s));
  for (std::size_t k = 0; of_one && k < pieces.size(); ++k)
    for (double Figures::*part : {&Figures::forward, &Figures::backward, &Figures::kept, &Figures::working})
      pieces[k].*part += samples * of_one.more(k, part);
}

void Tables::wait_for_replicas(Pieces& pieces, const Constraints& s) {
  if (!replicas_wait(s)) return;
  const BesideReplicas beside = beside_replicas(s, samples_of_device(s));
  for (std::size_t k = 0; beside && k < pieces.size(); ++k)
    for (auto part : {&Figures::forward, &Figures::backward, &Figures::kept, &Figures::working})
      pieces[k].*part += std::max(0.0, beside.more(k, part));
}

/// What is known of pieces by themselves, in a network and on the devices of a stage.
Pieces Tables::among_others(Pieces pieces, const Constraints& s, std::int64_t of_samples) {
  let_layers_share(pieces, s, divisor_below(of_samples));
  take_detours(pieces, s);
  return pieces;
}

bool Tables::differs_by_sequence(Constraints s) {
  s.recompute = RecomputeMode::none;
  const Pieces* with = alone(s);
  s.sequence_parallel = false;
  const Pieces* without = alone(s);
  const auto same = [](const Figures& a, const Figures& b) {
    return a.forward == b.forward && a.backward == b.backward && a.kept == b.kept && a.working == b.working;
  };
  return !with || !without || !std::ranges::equal(*with, *without, same);
}

const Pieces* Tables::between_divisors(const Constraints& s, std::int64_t samples, RecomputeMode recompute) {
  Constraints kind = of_pieces(without_replicas(s));
  kind.micro_batches.reset();
  kind.recompute = recompute;
  const auto [it, is_new] = between_.try_emplace(
      {kind, samples, summed_of(pipelining_of(s)), &row(s) == &shelf_->whole, is_on_fastest(s)});
  if (is_new) {
    const std::int64_t below = divisor_below(samples);
    std::int64_t above = samples;
    while (samples_ % above) ++above;
    const Pieces *few = alone(s, below, recompute), *more = alone(s, above, recompute);
    const double share = static_cast<double>(samples - below) / static_cast<double>(above - below);
    for (std::size_t k = 0; few && more && k < few->size(); ++k)
      it->second.push_back(between((*few)[k], (*more)[k], share));
  }
  return it->second.empty() ? nullptr : &it->second;
}

const Pieces* Tables::alone(Constraints s, std::int64_t samples_of_device, RecomputeMode recompute,
                            Backward backward) {
  if (samples_of_device > samples_) return nullptr;
  if (samples_ % samples_of_device) return between_divisors(s, samples_of_device, recompute);
  const int summed = summed_of(pipelining_of(s));
  s = without_replicas(s);
  s.micro_batches = static_cast<int>(samples_ / samples_of_device / replicas_of(s));
  s.recompute = recompute;
  return figures(s, summed, backward);
}

/// Several replicas are as near to each other as the devices of tensor parallelism.
bool Tables::shares_links(const Constraints& s) const {
  const auto joins = [&](const LinkLevel& l) { return l.devices >= shards_of(s); };
  const auto link = std::ranges::find_if(request_.cluster->links, joins);
  return shards_of(s) > 1 && link != request_.cluster->links.end() && link->devices > shards_of(s);
}

/// Where there is no part of the batch for one device, or of its sequences: with the waiting for other replicas.
std::optional<Pieces> Tables::as_it_is(const Constraints& s) {
  const Pieces* all = figures(s, summed_of(pipelining_of(s)));
  return all ? std::optional(waited_for(*all)) : std::nullopt;
}

std::optional<Pieces> Tables::of_stage(const Constraints& s) {
  if (contexts_of(s) > 1) return as_it_is(s);
  const bool is_at_once = !has_replicas(s) && stages_of(s) == 1 && pipelining_of(s).batch_parts() == 1;
  const Pieces* own =
      alone(s, samples_of_device(s), mode_of(s), is_at_once ? Backward::with_update : Backward::alone);
  if (!own) return as_it_is(s);
  Pieces out = among_others(waited_for(*own), s, samples_of_device(s));
  wait_for_replicas(out, s);
  if (!has_replicas(s)) return out;
  // Of one sample for each device, where there can be so few and each has as many.
  const Pieces *shared = nullptr, *unshared = nullptr;
  BesideReplicas waited;
  const bool is_even = are_shares_even(s);
  for (std::int64_t samples : {is_even ? 1 : samples_of_device(s), samples_of_device(s)}) {
    Constraints few = s;
    if (is_even) few.micro_batches = static_cast<int>(samples_ / samples / replicas_of(s));
    few.recompute = RecomputeMode::none;
    shared = figures(few, summed_of(pipelining_of(s)));
    unshared = alone(s, samples, RecomputeMode::none);
    if (replicas_wait(s)) waited = beside_replicas(s, samples);
    if (shared && unshared) break;
  }
  if (!shared || !unshared) return as_it_is(s);
  for (std::size_t k = 0; k < out.size(); ++k) {
    const Figures &with = (*shared)[k], &without = (*unshared)[k];
    Figures& f = out[k];
    for (const Phase pass : {Phase::forward, Phase::backward})
      f.transfers[pass] = std::max(
          0.0,
          with.transfers[pass] - without.transfers[pass] -
              (waited ? waited.more(k, pass == Phase::forward ? &Figures::forward : &Figures::backward) : 0));
    f.transfers[Phase::update] = with.transfers[Phase::update];
    f.late = with.late, f.starts = with.starts, f.gradient_transfers = with.gradient_transfers;
    if (shares_links(s))
      f.contended = {(*own)[k].transfers[Phase::forward], (*own)[k].transfers[Phase::backward]};
    f.update = with.update, f.parameters = with.parameters, f.states = with.states, f.sums = with.sums;
    f.least_gradients = with.least_gradients, f.returned = with.returned;
    if (level_of(s) >= 2) f.passing = f.working + with.moving;
    // What is shared is gathered and reduced piece by piece; the gradients of one piece come all at once.
    f.gradients = level_of(s) >= 2 ? sharded(without, level_of(s), replicas_of(s)).gradients : with.gradients;
  }
  return out;
}

/// Of as many samples as a device has, or fewer that divide the batch; replicas wait for each other in either half.
void Tables::split_backwards(Pieces& pieces, Constraints s) {
  const std::int64_t here = samples_of_device(s), samples = divisor_below(here);
  const int summed = summed_of(pipelining_of(s));
  if (contexts_of(s) == 1) s = without_replicas(s);
  s.micro_batches = static_cast<int>(samples_ / samples / replicas_of(s));
  const Pieces* halves = figures(s, summed, Backward::in_two);
  const double times = static_cast<double>(here) / static_cast<double>(samples);
  for (std::size_t k = 0; halves && k < halves->size(); ++k) {
    const Figures& half = (*halves)[k];
    Figures& f = pieces[k];
    f.weights = std::min(f.backward, times * half.weights);
    f.to_inputs = std::min(f.kept, times * half.to_inputs), f.left = times * half.left;
  }
}

std::optional<Pieces> Tables::at_least(const Constraints& s, std::int64_t fewest) {
  if (contexts_of(s) > 1) return as_it_is(s);
  const std::int64_t few = fewest, more = 2 * few, here = samples_of_device(s);
  if (const Pieces* own = (here <= more && are_shares_even(s)) || samples_ % more ? alone(s) : nullptr)
    return among_others(passes_alone(*own), s, here);
  Constraints kept = s;
  kept.recompute = RecomputeMode::none;
  const Pieces *one = alone(kept, few), *two = alone(kept, more);
  const Pieces *bytes = alone(s, few), *more_bytes = alone(s, more);
  if (!one || !two || !bytes || !more_bytes) return as_it_is(s);
  Pieces out = passes_alone(*bytes);
  const double times = static_cast<double>(here) / static_cast<double>(few);
  for (std::size_t k = 0; k < out.size(); ++k) {
    const auto beyond = [&](const Pieces& least, const Pieces& twice, double Figures::*part) {
      const double first = least[k].*part, slope = twice[k].*part - first;
      return std::max(first, first + (times - 1) * slope);
    };
    out[k].forward = beyond(*one, *two, &Figures::forward);
    out[k].backward = beyond(*one, *two, &Figures::backward);
    // Some of what is kept does not depend on samples.
    out[k].kept = beyond(*bytes, *more_bytes, &Figures::kept);
    out[k].scores = beyond(*bytes, *more_bytes, &Figures::scores);
  }
  return among_others(std::move(out), s, few);
}

const std::vector<OfLives>& Tables::slots(const Pipelining& p) {
  // Beyond the warm-up more micro-batches need no more slots, unless all are alive.
  Pipelining few = p;
  const int enough = 4 * p.parts();
  const bool is_given = p.schedule.order == ChunkOrder::table;
  if (!is_given && p.schedule.name != "gpipe" && p.micro_batches > enough + p.stages)
    few.micro_batches = enough + p.micro_batches % p.stages;
  const auto [it, is_new] = slots_.try_emplace(few);
  const bool are_all = p.schedule.name == "gpipe" && p.stages > 1;
  const OfLives all{p.micro_batches, p.micro_batches, p.micro_batches};
  if (is_new) it->second = are_all ? std::vector<OfLives>(at(p.parts()), all) : slots_of_parts(few);
  return it->second;
}

}  // namespace shardwright::automatic
