#include "shardwright/search/automatic/forecast.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace shardwright::search {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// What a stage takes of time. Transfers go on beside compute at the pace `overlap`, but the first gather and the last
/// reduction have nothing beside them.
class StageSeconds {
 public:
  explicit StageSeconds(double overlap) : overlap_(overlap) {}

  void add(const Figures& f) {
    forward_ += f.forward, backward_ += f.backward, update_ += f.update;
    for (std::size_t phase = 0; phase < 3; ++phase) {
      transfers_[phase] += f.transfers[phase];
      longest_[phase] = std::max(longest_[phase], f.transfers[phase]);
    }
  }

  /// Of a micro-batch.
  double pass() const {
    return forward_ + std::max(longest_[0], exposed(0, forward_)) + backward_ +
           std::max(longest_[1], exposed(1, backward_));
  }
  double least_pass() const { return forward_ + exposed(0, forward_) + backward_ + exposed(1, backward_); }
  double update() const { return update_ + exposed(2, update_); }

 private:
  double exposed(std::size_t phase, double beside) const {
    return std::max(0.0, transfers_[phase] - overlap_ * beside);
  }

  double overlap_;
  double forward_ = 0, backward_ = 0, update_ = 0;
  std::array<double, 3> transfers_ = {}, longest_ = {};
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
    double least = 0;
    for (int k = 0; k < static_cast<int>(pieces_.size()); ++k)
      least = std::max(least, seconds(k, k + 1).least_pass());
    double most = 2 * seconds(0, static_cast<int>(pieces_.size())).pass();
    least *= p_.micro_batches, most *= p_.micro_batches + 1;
    std::vector<int> out = begun(most, fits);
    constexpr int halvings = 24;
    for (int i = 0; i < halvings && !out.empty() && most > least * (1 + 1e-4); ++i) {
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

  /// Each part as long as memory and the end of the step at `seconds` let it be; empty if that is not all. A part starts when
  /// those in front have passed it a micro-batch, and ends before they have their last backward. Chunks are even.
  std::vector<int> begun(double seconds, bool fits) const {
    const int count = static_cast<int>(pieces_.size()), parts = p_.parts();
    std::vector<int> out;
    int piece = 0;
    double before = 0;
    for (int part = 0; part < parts; ++part) {
      out.push_back(piece);
      StageSeconds taken(overlap_);
      Held held;
      const int begin = piece;
      while (piece < count - (parts - 1 - part)) {
        const Figures& next = of(pieces_[at(piece)]);
        taken.add(next);
        held.add(next);
        const bool is_over = before + p_.micro_batches * taken.pass() > seconds * (1 + 1e-9) ||
                             (fits && held.bytes(slots_[at(part)]) > cap_);
        if (is_over && (piece > begin || fits)) break;
        ++piece;
        if (is_over) break;
      }
      if (piece == begin) return {};
      if (p_.schedule.chunks == 1) before += this->seconds(begin, piece).pass();
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
  std::vector<double> seconds(at(p.stages), 0), bytes(at(p.stages), 0), updates(at(p.stages), 0);
  for (int part = 0; part < p.parts(); ++part) {
    const std::size_t device = at(part % p.stages);
    const int begin = out.first[at(part)], end = part + 1 < p.parts() ? out.first[at(part) + 1] : count;
    const StageSeconds taken = cut.seconds(begin, end);
    seconds[device] += taken.pass();
    updates[device] += taken.update();
    bytes[device] += cut.bytes(part, begin, end);
  }
  double before = 0;  // of a chunk
  for (int stage = 0; stage < p.stages; ++stage) {
    out.seconds = std::max(out.seconds, before + p.micro_batches * seconds[at(stage)]);
    before += seconds[at(stage)] / p.schedule.chunks;
  }
  out.seconds += *std::ranges::max_element(updates);
  if (p.stages > 1) out.seconds += 2 * (p.stages - 1) * crossing_seconds(what.figures, s, what.cluster);
  out.bytes = *std::ranges::max_element(bytes);
  out.fits = out.fits && out.bytes <= what.cap_bytes;
  return out;
}

double least_seconds(const Structure& s, const Row& row, const std::vector<Figures>& figures,
                     double overlap) {
  const Pipelining& p = s.pipelining;
  StageSeconds all(overlap);
  double longest = 0;  // pass of a piece
  for (int k : row.kinds) {
    all.add(figures[at(k)]);
    longest = std::max(longest, figures[at(k)].forward + figures[at(k)].backward);
  }
  const double passed = 1.0 * p.micro_batches * p.schedule.chunks;
  const double bubble = -std::expm1(p.stages * std::log1p(-1 / passed));
  const double first = std::pow(1 - 1 / passed, p.stages - 1) / passed / bubble;
  return std::max(all.least_pass() / p.schedule.chunks / bubble, p.micro_batches * longest) +
         first * all.update();
}

}  // namespace shardwright::search
