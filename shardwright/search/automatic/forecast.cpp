#include "shardwright/search/automatic/forecast.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "shardwright/base/index.h"
#include "shardwright/lower/offload.h"
#include "shardwright/plan/lanes.h"
#include "shardwright/search/automatic/other_cuts.h"
#include "shardwright/search/automatic/pipeline_seconds.h"
#include "shardwright/search/automatic/step_seconds.h"

namespace shardwright::automatic {
namespace {

/// What a device holds of parts of the row: for itself, and while one of their tasks runs, in a place that serves them in turn.
struct HeldBytes {
  double own = 0, passing = 0;

  void add(const HeldBytes& other) { own += other.own, passing = std::max(passing, other.passing); }
  double all() const { return own + passing; }
};

/// A part of the row, which grows piece by piece, and of which more and more pieces, the first ones, are computed again.
/// The backward frees what the last of them keeps first, and leaves gradients.
class Part {
 public:
  Part(const ForecastOf& what, const Pipelining& p, int part)
      : what_(what),
        stage_(what.of(p.stage_of(part))),
        slots_(what.slots[at(part)]),
        is_first_(part == 0),
        has_chunks_(p.schedule.chunks > 1),
        keeps_sends_(keeps_sends(p)),
        seconds_(what.cluster.overlap, p.schedule.splits_backward, is_first_) {}

  void add(int kind) {
    const Figures& f = figures(kind);
    if (pieces_.empty()) returned_ = f.sent_back;
    sent_ = f.sent;
    seconds_.add(f);
    lasting_ += f.lasting() - f.sums, sums_ += f.sums;
    least_gradients_ += f.least_gradients;
    if (kind == what_.row.kinds.back()) scores_ = f.scores;
    kept_ += f.kept;
    if (!is_first_) to_inputs_ += f.to_inputs, left_ += f.left;
    hosted_ += f.hosted, hosted_kept_ += f.hosted_kept;
    on_way_ = std::max(on_way_, f.on_way);
    gradients_ += f.gradients;
    const double before = kept_ - gradients_, most = before + f.passing;
    while (most_.size() > front_ && most_.back().bytes <= most) most_.pop_back();
    most_.push_back({pieces_.size(), most, f.passing});
    pieces_.push_back({kind, before});
  }

  bool can_lighten() const { return stage_.again && again_ < pieces_.size(); }
  /// One piece more is computed again.
  void lighten() {
    const auto [kind, before] = pieces_[again_];
    const Figures &kept = figures(kind), &repeated = (*stage_.again)[at(kind)];
    seconds_.add(kept, -1), seconds_.add(repeated);
    saved_ += kept.kept - repeated.kept;
    if (!is_first_) to_inputs_ += repeated.to_inputs - kept.to_inputs, left_ += repeated.left - kept.left;
    hosted_kept_ += repeated.hosted_kept - kept.hosted_kept;
    if (const double bytes = before - saved_ + repeated.passing; bytes > most_again_.bytes)
      most_again_ = {again_, bytes, repeated.passing};
    if (most_[front_].piece == again_) ++front_;
    ++again_;
  }

  HeldBytes bytes() const {
    Most most = most_again_;
    if (front_ < most_.size() && most_[front_].bytes - saved_ > most.bytes)
      most = most_[front_], most.bytes -= saved_;
    if (has_chunks_) most.passing = most_passing(), most.bytes = kept_ - saved_ + most.passing;
    const double ahead = std::max(
        0.0, most_held(fetches_held, on_way_, slots_[0] * (hosted_kept_ + kept_ - saved_)) - on_way_);
    const double kept = (slots_[0] - 1) * (kept_ - saved_) + halves() + sends() + most.bytes - most.passing;
    const double passing = most.passing + scores_ + ahead + seconds_.gathered_ahead();
    const double gradients =
        what_.framework.keeps_gradients ? least_gradients_ : std::max(sums_ + gradients_, least_gradients_);
    const double slack = 1 + what_.framework.slack;
    return {(lasting_ + slack * kept + gradients) / stage_.room, slack * passing / stage_.room};
  }
  double host_bytes() const { return hosted_ + slots_[0] * hosted_kept_; }
  int again() const { return static_cast<int>(again_); }
  const StageSeconds& seconds() const { return seconds_; }

