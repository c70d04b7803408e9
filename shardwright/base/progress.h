// How far long work is, for somebody who watches: the work says what it does, and a command may show it meanwhile
// (cli/progress_line.h).
//
// Work gets a Progress or none; without one, saying is a comparison with null. Parts of a work are nested: what a search
// does on 8 of four numbers of devices is a part of the part of those 8. One thread works, another may watch.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace shardwright {

/// What is being done.
struct WorkPart {
  using Clock = std::chrono::steady_clock;

  std::string what;       // `proving 64 ranks`
  std::string note = {};  // what there is to say of it by now: `best step 2.31 s`
  std::int64_t done = 0;
  std::int64_t all = 0;    // 0: nobody knows how much there is to do
  std::int64_t first = 0;  // had been done before it began here
  Clock::time_point begin = Clock::now();
};

class Progress {
 public:
  /// The outermost first.
  std::vector<WorkPart> parts() const;

 private:
  friend class Doing;

  mutable std::mutex mutex_;  // of parts_
  std::vector<WorkPart> parts_;
};

/// A part of the work, as long as it lives. Of several the last made ends first.
class Doing {
 public:
  /// `progress` may be null. Throws nothing else than what memory does.
  Doing(Progress* progress, std::string what, std::int64_t all = 0, std::int64_t first = 0);
  ~Doing();
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

  /// So much has been done. `note` makes what there is to say of it; it is only called where somebody watches.
  template <std::invocable Note>
  void tell(std::int64_t done, Note note) {
    if (progress_) set(done, note());
  }
  void tell(std::int64_t done) {
    if (progress_) set(done, {});
  }

 private:
  void set(std::int64_t done, std::string note);

  Progress* progress_;
  std::size_t depth_ = 0;
};

}  // namespace shardwright
