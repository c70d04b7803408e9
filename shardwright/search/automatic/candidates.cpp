#include "shardwright/search/automatic/candidates.h"

#include <numeric>
#include <utility>

namespace shardwright::search {
namespace {

/// Programs may hold less than figures say, by so much.
constexpr double spare = 1.04;

}  // namespace

std::string to_text(const Candidate& c, double at_least) {
  const Forecast& f = c.forecast;
  const int again = std::accumulate(f.again.begin(), f.again.end(), 0);
  return fmt::format("{}: at least {:.4g} s, forecast {:.4g} s and {:.4g} GB{}{}", to_text(c.structure),
                     at_least, f.seconds, f.bytes * 1e-9,
                     again ? fmt::format(", {} pieces computed again", again) : "",
                     c.is_close ? ", which hardly fits"
                     : f.fits   ? ""
                                : ", which does not fit");
}

std::optional<double> Candidates::least_seconds(const Structure& s) {
  std::optional<Pieces> least = bounds_.pieces(s);
  if (!least) return std::nullopt;
  auto again = this->again(s, *least, [&](const Structure& all) { return bounds_.pieces(all); });
  if (s.repeats_layers && !again) return std::nullopt;
  for (Pieces* pieces : {&*least, again ? &*again : nullptr})
    for (std::size_t k = 0; pieces && k < pieces->size(); ++k)
      (*pieces)[k] = sharded((*pieces)[k], s.zero, s.degrees.data);
  const Candidate c = within(s, *least, again, spare * cap_);
  if (c.forecast.fits) return c.forecast.least_seconds;
  remember(c);
  return std::nullopt;
}

std::optional<Candidate> Candidates::forecast(const Structure& s) {
  const auto pieces = tables_.of_stage(s);
  if (!pieces) return std::nullopt;
  const auto again = this->again(s, *pieces, [&](const Structure& all) { return tables_.of_stage(all); });
  if (s.repeats_layers && !again) return std::nullopt;
  ++forecasts_;
  Candidate out = within(s, *pieces, again, cap_);
  if (!out.forecast.fits) {
    out = within(s, *pieces, again, spare * cap_);
    out.is_close = true;
  }
  if (!out.is_close) fit_.insert(to_text(s));
  if (!out.forecast.fits) remember(out);
  return out;
}

bool Candidates::is_needless(Structure s) const {
  const bool repeats_layers = std::exchange(s.repeats_layers, false);
  for (const RecomputeMode less : {RecomputeMode::none, RecomputeMode::selected}) {
    if (less > s.recompute || (less == s.recompute && !repeats_layers)) break;
    Structure other = s;
    other.recompute = less;
    if (fit_.contains(to_text(other))) return true;
  }
  return false;
}

/// What the pieces of `s` take if all layers are computed again; nothing where none may be, or cannot be made.
std::optional<Pieces> Candidates::again(
    const Structure& s, const Pieces& kept,
    const std::function<std::optional<Pieces>(const Structure&)>& pieces_of) {
  if (!s.repeats_layers) return std::nullopt;
  Structure all = s;
  all.repeats_layers = false;
  all.recompute = RecomputeMode::full;
  std::optional<Pieces> out = pieces_of(all);
  for (std::size_t k = 0; out && k < out->size(); ++k)
    if (!tables_.row(s).is_layer(static_cast<int>(k))) (*out)[k] = kept[k];
  return out;
}

Candidate Candidates::within(const Structure& s, const Pieces& pieces, const std::optional<Pieces>& again,
                             double bytes) {
  return {s, forecast_of(s, {tables_.row(s), pieces, again ? &*again : nullptr, tables_.slots(s.pipelining),
                             cluster_, bytes})};
}

void Candidates::remember(const Candidate& c) {
  if (!least_ || c.forecast.bytes < least_->forecast.bytes) least_ = c;
}

}  // namespace shardwright::search
