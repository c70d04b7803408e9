// Until when a search may go on, and who hears how far it is: one for all of it, and for the searches that it asks.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace shardwright {

class Progress;

class Deadline {
 public:
  /// Never.
  Deadline() = default;
  /// So many seconds from now; none: never. `progress` may be null.
  explicit Deadline(std::optional<double> seconds, Progress* progress = nullptr) : progress_(progress) {
    if (seconds) end_ = Clock::now() + std::chrono::duration<double>(*seconds);
  }

  bool is_over() const { return end_ && Clock::now() >= *end_; }
  /// At least 0; nothing if there is no end.
  std::optional<double> seconds_left() const {
    if (!end_) return std::nullopt;
    return std::max(std::chrono::duration<double>(*end_ - Clock::now()).count(), 0.0);
  }
  /// For the same who hears, another end.
  Deadline within(std::optional<double> seconds) const { return Deadline(seconds, progress_); }

  Progress* progress() const { return progress_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<std::chrono::time_point<Clock, std::chrono::duration<double>>> end_;
  Progress* progress_ = nullptr;
};

}  // namespace shardwright
