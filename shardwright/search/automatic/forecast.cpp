#include "shardwright/search/automatic/forecast.h"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>

#include "shardwright/base/index.h"
#include "shardwright/search/automatic/pipeline_seconds.h"

namespace shardwright::automatic {
namespace {

/// Programs put transfers of several pieces into one, and begin them earlier: where many small ones are waited for, they were
/// seen to wait for a third of what pieces say.
constexpr double least_waiting = 1.0 / 3;

/// What a stage takes of time. Transfers go on beside compute at the pace `overlap`.
class StageSeconds {
 public:
  explicit StageSeconds(double overlap) : overlap_(overlap) {}

  void add(const Figures& f, double times = 1) {
    forward_ += times * f.forward, backward_ += times * f.backward, update_ += times * f.update;
    for (Phase phase : {Phase::forward, Phase::backward, Phase::update})
      transfers_[phase] += times * f.transfers[phase];
    for (std::size_t phase = 0; phase < 2; ++phase) contended_[phase] += times * f.contended[phase];
  }

  /// `waiting`: so much of the transfers that compute does not hide is waited for.
  Pass pass(double waiting = 1) const {
    return {with_transfers(Phase::forward, forward_, waiting),
            with_transfers(Phase::backward, backward_, waiting)};
  }
  /// What tensor parallelism takes longer, as it has half of the links while replicas have the others.
  Pass contention() const {
    return {contention(Phase::forward, forward_), contention(Phase::backward, backward_)};
  }
  double update() const { return with_transfers(Phase::update, update_, 1); }

 private:
  double with_transfers(Phase phase, double beside, double waiting) const {
    return beside + waiting * std::max(0.0, transfers_[phase] - overlap_ * beside);
  }

  double contention(Phase phase, double beside) const {
    return beside > 0
               ? contended_[static_cast<std::size_t>(phase)] * std::min(1.0, transfers_[phase] / beside)
               : 0;
  }

  double overlap_;
  double forward_ = 0, backward_ = 0, update_ = 0;
  OfPhases<double> transfers_ = {};
  std::array<double, 2> contended_ = {};
};

/// A part of the row, which grows piece by piece, and of which more and more pieces, the first ones, are computed again.
/// The backward frees what the last of them keeps first, and leaves gradients.
class Part {
 public:
  Part(const ForecastOf& what, int slots) : what_(what), slots_(slots), seconds_(what.cluster.overlap) {}

  void add(int kind) {
    const Figures& f = figures(kind);
    seconds_.add(f);
    lasting_ += f.lasting() - f.sums, sums_ += f.sums;
    least_gradients_ += f.least_gradients;
    if (kind == what_.row.kinds.back()) scores_ = f.scores;
    kept_ += f.kept;
    gradients_ += f.gradients;
    const double before = kept_ - gradients_, most = before + f.passing;
    while (!most_.empty() && most_.back().bytes <= most) most_.pop_back();
    most_.push_back({pieces_.size(), most});
    pieces_.push_back({kind, before});
  }

  bool can_lighten() const { return what_.again && again_ < pieces_.size(); }
  /// One piece more is computed again.
  void lighten() {
    const auto [kind, before] = pieces_[again_];
    const Figures &kept = figures(kind), &repeated = (*what_.again)[at(kind)];
    seconds_.add(kept, -1), seconds_.add(repeated);
    saved_ += kept.kept - repeated.kept;
    most_again_ = std::max(most_again_, before - saved_ + repeated.passing);
    if (most_.front().piece == again_) most_.pop_front();
    ++again_;
  }

  double bytes() const {
    const double most = most_.empty() ? most_again_ : std::max(most_again_, most_.front().bytes - saved_);
    const double passing = (slots_ - 1) * (kept_ - saved_) + most + scores_;
    return lasting_ + (1 + what_.framework.slack) * passing + std::max(sums_ + gradients_, least_gradients_);
  }
  int again() const { return static_cast<int>(again_); }
  const StageSeconds& seconds() const { return seconds_; }

