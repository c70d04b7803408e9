// How long a step takes, from what pieces take: passes of its stages in the order of the schedule, and what each device has to
// do behind its last backward. That is what goes between replicas once a step, and the update with its own transfers:
//
//   T = max over devices:  end of its last backward + max(u, late + transfers of the update + (1 - overlap) u)
//
// `late` is what the last backwards of its parts have not hidden, and at least what the first piece leaves when they are over. Parameters that two stages have come to the later one before
// its first forward, and their gradients go back when the first one is through.
#pragma once

#include <array>
#include <vector>

#include "shardwright/lower/offload.h"
#include "shardwright/plan/comm_fusion.h"
#include "shardwright/search/automatic/forecast.h"
#include "shardwright/search/automatic/pipeline_seconds.h"

namespace shardwright::automatic {

/// What a stage takes of time. Transfers go on beside compute at the pace `overlap`. `is_cut`: its backward is cut in two;
/// `is_first`: nobody waits for gradients of its inputs, so that such a backward has the second half alone.
class StageSeconds {
 public:
  explicit StageSeconds(double overlap, bool is_cut = false, bool is_first = false)
      : overlap_(overlap), is_cut_(is_cut), is_first_(is_first) {}

  void add(const Figures& f, double times = 1) {
    if (!has_pieces_)
      first_late_ = f.late, first_starts_ = f.starts.late, first_backward_ = f.backward, has_pieces_ = true;
    forward_ += times * f.forward, backward_ += times * f.backward, update_ += times * f.update;
    late_ += times * f.late, weights_ += times * f.weights;
    gradient_transfers_ += times * f.gradient_transfers;
    starts_.add(f.starts, times);
    for (Phase phase : {Phase::forward, Phase::backward})
      of_piece_[phase] = std::max(of_piece_[phase], f.starts.gathers[phase].bytes);
    for (Phase phase : {Phase::forward, Phase::backward, Phase::update})
      transfers_[phase] += times * f.transfers[phase];
    for (std::size_t phase = 0; phase < 2; ++phase) contended_[phase] += times * f.contended[phase];
  }

  void add(const StageSeconds& other) {
    forward_ += other.forward_, backward_ += other.backward_, update_ += other.update_, late_ += other.late_;
    weights_ += other.weights_, gradient_transfers_ += other.gradient_transfers_;
    starts_.add(other.starts_);
    for (Phase phase : {Phase::forward, Phase::backward})
      of_piece_[phase] = std::max(of_piece_[phase], other.of_piece_[phase]);
    for (Phase phase : {Phase::forward, Phase::backward, Phase::update})
      transfers_[phase] += other.transfers_[phase];
    for (std::size_t phase = 0; phase < 2; ++phase) contended_[phase] += other.contended_[phase];
  }

  /// `waiting`: so much of the transfers that compute does not hide is waited for.
  Pass pass(double waiting = 1) const {
    const double forward = with_transfers(transfers(Phase::forward), forward_, waiting);
    if (!has_halves())
      return {forward, with_transfers(transfers(Phase::backward), backward_, waiting), share_of_weights()};
    // Sums of gradients have the second half to hide behind, gathers of weights the first.
    const double gradients = gradient_transfers(), weights = share_of_weights() * backward_;
    const double second = with_transfers(gradients, weights, waiting);
    const double first = with_transfers(transfers(Phase::backward) - gradients, backward_ - weights, waiting);
    const double both = first + second;
    return {forward, both, both > 0 ? second / both : share_of_weights()};
  }
  /// Of a backward that is cut in two the second half.
  double share_of_weights() const { return is_first_ ? 1 : weights_ > 0 ? weights_ / backward_ : 0.5; }
  /// What tensor parallelism takes longer, as it has half of the links while replicas have the others.
  Pass contention() const {
    return {contention(Phase::forward, forward_), contention(Phase::backward, backward_), share_of_weights()};
  }
  /// Bytes of weights that are gathered while a piece is computed, beside its own.
  double gathered_ahead() const {
    double out = 0;
    for (Phase phase : {Phase::forward, Phase::backward}) {
      const Starts& all = starts_.gathers[phase];
      if (all.longest <= 0) continue;
      const double of_two = all.bytes * std::min(1.0, 2 / buckets_of(all));
      const double most = most_held(weights_held, of_two, all.bytes, shares_of_weights);
      out = std::max(out, std::max(of_two, all.full > 0 ? std::min(most, all.bytes / all.full) : most) -
                              of_piece_[phase]);
    }
    return out;
  }
  /// How much longer passes take, as nothing hides the first of joined gathers; of one micro-batch the forward hides the backward's.
  Pass first_gathers(int micro_batches) const {
    return {first_gather(Phase::forward, forward_),
            micro_batches > 1 ? first_gather(Phase::backward, backward_) : 0, share_of_weights()};
  }
  /// Of what the update waits for, when the last backward of the part is over; `before`: of other parts.
  struct Late {
    double before = 0;
    double backwards =
        1;  // in which that is hidden; the part's own in the last one, or what of it makes gradients of weights
    double waiting = 1;  // so much of it is waited for
  };
  double late(const Late& l) const {
    const double last = std::min(l.backwards, 1.0);
    const double left = std::max(0.0, l.before - (l.backwards - last) * overlap_ * backward_);
    // Beside those that the backward itself waits for.
    const double others = has_halves() ? gradient_transfers() : transfers(Phase::backward);
    const double hidden = std::max(0.0, last * overlap_ * backward_ - others);
    const double all = joined(late_, starts_.late);
    // The first piece's backward is the last: nothing else hides what comes of it.
    const double first = std::min(all, joined(first_late_, first_starts_));
    return std::max({0.0, l.waiting * first - overlap_ * first_backward_, left + l.waiting * all - hidden});
  }
  /// Behind the last backward. All transfers go one after the other, those of the update behind what is late.
  double update(double late, double waiting) const {
    const double transfers = joined(transfers_[Phase::update], starts_.update);
    return std::max(update_, late + waiting * transfers + (1 - overlap_) * update_);
  }

