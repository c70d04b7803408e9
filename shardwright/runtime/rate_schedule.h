// The learning rate of each step, as PyTorch's schedulers have it:
//
//   constant                          the rate
//   step:every=K[,factor=0.1]         times `factor` behind every K-th step                       StepLR
//   exponential:factor=F[,every=K]    times F^(t / K); K = 1 if absent                            ExponentialLR
//   cosine[:end=E]                    E + (rate - E) (1 + cos(pi t / T)) / 2                      CosineAnnealingLR
//   linear[:end=E]                    rate + (E - rate) t / T                                     LinearLR
//   polynomial[:power=2,end=E]        E + (rate - E) (1 - t / T)^power                            PolynomialLR
//
// E is 0 if absent. Before that come `warmup` steps, of which the i-th (from 1) has rate i / warmup; t counts from their
// end, and T is what is left of the run: afterwards the rate stays at its last. Counts are steps, `3epochs`, or `5%` of
// the run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardwright {

/// What counts in a schedule are of.
struct ScheduleLength {
  std::int64_t steps = 0;            // of the whole run
  std::int64_t steps_per_epoch = 0;  // 0: the data have no epochs
};

class RateSchedule {
 public:
  /// `text` as above; `warmup` a count, or empty. Throws: Error that says what there is.
  RateSchedule(std::string_view text, std::string_view warmup, double rate, const ScheduleLength& length);
  /// Always `rate`.
  explicit RateSchedule(double rate = 0) : rate_(rate) {}

  bool is_constant() const { return kind_ == Kind::constant && warmup_ == 0; }
  double at(std::int64_t step) const;

 private:
  enum class Kind { constant, step, exponential, cosine, linear, polynomial };

  bool takes(std::string_view key) const;
  void set(std::string_view key, std::string_view value, const ScheduleLength& length);

  Kind kind_ = Kind::constant;
  double rate_ = 0, end_ = 0, factor_ = 0.1, power_ = 2;
  std::int64_t warmup_ = 0, every_ = 1, steps_ = 0;  // the last: behind the warm-up
};

/// Whether rates differ from step to step, for who does not know yet how long a run is. Throws: Error, as that.
bool is_constant_rate(std::string_view text, std::string_view warmup);

}  // namespace shardwright
