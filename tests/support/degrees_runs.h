// Training runs whose degrees are said as `--set` says them, beside one device.
#pragma once

#include <array>
#include <initializer_list>
#include <map>
#include <optional>
#include <random>
#include <string>

#include "tests/support/training_run.h"

namespace shardwright::testing {

/// Of as many devices as `set` asks for, all states shared however small.
PlanRequest request_of_set(const std::string& set, int micro_batches = 1);

/// Draws words of `--set`, trains by them in f64 with two micro-batches, and compares with one device.
class DrawnDegrees {
 public:
  explicit DrawnDegrees(unsigned seed) : random_(seed) {}

  template <class... Texts>
  std::string one_of(const Texts&... all) {
    const std::array<std::string, sizeof...(all)> list{all...};
    return list[random_() % list.size()];
  }
  /// `set`, with words for what it splits: sequences where it has tp, schedules where it has pp, a level, and recompute.
  std::string with_settings(std::string set);
  /// `,batch_shares=3:1` for the replicas of `set`, or nothing.
  std::string shares_for(const std::string& set);
  /// Two steps: the losses of one device, or a refusal that has one of `reasons` in it.
  void compare(const std::string& model, const std::string& set, std::initializer_list<const char*> reasons);
  int trained() const { return trained_; }

 private:
  std::mt19937 random_;
  std::map<std::string, std::optional<Outcome>> alone_;  // by model
  int trained_ = 0;
};

}  // namespace shardwright::testing
