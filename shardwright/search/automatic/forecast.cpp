#include "shardwright/search/automatic/forecast.h"

#include <algorithm>
#include <limits>

namespace shardwright::search {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

class Cut {
 public:
  Cut(const Network& network, const std::vector<Figures>& figures, const Structure& s, double cap)
      : pieces_(network.pieces()), figures_(figures), p_(s.pipelining), cap_(cap) {
    for (int part = 0; part < p_.parts(); ++part) slots_.push_back(micro_batches_of(p_, part).slots);
  }

  /// The parts whose slowest is fastest. `fits`: of those whose stages fit; empty if there are none.
  std::vector<int> best(bool fits) const {
    double least = 0, most = 0;
    for (int k : pieces_) {
      least = std::max(least, of(k).pass());
      most += of(k).pass();
    }
    if (begun(most, fits).empty()) return {};
    constexpr int halvings = 30;
    for (int i = 0; i < halvings && most > least * (1 + 1e-6); ++i) {
      const double middle = (least + most) / 2;
      (begun(middle, fits).empty() ? least : most) = middle;
    }
    return begun(most, fits);
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

  /// Each part as long as `seconds` and memory let it be; empty if that is not all.
  std::vector<int> begun(double seconds, bool fits) const {
    const int count = static_cast<int>(pieces_.size()), parts = p_.parts();
    std::vector<int> out;
    int piece = 0;
    for (int part = 0; part < parts; ++part) {
      out.push_back(piece);
      double pass = 0;
      Held held;
      const int begin = piece;
      while (piece < count - (parts - 1 - part)) {
        const Figures& next = of(pieces_[at(piece)]);
        pass += next.pass();
        held.add(next);
        const bool is_over = pass > seconds * (1 + 1e-9) || (fits && held.bytes(slots_[at(part)]) > cap_);
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
  const Pipelining& p_;
  double cap_;
  std::vector<int> slots_;  // per part
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

Forecast forecast_of(const Network& network, const std::vector<Figures>& figures, const Structure& s,
                     const Cluster& cluster, double cap_bytes) {
  const Pipelining& p = s.pipelining;
  const int count = static_cast<int>(network.pieces().size());
  if (count < p.parts())
    throw Infeasible(
        fmt::format("{} stages: the network has {} layers; ask for fewer stages", p.parts(), count));
  const Cut cut(network, figures, s,
                p.schedule.chunks > 1 ? std::numeric_limits<double>::infinity() : cap_bytes);
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
      const Figures& f = figures[at(network.pieces()[at(i)])];
      updates[device] += f.update;
      reduction += f.reduction;
      hidden += cluster.overlap * f.backward;
    }
    updates[device] += std::max(0.0, reduction - hidden);
  }
  const double slowest = *std::ranges::max_element(seconds);
  double all = 0;
  for (double s_ : seconds) all += s_;
  out.seconds =
      p.micro_batches * slowest + (all - slowest) / p.schedule.chunks + *std::ranges::max_element(updates);
  if (p.stages > 1) out.seconds += 2 * (p.stages - 1) * crossing_seconds(figures, s, cluster);
  out.bytes = *std::ranges::max_element(bytes);
  out.fits = out.fits && out.bytes <= cap_bytes;
  return out;
}

double least_seconds(const Network& network, const std::vector<Figures>& figures, const Structure& s) {
  const Pipelining& p = s.pipelining;
  double all = 0, longest = 0;
  for (int k : network.pieces()) {
    all += figures[at(k)].pass();
    longest = std::max(longest, figures[at(k)].pass());
  }
  const double slowest = std::max(all / p.stages, longest);
  return p.micro_batches * slowest + (all - slowest) / p.schedule.chunks * (p.stages > 1 ? 1 : 0);
}

}  // namespace shardwright::search