 private:
  double with_transfers(double seconds, double beside, double waiting) const {
    return beside + waiting * std::max(0.0, seconds - overlap_ * beside);
  }
  bool has_halves() const { return is_cut_ && !is_first_; }
  double gradient_transfers() const {
    return std::min(transfers(Phase::backward), joined(gradient_transfers_, starts_.sums));
  }
  /// Of a pass, those of parameters joined.
  double transfers(Phase phase) const {
    const Starts& gathers = starts_.gathers[phase];
    double out = transfers_[phase];
    if (gathers.longest > 0)
      out -= std::max(0.0, gathers.seconds - gathers.moving - buckets_of(gathers) * gathers.longest);
    if (phase == Phase::backward) out -= starts_.sums.seconds - joined(starts_.sums.seconds, starts_.sums);
    return std::max(0.0, out);
  }

  static double buckets_of(const Starts& gathers) {
    return filled_gathers(gathers.moving, gathers.longest, gathers.full);
  }
  double first_gather(Phase phase, double beside) const {
    const Starts& gathers = starts_.gathers[phase];
    if (gathers.longest <= 0) return 0;
    const double first = gathers.longest + gathers.moving / buckets_of(gathers);
    return std::max(0.0, first - std::max(0.0, transfers(phase) - overlap_ * beside));
  }

  /// Transfers of `seconds`, of which those of several pieces are started together.
  static double joined(double seconds, const Starts& starts) {
    if (starts.longest <= 0) return seconds;
    const double buckets = filled_buckets(starts.moving, starts.longest, starts.bytes, starts.full);
    return std::min(seconds, starts.moving + buckets * starts.longest);
  }

  double contention(Phase phase, double beside) const {
    return beside > 0 ? contended_[static_cast<std::size_t>(phase)] * std::min(1.0, transfers(phase) / beside)
                      : 0;
  }

  double overlap_;
  bool is_cut_, is_first_;
  bool has_pieces_ = false;
  double forward_ = 0, backward_ = 0, update_ = 0, late_ = 0, weights_ = 0, gradient_transfers_ = 0;
  double first_late_ = 0, first_backward_ = 0;  // of its first piece
  Starts first_starts_;                         // of these
  PieceStarts starts_;
  OfPhases<double> of_piece_ = {};  // bytes that one of the pieces gathers, at most
  OfPhases<double> transfers_ = {};
  std::array<double, 2> contended_ = {};
};

class StepSeconds {
 public:
  /// `parts` begin with the pieces `first`. What is given must outlive it.
  StepSeconds(const Constraints& s, const ForecastOf& what, const std::vector<int>& first,
              std::vector<StageSeconds> parts);

  /// As the order of tasks says, with replicas and tensor parallelism in each other's way.
  double likely() const { return seconds(1, true); }
  /// Transfers are waited for as little as was seen.
  double hopeful() const;
  /// Whatever the order of tasks; `is_hopeful`: and transfers are waited for as little as was seen.
  double sure(bool is_hopeful = false) const;

 private:
  /// Of parameters that pieces of other devices have.
  struct Tied {
    double bytes = 0, gradient_bytes = 0;
    int device = 0;  // that has them not
  };
  Tied tied(const std::vector<int>& first) const;
  std::vector<Pass> passes(double waiting, bool contended) const;
  double seconds(double waiting, bool contended) const;
  double behind(const std::vector<Pass>& passes, double end, double waiting_late) const;
  double update_seconds(int device, double waiting) const;
  Crossing crossing(double bytes, int from, int to) const;
  double tied_late(const std::vector<Pass>& passes) const;
  double tied_update() const;

  const Constraints& s_;
  const ForecastOf& what_;
  Pipelining p_;
  std::vector<StageSeconds> parts_;
  std::vector<Crossing> crossings_;  // by the part that sends
  Tied tied_;
};

}  // namespace shardwright::automatic
