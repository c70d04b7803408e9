// Whether the ranks that one waits for are still there.
//
// A rank may compute for longer than anybody wants to wait for one that is gone, so what counts is silence. While a
// process runs, its ranks give signs; a rank that waits passes on the newest sign of those that it waits for. Who hears
// nothing new for the timeout gives up and says whom it has waited for:
// - a rank that gives no sign (its process is stopped, or gone) after the timeout;
// - a rank that waits itself, and that nobody else gives up for, after half as much again: those wait for each other;
// - a rank that is at one and the same thing, and whose process does nothing at all, after the timeout;
// - a rank that is at one and the same thing otherwise, or whose signs cannot be seen from here, after ten times as much.
// Time in which the waiting rank itself was stopped does not count.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/base/error.h"
#include "shardwright/base/given.h"

namespace shardwright {

/// For how long a rank that is waited for may give no sign.
constexpr std::chrono::nanoseconds usual_timeout = std::chrono::seconds(60);

/// The exit status of a run that has lost a rank.
constexpr int lost_rank_status = 75;

/// Throws: Error if it is no time, or shorter than a rank may be silent on a busy machine.
std::chrono::nanoseconds timeout_of(const Given& given);

/// A rank that was waited for has not come.
class TimedOut final : public Error {
 public:
  /// `all_reduce` `waited 60 s for rank 5, which gives no sign of life`.
  TimedOut(std::string_view what, std::string how)
      : Error(fmt::format("{} {}", what, how), ErrorKind::timeout), how_(std::move(how)) {}
  /// The same, where the caller knows better what has waited.
  TimedOut of(std::string_view what) const { return {what, how_}; }

 private:
  std::string how_;
};

/// An instruction of a session's step (lower/step.h), as numbers that everybody of the run can put into words.
struct StepPlace {
  int session = 0;  // of those that this process has
  int step = -1;    // none yet
  int act = 0, stage = 0, what = 0, micro_batch = 0;
  bool operator==(const StepPlace&) const = default;
};

/// Puts a rank's place into words.
using StepPlaceWords = std::function<std::string(int rank, const StepPlace&)>;

/// What a rank shows of itself, in memory that all who wait for it see. Only its own process writes there. Times are
/// nanoseconds of the machine's clock. Of a rank on another host, what its signs have told the first rank of this one.
struct Presence {
  alignas(64) std::atomic<std::int64_t> beat{0};  // when its process last ran
  std::atomic<std::int64_t> heard{0};   // while it waits: the newest sign of those that it waits for
  std::atomic<std::uint64_t> acts{0};   // grows whenever it goes on
  std::atomic<std::int64_t> worked{0};  // when its process was last seen to use the processor, or a disk
  std::atomic<std::uint64_t> where{0}, what{0};  // its place
  std::atomic<std::int32_t> process{0};
  std::atomic<std::int8_t> signal{0};  // that ends it
  std::atomic<bool> waits{false};
  std::atomic<bool> has_told{false};  // of the first on a host: somebody there has said why the run ends
  std::atomic<bool> ends{false};      // its process does so by itself, and has said why, if there is a reason

  void set(const StepPlace& place);
  StepPlace place() const;
};

/// Ranks that only their signs show, and the one of this host that hears these: without it nobody is silent.
struct Elsewhere {
  std::vector<bool> is_elsewhere = {};  // by rank; empty: none
  const Presence* hears = nullptr;
};

/// One rank's waiting. Allocates only what a message takes.
class Vigil {
 public:
  /// How long those that are busy are waited for.
  enum class Busy { for_a_while, for_ever };

  /// What waits: ranks that are threads, whose process runs as long as anybody asks; ranks that are processes; or such
  /// within a call, which may do much beside waiting, and so counts as busy.
  enum class In { thread, process, call };

  /// `ranks`: by rank what it shows; null: nothing, being on another host. They outlive this.
  Vigil(std::vector<Presence*> ranks, int self, std::chrono::nanoseconds timeout, In in,
        Elsewhere elsewhere = {});
  /// How messages say where a rank that is given up was, `, last at %y = relu, step 3`; null: they do not.
  void tell_by(std::function<std::string(int rank)> last_place) { last_place_ = std::move(last_place); }

  /// This rank goes on. Costs a store to memory of its own.
  void act() {
    Presence& own = *ranks_[self_];
    own.acts.store(own.acts.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  /// Likewise, with this.
  void enter(const StepPlace& place) {
    ranks_[self_]->set(place);
    act();
  }

  /// How long to wait before the first look, and between two.
  std::chrono::nanoseconds pause() const { return pause_; }
  /// Room for the ranks that have not come, which `look` takes.
  std::vector<int>& missing() {
    missing_.clear();
    return missing_;
  }
  /// Looks after those in `missing`; if any of them is given up, says how long and for whom this rank has waited.
  std::optional<std::string> look(Busy busy = Busy::for_a_while);
  /// Throws: TimedOut, of `what`.
  void look_for(std::string_view what) {
    auto how = look();
    if (!how) return;
    end();
    throw TimedOut(what, *std::move(how));
  }
  /// The waiting is over, if it took a look.
  void end() {
    if (is_waiting_) [[unlikely]]
      leave();
  }

 private:
  enum class Fate { is_there, is_silent, waits, is_stuck, is_busy, is_elsewhere };
  /// What was last seen of a rank, and for how long nothing else.
  struct Watched {
    bool is_seen = false;
    std::int64_t beat = 0, heard = 0;
    std::uint64_t acts = 0;
    std::int64_t worked = 0;
    bool waits = false;
    std::chrono::nanoseconds same_beat{0}, same_heard{0}, same_acts{0}, same_work{0};
  };

  void begin(std::int64_t now);
  void leave();
  void watch(int rank, std::int64_t now, std::chrono::nanoseconds gone);
  bool is_heard(int rank) const;
  bool is_elsewhere(std::size_t rank) const {
    return !elsewhere_.is_elsewhere.empty() && elsewhere_.is_elsewhere[rank];
  }
  Fate fate_of(int rank, Busy busy) const;

  std::vector<Presence*> ranks_;
  std::size_t self_;
  std::chrono::nanoseconds timeout_, pause_;
  In in_;
  Elsewhere elsewhere_;
  std::function<std::string(int rank)> last_place_;
  bool is_waiting_ = false;
  std::int64_t last_look_ = 0;
  std::chrono::nanoseconds waited_{0};
  std::vector<Watched> watched_;  // by rank
  std::vector<int> missing_;
};

/// Nanoseconds of the machine's clock.
std::int64_t machine_time();

}  // namespace shardwright
