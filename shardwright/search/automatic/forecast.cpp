#include "shardwright/search/automatic/forecast.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace shardwright::search {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

class Cut {
 public:
  Cut(const Pipelining& p, const ForecastOf& what)
      : pieces_(what.row.kinds),
        figures_(what.figures),
        p_(p),
        cap_(p.schedule.chunks > 1 ? std::numeric_limits<double>::infinity() : what.cap_bytes),
        slots_(what.slots) {}

  /// The parts with which all end soonest; `fits`: of those whose stages fit; empty if there are none.
  std::vector<int> best(bool fits) const {
    double least = 0, most = 0;
    for (int k : pieces_) {
      least = std::max(least, of(k).pass());
      most += of(k).pass();
    }
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

  double pass(int begin, int end) const {
    double out = 0;
    for (int i = begin; i < end; ++i) out += of(pieces_[at(i)]).pass();
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
      double pass = 0;
      Held held;
      const int begin = piece;
      while (piece < count - (parts - 1 - part)) {
        const Figures& next = of(pieces_[at(piece)]);
        pass += next.pass();
        held.add(next);
        const bool is_over = before + p_.micro_batches * pass > seconds * (1 + 1e-9) ||
                             (fits && held.bytes(slots_[at(part)]) > cap_);
        if (is_over && (piece > begin || fits)) break;
        ++piece;
        if (is_over) break;
      }
      if (piece == begin) return {};
      if (p_.schedule.chunks == 1) before += pass;
    }
    return piece == count ? out : std::vector<int>{};
  }

  const std::vector<int>& pieces_;
  const std::vector<Figures>& figures_;
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
    seconds[device] += cut.pass(begin, end);
    bytes[device] += cut.bytes(part, begin, end);
    double reduction = 0, hidden = 0;
    for (int i = begin; i < end; ++i) {
      const Figures& f = what.figures[at(what.row.kinds[at(i)])];
      updates[device] += f.update;
      reduction += f.reduction;
      hidden += what.cluster.overlap * f.backward;
    }
    updates[device] += std::max(0.0, reduction - hidden);
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

Passes passes_of(const Row& row, const std::vector<Figures>& figures) {
  Passes out;
  for (int k : row.kinds) {
    out.all += figures[at(k)].pass();
    out.longest = std::max(out.longest, figures[at(k)].pass());
  }
  return out;
}

double least_seconds(const Passes& passes, const Pipelining& p) {
  const double passed = 1.0 * p.micro_batches * p.schedule.chunks;
  const double all = passes.all / p.schedule.chunks / -std::expm1(p.stages * std::log1p(-1 / passed));
  return std::max(all, p.micro_batches * passes.longest);
}

}  // namespace shardwright::search