 private:
  const Figures& figures(int kind) const { return (*stage_.figures)[at(kind)]; }

  /// What micro-batches have more, or less, by the halves of their backwards: in an arena each life has all its slots; where
  /// things are allocated as they are needed, no more of both kinds than there are micro-batches.
  double halves() const {
    auto [whole, before, between] = slots_;
    const bool is_arena = what_.framework.name == own_framework;
    if (!is_arena && left_ > to_inputs_) before = std::min(before, std::max(0, whole - between));
    if (!is_arena && left_ <= to_inputs_) between = std::min(between, std::max(0, whole - before));
    return between * left_ - (whole - before) * to_inputs_;
  }

  /// Of any piece: where chunks share it, it lies by itself.
  double most_passing() const {
    double out = 0;
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      out = std::max(out, (i < again_ ? *stage_.again : *stage_.figures)[at(pieces_[i].kind)].passing);
    return out;
  }

  /// What it sends lies in the arena until others have it: of the forward in slots until the backward, of the backward until the next one.
  double sends() const {
    if (what_.only_least || what_.framework.name != own_framework) return returned_;
    const int sent = slots_[static_cast<std::size_t>(Life::to_inputs)];
    return (sent > 1 ? sent * sent_ : 0) + (keeps_sends_ ? slots_[0] : 1) * returned_;
  }

  struct Piece {
    int kind = 0;
    double before = 0;  // its backward there is what it and those in front keep, without the gradients behind
  };
  struct Most {
    std::size_t piece = 0;
    double bytes = 0;
    double passing = 0;  // of these
  };

  const ForecastOf& what_;
  OfStage stage_;
  OfLives slots_;
  double sent_ = 0, returned_ = 0;  // bytes of a micro-batch, in the forward and in the backward
  bool is_first_;    // nobody waits for gradients of its inputs: all of its backward is the second half
  bool has_chunks_;  // of its device, which share what passes
  bool keeps_sends_;
  StageSeconds seconds_;
  std::vector<Piece> pieces_;
  std::size_t again_ = 0;
  double lasting_ = 0, sums_ = 0, kept_ = 0, gradients_ = 0, saved_ = 0, to_inputs_ = 0, left_ = 0;
  double least_gradients_ = 0, scores_ = 0, hosted_ = 0, hosted_kept_ = 0, on_way_ = 0;
  Most most_again_;  // in the backward of a piece that is computed again
  /// Of the others, from `front_` on: where no later one has more; as if none in front were computed again.
  std::vector<Most> most_;
  std::size_t front_ = 0;
};

/// What a device holds, and its host for it.
struct Caps {
  double bytes = std::numeric_limits<double>::infinity(), host_bytes = bytes;

  bool hold(std::span<const Part* const> parts) const {
    if (std::isinf(bytes) && std::isinf(host_bytes)) return true;
    HeldBytes held;
    double of_host = 0;
    for (const Part* part : parts) held.add(part->bytes()), of_host += part->host_bytes();
    return held.all() <= bytes && of_host <= host_bytes;
  }
};

/// As little is computed again as lets `caps` hold `parts`, of a part of which most micro-batches are alive first.
void lighten(std::span<Part* const> parts, const Caps& caps) {
  for (Part* part : parts)
    while (part->can_lighten() && !caps.hold(parts)) part->lighten();
}

class Cut {
 public:
  Cut(const Pipelining& p, const ForecastOf& what)
      : pieces_(what.row.kinds), what_(what), p_(p), caps_{what.cap_bytes, what.host_cap_bytes} {
    if (p.schedule.chunks > 1) caps_ = {};  // what a device has is not known of one
    for (int stage = 0; stage < p.stages; ++stage) forms_.push_back(form_of_stage(p, stage));
  }