 private:
  const Figures& figures(int kind) const { return what_.figures[at(kind)]; }

  struct Piece {
    int kind = 0;
    double before = 0;  // its backward there is what it and those in front keep, without the gradients behind
  };
  struct Most {
    std::size_t piece = 0;
    double bytes = 0;
  };

  const ForecastOf& what_;
  int slots_;
  StageSeconds seconds_;
  std::vector<Piece> pieces_;
  std::size_t again_ = 0;
  double lasting_ = 0, sums_ = 0, kept_ = 0, gradients_ = 0, saved_ = 0;
  double least_gradients_ = 0, scores_ = 0;
  double most_again_ = 0;  // in the backward of a piece that is computed again
  std::deque<Most>
      most_;  // of the others: where no later one has more; as if none in front were computed again
};

/// As little is computed again as lets a device hold `parts`, of a part of which most micro-batches are alive first.
void lighten(const std::vector<Part*>& parts, double cap) {
  const auto bytes = [&] {
    double out = 0;
    for (const Part* part : parts) out += part->bytes();
    return out;
  };
  for (Part* part : parts)
    while (part->can_lighten() && bytes() > cap) part->lighten();
}

class Cut {
 public:
  Cut(const Pipelining& p, const ForecastOf& what)
      : pieces_(what.row.kinds),
        what_(what),
        p_(p),
        cap_(p.schedule.chunks > 1 ? std::numeric_limits<double>::infinity() : what.cap_bytes) {
    for (int stage = 0; stage < p.stages; ++stage) forms_.push_back(form_of_stage(p, stage));
  }

