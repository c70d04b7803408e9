// Work beside the training.
#pragma once

#include <atomic>
#include <exception>
#include <string>
#include <thread>

namespace shardwright {

/// Work on a thread of its own, and how it ended.
class Background {
 public:
  template <class F>
  explicit Background(F work)
      : thread_([this, work = std::move(work)] {
          try {
            work();
          } catch (const std::exception& e) {
            failure_ = e.what();
          }
          has_ended_ = true;
        }) {}

  bool has_ended() const { return has_ended_; }
  /// When it has; empty: well.
  const std::string& result() {
    if (thread_.joinable()) thread_.join();
    return failure_;
  }

 private:
  std::string failure_;
  std::atomic<bool> has_ended_ = false;
  std::jthread thread_;  // last: it uses the above
};

}  // namespace shardwright