  /// The parts with which all end soonest; `fits`: of those whose stages fit; empty if there are none.
  std::vector<int> best(bool fits) const {
    double least = 0, most = 0;
    for (int stage = 0; stage < p_.stages; ++stage) {
      const OfStage own = what_.of(stage);
      StageSeconds all(what_.cluster.overlap, p_.schedule.splits_backward);
      for (int kind : pieces_) all.add((fits && own.again ? *own.again : *own.figures)[at(kind)]);
      most = std::max(most, forms_[at(stage)].seconds(all.pass()) + update_of(all, 0));
    }
    Begun out;
    const auto try_with = [&](double seconds) {
      Begun other = begun(seconds, fits);
      const bool is_whole = other.is_whole;
      if (is_whole) {
        most = std::min(seconds, other.longest);
        out = std::move(other);
      } else {
        least = std::min(std::max(least, other.shortest_over), most);
      }
      return is_whole;
    };
    // Mostly it is a stage's share, or a piece more.
    const double share = most / p_.parts(), piece = most / static_cast<double>(pieces_.size());
    if (!try_with(std::min(share + piece, most)) && !try_with(most)) return {};
    if (most > share - piece) try_with(share - piece);
    constexpr int trials = 24;
    for (int i = 0; i < trials && most > least * (1 + 1e-5); ++i) try_with((least + most) / 2);
    return std::move(out.first);
  }

  /// The parts that begin with `first`, all kept, or as little computed again as lets devices hold them.
  std::vector<Part> parts(const std::vector<int>& first) const {
    std::vector<Part> out;
    for (int part = 0; part < p_.parts(); ++part) {
      const int end = part + 1 < p_.parts() ? first[at(part) + 1] : static_cast<int>(pieces_.size());
      out.emplace_back(what_, p_, part);
      for (int i = first[at(part)]; i < end; ++i) out.back().add(pieces_[at(i)]);
    }
    for (int stage = 0; stage < p_.stages; ++stage) {
      std::vector<Part*> of_device;
      for (int part : p_.parts_of(stage)) of_device.push_back(&out[at(part)]);
      lighten(of_device, {what_.cap_bytes, what_.host_cap_bytes});
    }
    return out;
  }

 private:
  /// Parts that begin with `first`, all pieces if `is_whole`. With a limit from `longest` on and below `shortest_over` they
  /// would be the same.
  struct Begun {
    std::vector<int> first = {};
    bool is_whole = false;
    double longest = 0, shortest_over = std::numeric_limits<double>::infinity();
  };

  /// Each part as long as memory and `seconds`, of what depends on its stage alone, let it be.
  /// A device with V chunks is as if each of them were all that it has.
  Begun begun(double seconds, bool fits) const {
    const int count = static_cast<int>(pieces_.size()), parts = p_.parts();
    Begun out;
    int piece = 0;
    double before = 0;  // that a stage is through before the first one, with its last backward
    for (int part = 0; part < parts; ++part) {
      out.first.push_back(piece);
      Part taken(what_, p_, part);
      const StageForm& form = forms_[at(p_.stage_of(part))];
      Part* const alone[] = {&taken};
      const int begin = piece;
      const auto end = [&] {
        const StageSeconds& own = taken.seconds();
        return form.seconds(own.pass()) + std::max(0.0, update_of(own) - before);
      };
      while (piece < count - (parts - 1 - part)) {
        taken.add(pieces_[at(piece)]);
        if (fits) lighten(alone, caps_);
        const double own = end();
        const bool is_long = own > seconds * (1 + 1e-9), is_over = is_long || (fits && !caps_.hold(alone));
        if (is_long) out.shortest_over = std::min(out.shortest_over, own);
        if (is_over && (piece > begin || fits)) break;
        ++piece, out.longest = std::max(out.longest, own);
        if (is_over) break;
      }
      if (piece == begin) return out;
      before += taken.seconds().pass().backward;
    }
    out.is_whole = piece == count;
    return out;
  }

