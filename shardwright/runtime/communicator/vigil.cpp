#include "shardwright/runtime/communicator/vigil.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "shardwright/base/duration.h"
#include "shardwright/base/index.h"

namespace shardwright {
namespace {

using std::chrono::nanoseconds;

std::string seconds_text(nanoseconds time) {
  const double seconds = std::chrono::duration<double>(time).count();
  return seconds < 10 ? fmt::format("{:.2g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

/// A change begins the time anew.
void count(nanoseconds& same, bool is_changed, nanoseconds gone) {
  same = is_changed ? nanoseconds(0) : same + gone;
}

}  // namespace

std::int64_t machine_time() {
  return std::chrono::duration_cast<nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::chrono::nanoseconds timeout_of(const Given& given) {
  constexpr double least = 0.1, most = 5e8;  // ten times as many nanoseconds can be counted
  const double seconds = seconds_of(given);
  if (seconds < least)
    throw given.wrong("is shorter than a rank may be silent on a busy machine; give 100ms or more");
  return std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(std::min(seconds, most)));
}

void Presence::set(const StepPlace& p) {
  const auto bits = [](int number) { return std::uint64_t{static_cast<std::uint32_t>(number)}; };
  where.store(bits(p.step) << 32 | bits(p.micro_batch), std::memory_order_relaxed);
  what.store(
      bits(p.act) << 56 | (bits(p.session) & 0xff) << 48 | (bits(p.stage) & 0xffff) << 32 | bits(p.what),
      std::memory_order_relaxed);
}

StepPlace Presence::place() const {
  const std::uint64_t first = where.load(std::memory_order_relaxed),
                      second = what.load(std::memory_order_relaxed);
  if (first == 0 && second == 0) return {};
  return {.session = static_cast<int>(second >> 48 & 0xff),
          .step = static_cast<int>(first >> 32),
          .act = static_cast<int>(second >> 56),
          .stage = static_cast<int>(second >> 32 & 0xffff),
          .what = static_cast<int>(second & 0xffffffff),
          .micro_batch = static_cast<int>(first & 0xffffffff)};
}

Vigil::Vigil(std::vector<Presence*> ranks, int self, nanoseconds timeout, In in, Elsewhere elsewhere)
    : ranks_(std::move(ranks)),
      self_(at(self)),
      timeout_(timeout),
      pause_(std::clamp<nanoseconds>(timeout / 16, std::chrono::milliseconds(1), std::chrono::seconds(1))),
      in_(in),
      elsewhere_(std::move(elsewhere)),
      watched_(ranks_.size()) {
  missing_.reserve(ranks_.size());
}

/// Before the first look the caller has waited for one pause.
void Vigil::begin(std::int64_t now) {
  is_waiting_ = true;
  last_look_ = now - pause_.count();
  waited_ = nanoseconds(0);
  std::ranges::fill(watched_, Watched());
  Presence& own = *ranks_[self_];
  own.heard = std::max(own.heard.load(), now);
  own.waits = in_ != In::call;
}

void Vigil::leave() {
  is_waiting_ = false;
  ranks_[self_]->waits = false;
  act();
}

void Vigil::watch(int rank, std::int64_t now, nanoseconds gone) {
  Watched& w = watched_[at(rank)];
  const Presence* const p = ranks_[at(rank)];
  if (!p) {
    w.same_acts += gone;
    return;
  }
  if (is_elsewhere(at(rank)) && !is_heard(rank))
    gone = nanoseconds(0);  // who hears its signs gives none itself
  const std::int64_t beat = in_ == In::thread ? now : p->beat.load(), heard = p->heard.load();
  const std::int64_t worked = in_ == In::thread ? now : p->worked.load();
  const std::uint64_t acts = p->acts.load();
  w.waits = p->waits;
  count(w.same_beat, w.is_seen && w.beat != beat, gone);
  count(w.same_heard, !w.waits || (w.is_seen && w.heard != heard), gone);
  count(w.same_acts, w.waits || (w.is_seen && w.acts != acts), gone);
  count(w.same_work, w.waits || (w.is_seen && w.worked != worked), gone);
  w.is_seen = true;
  w.worked = worked;
  w.beat = beat;
  w.heard = heard;
  w.acts = acts;
}

/// What is told of it is not older than two of the signs that it gives.
bool Vigil::is_heard(int rank) const {
  const bool hears_itself = ranks_[self_] == elsewhere_.hears;
  return ranks_[at(rank)]->beat == 0 || hears_itself ||
         machine_time() - elsewhere_.hears->beat.load() < 2 * pause_.count() + 100'000'000;
}

Vigil::Fate Vigil::fate_of(int rank, Busy busy) const {
  const Watched& w = watched_[at(rank)];
  const bool is_at_one_thing = busy == Busy::for_a_while && w.same_acts >= 10 * timeout_;
  const bool is_unseen = !ranks_[at(rank)] || (is_elsewhere(at(rank)) && ranks_[at(rank)]->beat == 0);
  if (is_unseen) return is_at_one_thing ? Fate::is_elsewhere : Fate::is_there;
  if (w.same_beat >= timeout_) return Fate::is_silent;
  if (w.waits) return w.same_heard >= timeout_ + timeout_ / 2 ? Fate::waits : Fate::is_there;
  if (busy == Busy::for_a_while && w.worked > 0 && w.same_acts >= timeout_ && w.same_work >= timeout_)
    return Fate::is_stuck;
  return is_at_one_thing ? Fate::is_busy : Fate::is_there;
}

std::optional<std::string> Vigil::look(Busy busy) {
  const std::int64_t now = machine_time();
  if (!is_waiting_) begin(now);
  const nanoseconds gone = std::min(nanoseconds(now - last_look_), 2 * pause_);
  last_look_ = now;
  waited_ += gone;
  std::int64_t newest = 0;
  for (int r : missing_) {
    watch(r, now, gone);
    const Watched& w = watched_[at(r)];
    newest = std::max(newest, w.waits ? w.heard : w.beat);
  }
  Presence& own = *ranks_[self_];
  own.heard = std::max(own.heard.load(), newest);

  for (const auto& [fate, one, several] :
       {std::tuple{Fate::is_silent, "which gives no sign of life", "which give no sign of life"},
        std::tuple{Fate::waits, "which waits, too", "which wait, too"},
        std::tuple{Fate::is_stuck, "which does nothing", "which do nothing"},
        std::tuple{Fate::is_busy, "which is still busy", "which are still busy"},
        std::tuple{Fate::is_elsewhere, "which is on another host", "which are on other hosts"}}) {
    std::vector<int> lost;
    std::ranges::copy_if(missing_, std::back_inserter(lost), [&](int r) { return fate_of(r, busy) == fate; });
    if (!lost.empty())
      return fmt::format("waited {} for rank{} {}, {}{}", seconds_text(waited_), lost.size() > 1 ? "s" : "",
                         fmt::join(lost, ", "), lost.size() > 1 ? several : one,
                         last_place_ ? last_place_(lost.front()) : "");
  }
  return std::nullopt;
}

}  // namespace shardwright
