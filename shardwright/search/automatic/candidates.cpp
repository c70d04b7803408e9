#include "shardwright/search/automatic/candidates.h"

#include <algorithm>
#include <utility>

namespace shardwright::automatic {
namespace {

/// Programs may hold less than figures say, or more, by so much.
constexpr double spare = 1.04;

}  // namespace

Candidate with_more_again(const Candidate& c, std::optional<Candidate> more) {
  if (!more) return c;
  more->number = c.number;
  more->least_seconds = c.least_seconds;
  more->program_bytes = c.program_bytes;
  more->times_too_large = c.times_too_large;
  return *std::move(more);
}

bool is_like_one_that_fits(const Candidate& c, const std::vector<Candidate>& others) {
  return std::ranges::any_of(others, [&](const Candidate& other) {
    Constraints same = other.structure;
    same.zero = level_of(c.structure);
    if (c.layers_again == 0) same.recompute->layers = repeats_layers(c.structure);  // as few as none
    return other.fits && same == c.structure && level_of(other.structure) <= level_of(c.structure) &&
           other.forecast.seconds <= c.forecast.seconds;
  });
}

Candidate* fastest_untried(std::vector<Candidate>& all, double Forecast::*seconds) {
  Candidate* best = nullptr;
  for (Candidate& c : all)
    if (!c.is_tried && !c.is_close && (!best || c.forecast.*seconds < best->forecast.*seconds)) best = &c;
  return best;
}

PlanRequest with_candidate(const PlanRequest& request, const Candidate& c, const Graph& graph,
                           const Row& row) {
  const Constraints& s = c.structure;
  PlanRequest out = with_structure(request, s);
  if (repeats_layers(s))
    out.constraints.recomputed = layers_again(graph, row, c.forecast.first, c.forecast.again,
                                              recompute_options(RecomputeMode::full, splits_sequence(s)));
  if (stages_of(s) > 1) out.stage_of = stage_of(graph, row, c.forecast.first);
  return out;
}

std::optional<Candidates::AtLeast> Candidates::at_least(const Constraints& s) {
  std::optional<Pieces> least = bounds_.pieces(s);
  if (!least) return std::nullopt;
  auto again = this->again(s, *least, [&](const Constraints& all) { return bounds_.pieces(all); });
  if (repeats_layers(s) && !again) return std::nullopt;
  for (Pieces* pieces : {&*least, again ? &*again : nullptr})
    for (std::size_t k = 0; pieces && k < pieces->size(); ++k)
      if (contexts_of(s) == 1)  // else they are as they are
        (*pieces)[k] = sharded((*pieces)[k], level_of(s), replicas_of(s));
  const Candidate c =
      within(s, {*std::move(least), std::move(again), rooms_of(s)}, spare * cap_, {.only_least = true});
  // Of several chunks a device's memory is not known while stages are cut: others may be a little faster.
  constexpr double of_chunks = 0.985;
  return AtLeast{(schedule_of(s).chunks > 1 ? of_chunks : 1) * c.forecast.least_seconds, c.forecast.bytes,
                 c.forecast.fits};
}

std::optional<Candidate> Candidates::forecast(const Constraints& s, double miss, double worth) {
  std::optional<Candidate> out = made(s, {cap_ / miss, spare * cap_ / miss}, {.worth = worth});
  if (!out) return out;
  ++forecasts_;
  if (out->forecast.fits && spare * out->forecast.bytes <= cap_) fit_.insert(s);
  if (!out->forecast.fits) remember(*out);
  return out;
}

std::optional<double> Candidates::sure_seconds(const Constraints& s) {
  const std::optional<Candidate> out = made(s, {spare * cap_}, {.only_least = true});
  return out ? std::optional(out->forecast.least_seconds) : std::nullopt;
}

/// How much more memory the devices of each stage have than those with least; empty where all have as much.
std::vector<OfStage> Candidates::rooms_of(const Constraints& s) const {
  std::vector<OfStage> out;
  if (rooms_.empty()) return out;
  for (const auto& kind : tables_.kinds_of(s)) out.push_back({.room = kind.only ? rooms_[*kind.only] : 1});
  return out;
}

std::optional<Candidates::Sets> Candidates::sets_of(const Constraints& s, bool is_split) {
  const auto made = [&](Tables& tables) -> std::optional<Sets> {
    auto pieces = tables.of_stage(s);
    if (!pieces) return std::nullopt;
    auto again = this->again(s, *pieces, [&](const Constraints& all) { return tables.of_stage(all); });
    if (repeats_layers(s) && !again) return std::nullopt;
    Constraints all = s;
    all.recompute = RecomputeMode::full;
    if (is_split) tables.split_backwards(*pieces, s);
    if (is_split && again) tables.split_backwards(*again, all);
    return Sets{*std::move(pieces), std::move(again), {}};
  };
  std::optional<Sets> out = made(tables_);
  if (!out || rooms_.empty() || stages_of(s) == 1) return out;
  out->stages = rooms_of(s);
  const auto kinds = tables_.kinds_of(s);
  for (std::size_t stage = 0; stage < kinds.size(); ++stage) {
    const std::tuple key{s, kinds[stage], is_split};
    auto own = of_kinds_.find(key);
    if (own == of_kinds_.end()) {
      auto sets = made(tables_.on(kinds[stage]));
      if (!sets) return std::nullopt;
      own = of_kinds_.emplace(key, *std::move(sets)).first;
    }
    out->stages[stage].figures = &own->second.pieces;
    out->stages[stage].again = own->second.again ? &*own->second.again : nullptr;
  }
  return out;
}

/// Within the first of `caps` that it fits into; close if that is not the first.
std::optional<Candidate> Candidates::made(const Constraints& s, const std::vector<double>& caps,
                                          Asked asked) {
  const bool is_split = schedule_of(s).splits_backward && stages_of(s) > 1 && !asked.only_least;
  const std::optional<Sets> sets = sets_of(s, is_split);
  if (!sets) return std::nullopt;
  std::optional<Candidate> out;
  for (double cap : caps) {
    const bool is_close = out.has_value();
    asked.must_fit = cap != caps.back();
    out = within(s, *sets, cap, asked);
    out->is_close = is_close;
    if (out->forecast.fits) break;
  }
  return out;
}

bool Candidates::is_needless(const Constraints& s) const {
  const bool repeats = repeats_layers(s);
  for (const RecomputeMode less : {RecomputeMode::none, RecomputeMode::selected}) {
    if (less > mode_of(s) || (less == mode_of(s) && !repeats)) break;
    Constraints other = s;
    other.recompute = less;
    if (fit_.contains(other)) return true;
  }
  return false;
}

/// What the pieces of `s` take if all layers are computed again; nothing where none may be, or cannot be made.
std::optional<Pieces> Candidates::again(
    const Constraints& s, const Pieces& kept,
    const std::function<std::optional<Pieces>(const Constraints&)>& pieces_of) {
  if (!repeats_layers(s)) return std::nullopt;
  Constraints all = s;
  all.recompute = RecomputeMode::full;
  std::optional<Pieces> out = pieces_of(all);
  for (std::size_t k = 0; out && k < out->size(); ++k)
    if (!tables_.row(s).is_layer(static_cast<int>(k))) (*out)[k] = kept[k];
  return out;
}

Candidate Candidates::within(const Constraints& s, const Sets& sets, double bytes, const Asked& asked) {
  const Row& row = tables_.row(s);
  const auto& [pieces, again, stages] = sets;
  if (s.offload && s.offload->is_on()) {
    Constraints on_devices = s;
    on_devices.offload.reset();
    const auto of_host = [&](Pieces some) {
      for (Figures& f : some) f = offloaded(f, *s.offload, cluster_);
      return some;
    };
    const Sets hosted{of_host(pieces), again ? std::optional(of_host(*again)) : again, {}};
    Candidate out = within(on_devices, hosted, bytes, asked);
    out.structure = s;
    return out;
  }
  Candidate out{s, forecast_of(s, {.row = row,
                                   .figures = pieces,
                                   .again = again ? &*again : nullptr,
                                   .slots = tables_.slots(pipelining_of(s)),
                                   .cluster = cluster_,
                                   .framework = tables_.framework(),
                                   .cap_bytes = bytes,
                                   .only_least = asked.only_least,
                                   .host_cap_bytes = host_cap_,
                                   .stages = stages,
                                   .must_fit = asked.must_fit,
                                   .worth_seconds = asked.worth})};
  for (std::size_t part = 0; part < out.forecast.first.size(); ++part)
    for (int i = 0; i < out.forecast.again[part]; ++i)
      out.layers_again += row.is_layer(row.kinds[static_cast<std::size_t>(out.forecast.first[part] + i)]);
  return out;
}

void Candidates::remember(const Candidate& misfit) {
  constexpr std::size_t most = 3;
  std::erase_if(misfits_, [&](const Candidate& c) { return c.structure == misfit.structure; });
  const auto figures = [](const Candidate& c) { return std::pair(c.forecast.bytes, c.forecast.seconds); };
  misfits_.insert(std::ranges::upper_bound(misfits_, figures(misfit), {}, figures), misfit);
  if (misfits_.size() > most) misfits_.pop_back();
}

}  // namespace shardwright::automatic
