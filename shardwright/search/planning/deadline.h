// Until when a search may go on: one clock for all of it, and for the searches that it asks.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace shardwright {

class Deadline {
 public:
  /// Never.
  Deadline() = default;
  /// So many seconds from now; none: never.
  explicit Deadline(std::optional<double> seconds) {
    if (seconds) end_ = Clock::now() + std::chrono::duration<double>(*seconds);
  }

  bool is_over() const { return end_ && Clock::now() >= *end_; }
  /// At least 0; nothing if there is no end.
  std::optional<double> seconds_left() const {
    if (!end_) return std::nullopt;
    return std::max(std::chrono::duration<double>(*end_ - Clock::now()).count(), 0.0);
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<std::chrono::time_point<Clock, std::chrono::duration<double>>> end_;
};

}  // namespace shardwright
