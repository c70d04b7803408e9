#include "shardwright/search/automatic/forecast.h"

#include <algorithm>
#include <array>
#include <limits>

#include "shardwright/search/automatic/pipeline_seconds.h"

namespace shardwright::search {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// What a stage takes of time. Transfers go on beside compute at the pace `overlap`.
class StageSeconds {
 public:
  explicit StageSeconds(double overlap) : overlap_(overlap) {}

  void add(const Figures& f) {
    forward_ += f.forward, backward_ += f.backward, update_ += f.update;
    for (std::size_t phase = 0; phase < 3; ++phase) transfers_[phase] += f.transfers[phase];
    for (std::size_t phase = 0; phase < 2; ++phase) contended_[phase] += f.contended[phase];
  }

  Pass pass() const { return {with_transfers(0, forward_), with_transfers(1, backward_)}; }
  /// What tensor parallelism takes longer, as it has half of the links while replicas have the others.
  Pass contention() const { return {contention(0, forward_), contention(1, backward_)}; }
  double update() const { return with_transfers(2, update_); }

 private:
  double with_transfers(std::size_t phase, double beside) const {
    return beside + std::max(0.0, transfers_[phase] - overlap_ * beside);
  }

  double contention(std::size_t phase, double beside) const {
    return beside > 0 ? contended_[phase] * std::min(1.0, transfers_[phase] / beside) : 0;
  }

  double overlap_;
  double forward_ = 0, backward_ = 0, update_ = 0;
  std::array<double, 3> transfers_ = {};
  std::array<double, 2> contended_ = {};
};

class Cut {
 public:
  Cut(const Pipelining& p, const ForecastOf& what)
      : pieces_(what.row.kinds),
        figures_(what.figures),
        overlap_(what.cluster.overlap),
        p_(p),
        cap_(p.schedule.chunks > 1 ? std::numeric_limits<double>::infinity() : what.cap_bytes),
        slots_(what.slots) {}

  /// The parts with which all end soonest; `fits`: of those whose stages fit; empty if there are none.
  std::vector<int> best(bool fits) const {
    double least = 0, most = 0;
    const Pass all = seconds(0, static_cast<int>(pieces_.size())).pass();
    for (int stage = 0; stage < p_.stages; ++stage) most = std::max(most, seconds_of_stage(p_, stage, all));
    std::vector<int> out = begun(most, fits);
    constexpr int halvings = 24;
    for (int i = 0; i < halvings && !out.empty() && most > least * (1 + 1e-5); ++i) {
      const double middle = (least + most) / 2;
      std::vector<int> other = begun(middle, fits);
      if (other.empty()) {
        least = middle;
      } else {
        most = middle;
        out = std::move(other);
      }
    }
    return out;
  }

  /// Bytes of a part that has the pieces from `begin` to `end`.
  double bytes(int part, int begin, int end) const {
    Held held;
    for (int i = begin; i < end; ++i) held.add(of(pieces_[at(i)]));
    return held.bytes(slots_[at(part)]);
  }

  StageSeconds seconds(int begin, int end) const {
    StageSeconds out(overlap_);
    for (int i = begin; i < end; ++i) out.add(of(pieces_[at(i)]));
    return out;
  }

 private:
  const Figures& of(int kind) const { return figures_[at(kind)]; }

  /// What a device holds of pieces in a row. The backward frees what the last of them keeps first, and leaves gradients.
  struct Held {
    double lasting = 0, kept = 0, gradients = 0;
    double most =
        0;  // in the backward of one of them: what those in front keep, without the gradients behind

    void add(const Figures& f) {
      lasting += f.lasting();
      kept += f.kept;
      gradients += f.gradients;
      most = std::max(most, kept + f.passing - gradients);
    }
    double bytes(int slots) const { return lasting + (slots - 1) * kept + most + gradients; }
  };