  /// Behind its last backward, of which `backwards` hide what is late; of chunks, which a device updates together, it is not
  /// known yet.
  double update_of(const StageSeconds& stage, double backwards = 1) const {
    if (p_.schedule.splits_backward) backwards = std::min(backwards, stage.share_of_weights());
    return p_.schedule.chunks > 1 ? 0 : stage.update(stage.late({.backwards = backwards}), 1);
  }

  const std::vector<int>& pieces_;
  const ForecastOf& what_;
  const Pipelining& p_;
  Caps caps_;
  std::vector<StageForm> forms_;  // by stage
};

/// Of parts that begin with the pieces `first`. To play its tasks takes long: what surely does not beat `best` has, for its
/// seconds, what it surely takes.
Forecast forecast_of_cut(const Constraints& s, const ForecastOf& what, const std::vector<Part>& parts,
                         const std::vector<int>& first, const Forecast* best = nullptr) {
  const Pipelining p = pipelining_of(s);
  Forecast out{.first = first, .again = {}};
  std::vector<HeldBytes> bytes(at(p.stages));
  std::vector<double> host_bytes(at(p.stages), 0);
  std::vector<StageSeconds> seconds;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const std::size_t device = at(p.stage_of(static_cast<int>(part)));
    bytes[device].add(parts[part].bytes()), host_bytes[device] += parts[part].host_bytes();
    out.again.push_back(parts[part].again());
    seconds.push_back(parts[part].seconds());
  }
  out.bytes = std::ranges::max(bytes, {}, &HeldBytes::all).all();
  out.fits = out.bytes <= what.cap_bytes && *std::ranges::max_element(host_bytes) <= what.host_cap_bytes;
  const StepSeconds step(s, what, first, std::move(seconds));
  out.least_seconds = out.seconds = step.sure(what.only_least);
  if (what.only_least) return out;
  out.hopeful_seconds = step.sure(true);
  if ((what.must_fit && !out.fits) || out.least_seconds >= what.worth_seconds) return out;
  const bool may_win =
      !best || out.fits > best->fits || (out.fits == best->fits && out.least_seconds < best->seconds);
  if (may_win) out.seconds = step.likely();
  if (!best || out.hopeful_seconds < best->hopeful_seconds) out.hopeful_seconds = step.hopeful();
  return out;
}

/// Stages are cut by what depends on each of them alone; where they wait for each other, other cuts may end sooner.
void take_other(Forecast& best, const Constraints& s, const ForecastOf& what, const Cut& cut) {
  for (const std::vector<int>& first : other_cuts(what, pipelining_of(s), best.first)) {
    Forecast other = forecast_of_cut(s, what, cut.parts(first), first, &best);
    const double least = std::min(best.least_seconds, other.least_seconds);
    const double hopeful = std::min(best.hopeful_seconds, other.hopeful_seconds);
    const bool is_faster =
        what.only_least ? other.least_seconds < best.least_seconds : other.seconds < best.seconds;
    if (other.fits > best.fits || (other.fits == best.fits && is_faster)) best = std::move(other);
    best.least_seconds = least, best.hopeful_seconds = hopeful;
  }
}

/// Of a device, whatever it computes.
double fixed_bytes(const Constraints& s, const Framework& framework) {
  const int groups = (replicas_of(s) > 1) + (contexts_of(s) > 1) + (shards_of(s) > 1) + (stages_of(s) > 1);
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
  std::vector<int> first = cut.best(true);
  const bool fits = !first.empty();
  if (!fits && what.must_fit) return {};
  if (!fits) first = cut.best(false);
  Forecast out = forecast_of_cut(s, what, cut.parts(first), first);
  out.fits = out.fits && fits;
  if (p.stages > 1) take_other(out, s, what, cut);
  out.bytes += fixed;
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