  /// The parts with which all end soonest; `fits`: of those whose stages fit; empty if there are none.
  std::vector<int> best(bool fits) const {
    double least = 0, most = 0;
    StageSeconds all(what_.cluster.overlap);
    for (int kind : pieces_) all.add((fits && what_.again ? *what_.again : what_.figures)[at(kind)]);
    for (int stage = 0; stage < p_.stages; ++stage)
      most = std::max(most, forms_[at(stage)].seconds(all.pass()));
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

  /// The parts that begin with `first`, all kept, or as little computed again as lets devices hold them.
  std::vector<Part> parts(const std::vector<int>& first) const {
    std::vector<Part> out;
    for (int part = 0; part < p_.parts(); ++part) {
      const int end = part + 1 < p_.parts() ? first[at(part) + 1] : static_cast<int>(pieces_.size());
      out.emplace_back(what_, what_.slots[at(part)]);
      for (int i = first[at(part)]; i < end; ++i) out.back().add(pieces_[at(i)]);
    }
    for (int stage = 0; stage < p_.stages; ++stage) {
      std::vector<Part*> of_device;
      for (int part : p_.parts_of(stage)) of_device.push_back(&out[at(part)]);
      lighten(of_device, what_.cap_bytes);
    }
    return out;
  }

 private:
  /// Each part as long as memory and `seconds`, of what depends on its stage alone, let it be; empty if that is not all.
  /// A device with V chunks is as if each of them were all that it has.
  std::vector<int> begun(double seconds, bool fits) const {
    const int count = static_cast<int>(pieces_.size()), parts = p_.parts();
    std::vector<int> out;
    int piece = 0;
    for (int part = 0; part < parts; ++part) {
      out.push_back(piece);
      Part taken(what_, what_.slots[at(part)]);
      const StageForm& form = forms_[at(p_.stage_of(part))];
      const int begin = piece;
      while (piece < count - (parts - 1 - part)) {
        taken.add(pieces_[at(piece)]);
        if (fits) lighten({&taken}, cap_);
        const bool is_over =
            form.seconds(taken.seconds().pass()) > seconds * (1 + 1e-9) || (fits && taken.bytes() > cap_);
        if (is_over && (piece > begin || fits)) break;
        ++piece;
        if (is_over) break;
      }
      if (piece == begin) return {};
    }
    return piece == count ? out : std::vector<int>{};
  }

  const std::vector<int>& pieces_;
  const ForecastOf& what_;
  const Pipelining& p_;
  double cap_;
  std::vector<StageForm> forms_;  // by stage
};

/// The first of the links that joins devices from `first` to before `end`.
const LinkLevel& link_of(const Cluster& cluster, int first, int end) {
  const auto joins = [&](const LinkLevel& l) { return first / l.devices == (end - 1) / l.devices; };
  const auto link = std::ranges::find_if(cluster.links, joins);
  return link == cluster.links.end() ? cluster.links.back() : *link;
}

/// Seconds of what each part sends the next of a micro-batch: neighbours may share a node, or not.
std::vector<double> crossings_of(const std::vector<Figures>& figures, const Constraints& s,
                                 const Cluster& cluster) {
  double bytes = 0;
  for (const Figures& f : figures) bytes = std::max(bytes, f.received);
  std::vector<double> out;
  for (int part = 0; part + 1 < pipelining_of(s).parts() && stages_of(s) > 1; ++part) {
    const Pipelining p = pipelining_of(s);
    const int from = p.stage_of(part), to = p.stage_of(part + 1);
    if (from == to) {  // chunks of the same devices
      out.push_back(0);
      continue;
    }
    const LinkLevel& l =
        link_of(cluster, std::min(from, to) * stage_devices(s), (std::max(from, to) + 1) * stage_devices(s));
    out.push_back(l.start_seconds + l.latency_seconds +
                  bytes / (l.bytes_per_second * cluster.link_efficiency));
  }
  return out;
}

/// Of a device, whatever it computes.
double fixed_bytes(const Constraints& s, const Framework& framework) {
  const int groups = (replicas_of(s) > 1) + (shards_of(s) > 1) + (stages_of(s) > 1);
  return static_cast<double>(framework.fixed_bytes + groups * framework.group_bytes);
}

}  // namespace

Forecast forecast_of(const Constraints& s, const ForecastOf& of) {
  const Pipelining p = pipelining_of(s);
  const double fixed = fixed_bytes(s, of.framework);
  ForecastOf what = of;
  what.cap_bytes -= fixed;
  const int count = what.row.size();
  if (count < p.parts())
    throw Infeasible(
        fmt::format("{} stages: the network has {} layers; ask for fewer stages", p.parts(), count));
  const Cut cut(p, what);
  Forecast out{.first = cut.best(true), .again = {}, .fits = true};
  if (out.first.empty()) out = {.first = cut.best(false), .again = {}, .fits = false};
  std::vector<Pass> passes(at(p.stages)), contended(at(p.stages)), least(at(p.stages));
  std::vector<double> bytes(at(p.stages), 0), updates(at(p.stages), 0);
  const std::vector<Part> parts = cut.parts(out.first);
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const std::size_t device = at(p.stage_of(static_cast<int>(part)));
    const StageSeconds& taken = parts[part].seconds();
    passes[device] += taken.pass();
    least[device] += taken.pass(least_waiting);
    contended[device] += taken.contention();
    updates[device] += taken.update();
    bytes[device] += parts[part].bytes();
    out.again.push_back(parts[part].again());
  }
  const std::vector<double> crossings = crossings_of(what.figures, s, what.cluster);
  const double update = *std::ranges::max_element(updates);
  out.least_seconds = sure_pipeline_seconds(p, passes, crossings) + update;
  if (!of.only_least) out.hopeful_seconds = pipeline_seconds(p, least, crossings) + update;
  for (std::size_t stage = 0; stage < passes.size(); ++stage) passes[stage] += contended[stage];
  if (!of.only_least) out.seconds = pipeline_seconds(p, passes, crossings) + update;
  out.bytes = *std::ranges::max_element(bytes) + fixed;
  out.fits = out.fits && out.bytes <= of.cap_bytes;
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

}  // namespace shardwright::automatic