  /// Each part as long as memory and `seconds`, of what depends on its stage alone, let it be; empty if that is not all.
  /// A device with V chunks is as if each of them were all that it has.
  std::vector<int> begun(double seconds, bool fits) const {
    const int count = static_cast<int>(pieces_.size()), parts = p_.parts();
    std::vector<int> out;
    int piece = 0;
    for (int part = 0; part < parts; ++part) {
      out.push_back(piece);
      StageSeconds taken(overlap_);
      Held held;
      const int begin = piece;
      while (piece < count - (parts - 1 - part)) {
        const Figures& next = of(pieces_[at(piece)]);
        taken.add(next);
        held.add(next);
        const bool is_over = seconds_of_stage(p_, part % p_.stages, taken.pass()) > seconds * (1 + 1e-9) ||
                             (fits && held.bytes(slots_[at(part)]) > cap_);
        if (is_over && (piece > begin || fits)) break;
        ++piece;
        if (is_over) break;
      }
      if (piece == begin) return {};
    }
    return piece == count ? out : std::vector<int>{};
  }

  const std::vector<int>& pieces_;
  const std::vector<Figures>& figures_;
  double overlap_;
  const Pipelining& p_;
  double cap_;
  const std::vector<int>& slots_;  // per part
};

/// Seconds of what crosses between neighbouring stages, one way.
double crossing_seconds(const std::vector<Figures>& figures, const Structure& s, const Cluster& cluster) {
  double bytes = 0;
  for (const Figures& f : figures) bytes = std::max(bytes, f.received);
  const auto joins = [&](const LinkLevel& l) { return l.devices >= 2 * s.stage_devices(); };
  const auto link = std::ranges::find_if(cluster.links, joins);
  const LinkLevel& l = link == cluster.links.end() ? cluster.links.back() : *link;
  return l.start_seconds + l.latency_seconds + bytes / (l.bytes_per_second * cluster.link_efficiency);
}

}  // namespace

Forecast forecast_of(const Structure& s, const ForecastOf& what) {
  const Pipelining& p = s.pipelining;
  const int count = what.row.size();
  if (count < p.parts())
    throw Infeasible(
        fmt::format("{} stages: the network has {} layers; ask for fewer stages", p.parts(), count));
  const Cut cut(p, what);
  Forecast out{.first = cut.best(true), .fits = true};
  if (out.first.empty()) out = {.first = cut.best(false), .fits = false};
  std::vector<Pass> passes(at(p.stages)), contended(at(p.stages));
  std::vector<double> bytes(at(p.stages), 0), updates(at(p.stages), 0);
  for (int part = 0; part < p.parts(); ++part) {
    const std::size_t device = at(part % p.stages);
    const int begin = out.first[at(part)], end = part + 1 < p.parts() ? out.first[at(part) + 1] : count;
    const StageSeconds taken = cut.seconds(begin, end);
    passes[device] += taken.pass();
    contended[device] += taken.contention();
    updates[device] += taken.update();
    bytes[device] += cut.bytes(part, begin, end);
  }
  const double crossing = p.stages > 1 ? crossing_seconds(what.figures, s, what.cluster) : 0;
  const double update = *std::ranges::max_element(updates);
  out.least_seconds = pipeline_seconds(p, passes, crossing) + update;
  for (std::size_t stage = 0; stage < passes.size(); ++stage) passes[stage] += contended[stage];
  out.seconds = pipeline_seconds(p, passes, crossing) + update;
  out.bytes = *std::ranges::max_element(bytes);
  out.fits = out.fits && out.bytes <= what.cap_bytes;
  return out;
}

double least_seconds(const Pipelining& p, const Row& row, const std::vector<Figures>& figures) {
  Pass all;
  double longest = 0;  // piece, in a micro-batch
  for (int k : row.kinds) {
    const Figures& f = figures[at(k)];
    all.forward += f.forward, all.backward += f.backward;
    longest = std::max(longest, f.forward + f.backward);
  }
  return std::max(least_pipeline_seconds(p, all), p.micro_batches * longest);
}

}  // namespace shardwright::search
