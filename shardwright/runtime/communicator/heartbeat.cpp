#include "shardwright/runtime/communicator/heartbeat.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <numeric>

#include "shardwright/base/host_name.h"
#include "shardwright/base/index.h"
#include "shardwright/runtime/communicator/fatal_signals.h"
#include "shardwright/runtime/communicator/launcher_end.h"
#include "shardwright/runtime/communicator/mpi_window.h"

namespace shardwright {

namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// Deaths are noticed so soon, and signs from elsewhere.
constexpr nanoseconds longest_sleep = milliseconds(250);
/// What ranks did last they have written by then.
constexpr nanoseconds time_to_write = milliseconds(800);

std::int64_t processor_time(int who) {
  rusage u{};
  getrusage(who, &u);
  const auto time = [](const timeval& t) { return t.tv_sec * 1'000'000'000LL + t.tv_usec * 1000LL; };
  return time(u.ru_utime) + time(u.ru_stime) + (u.ru_inblock + u.ru_oublock) * 1'000'000LL;
}

}  // namespace

struct Heartbeat::Shared {
  MPI_Comm host = MPI_COMM_NULL;
  MpiWindow window;

  /// What the signs of ranks of other hosts have told, by rank; the first of the host writes there.
  Presence* elsewhere() const { return reinterpret_cast<Presence*>(window.begins.front()) + 1; }
};

/// Of all threads but the one that asks. A process that waits for a lock does none; one whose threads only look now and
/// then whether there is something to do has next to none.
struct Heartbeat::Work {
  std::int64_t time = machine_time();
  std::int64_t done = 0;

  bool has_gone_on(std::int64_t now) {
    constexpr std::int64_t least_time = 100'000'000, share = 500;
    const std::int64_t gone = now - time;
    if (gone < least_time) return false;
    const std::int64_t all = processor_time(RUSAGE_SELF) - processor_time(RUSAGE_THREAD);
    const bool has = all - done > gone / share;
    time = now;
    done = all;
    return has;
  }
};

Heartbeat::Heartbeat(int self, int ranks, std::chrono::nanoseconds timeout)
    : self_(self), timeout_(timeout), work_(std::make_unique<Work>()) {
  see(std::vector<Presence*>(at(ranks), nullptr));
  thread_ = std::jthread([this](const std::stop_token& stop) { live(stop); });
}

Heartbeat::~Heartbeat() = default;

void Heartbeat::see(std::vector<Presence*> ranks) {
  if (!ranks[at(self_)]) ranks[at(self_)] = &unseen_;
  const std::lock_guard lock(mutex_);
  ranks_ = std::move(ranks);
  std::vector<int> all(ranks_.size());
  std::iota(all.begin(), all.end(), 0);
  vigil_ = std::make_unique<Vigil>(ranks_, self_, timeout_, Vigil::In::call, elsewhere(all));
  vigil_->tell_by([this](int rank) { return words_of(rank); });
  is_new_ = true;  // others may expect signs sooner
  wakes_.notify_all();
}

void Heartbeat::set_timeout(std::chrono::nanoseconds timeout) {
  if (timeout == timeout_) return;
  timeout_ = timeout;
  see(ranks_);
}

void Heartbeat::join() {
  shared_ = std::make_unique<Shared>();
  auto& [host, window] = *shared_;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, self_, MPI_INFO_NULL, &host);
  int here = 0, own = 0;
  MPI_Comm_size(host, &here);
  MPI_Comm_rank(host, &own);
  std::vector<int> numbers(at(here));
  MPI_Allgather(&self_, 1, MPI_INT, numbers.data(), 1, MPI_INT, host);
  window = make_window(host, sizeof(Presence) * (own == 0 ? 1 + ranks_.size() : 1));
  Presence* const shown = new (window.begins[at(own)]) Presence;
  shown->beat = shown->worked = machine_time();
  shown->process = ::getpid();
  if (own == 0)
    for (std::size_t r = 0; r < ranks_.size(); ++r) new (shared_->elsewhere() + r) Presence;
  MPI_Barrier(host);
  auto signs = std::make_unique<HostSigns>(self_);
  const SignAddress address = signs->own(numbers.front());
  std::vector<SignAddress> addresses(ranks_.size());
  MPI_Allgather(&address, sizeof address, MPI_BYTE, addresses.data(), sizeof address, MPI_BYTE,
                MPI_COMM_WORLD);
  std::vector<Presence*> ranks(ranks_.size(), nullptr);
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (addresses[r].port != 0) ranks[r] = shared_->elsewhere() + r;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    ranks[at(numbers[i])] = reinterpret_cast<Presence*>(window.begins[i]);
  signs->set(std::move(addresses));
  {
    const std::lock_guard lock(mutex_);
    here_ = numbers;
    signs_ = std::move(signs);
    for (int r : here_)
      if (r != self_) deaths_.add(r, ranks[at(r)]->process);
  }
  see(std::move(ranks));
  show_fatal_signals(shown, signs_.get());
}

/// As long as a rank may do one thing: the first may write a checkpoint, but what waits for one that has left waits for ever.
bool Heartbeat::wait_for_all_to_leave() {
  constexpr int timeouts = 10;
  const std::int64_t until = machine_time() + timeouts * timeout_.count();
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int tries = 0; machine_time() < until; ++tries) {
    int all = 0;
    MPI_Test(&request, &all, MPI_STATUS_IGNORE);
    if (all) return true;
    tries < 1000 ? static_cast<void>(sched_yield()) : std::this_thread::sleep_for(milliseconds(1));
  }
  return false;
}

void Heartbeat::leave() {
  const bool all_come = wait_for_all_to_leave();  // until then who goes is lost
  show_fatal_signals(nullptr, nullptr);
  {
    const std::lock_guard lock(mutex_);
    is_leaving_ = true;
    deaths_.clear();
  }
  MPI_Barrier(all_come ? MPI_COMM_WORLD : shared_->host);
  {
    const std::lock_guard lock(mutex_);
    signs_.reset();
    here_.clear();
  }
  see(std::vector<Presence*>(ranks_.size(), nullptr));
  MPI_Win_free(&shared_->window.window);
  MPI_Comm_free(&shared_->host);
}

std::vector<Presence*> Heartbeat::presences(std::span<const int> ranks) const {
  std::vector<Presence*> out;
  for (int r : ranks) out.push_back(ranks_[at(r)]);
  return out;
}

Elsewhere Heartbeat::elsewhere(std::span<const int> ranks) const {
  Elsewhere out;
  if (here_.empty()) return out;
  out.hears = &first_here();
  for (int r : ranks) out.is_elsewhere.push_back(!std::ranges::binary_search(here_, r));
  return out;
}

Presence& Heartbeat::first_here() const { return *ranks_[at(here_.empty() ? self_ : here_.front())]; }

int Heartbeat::add(const void* communicator, Failed failed) {
  const std::lock_guard lock(mutex_);
  members_[communicator] = {.session = ++sessions_, .failed = std::move(failed)};
  return sessions_;
}

void Heartbeat::remove(const void* communicator) {
  const std::lock_guard lock(mutex_);
  members_.erase(communicator);
}

void Heartbeat::describe_by(const void* communicator, StepPlaceWords words) {
  const std::lock_guard lock(mutex_);
  if (const auto it = members_.find(communicator); it != members_.end()) it->second.words = std::move(words);
}

std::string Heartbeat::last_place(int rank) {
  const std::lock_guard lock(mutex_);
  return words_of(rank);
}

std::string Heartbeat::words_of(int rank) const {
  const bool is_here = std::ranges::binary_search(here_, rank);
  return (is_here || !signs_ ? "" : fmt::format(", on {}", signs_->host_of(rank))) + place_words(rank);
}

std::string Heartbeat::place_words(int rank) const {
  if (!ranks_[at(rank)]) return "";
  const StepPlace place = ranks_[at(rank)]->place();
  for (const auto& [communicator, member] : members_)
    if (member.session == place.session && member.words && place.step >= 0)
      return fmt::format(", last at step {}, {}", place.step, member.words(rank, place));
  return "";
}

/// A rank elsewhere has been silent for about as long as it may be.
bool Heartbeat::has_lost_host() const {
  const std::int64_t now = machine_time();
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (!signs_ || !ranks_[r] || std::ranges::binary_search(here_, static_cast<int>(r))) continue;
    const std::int64_t heard = ranks_[r]->beat;
    if (heard > 0 && now - heard > timeout_.count() / 2) return true;
  }
  return false;
}

void Heartbeat::pass_on(const std::string& failure) {
  const std::lock_guard lock(mutex_);
  failure_ = failure;
  is_new_ = true;
  sent_ = 0;
  wakes_.notify_all();
}

void Heartbeat::begin_end(int status) {
  const std::lock_guard lock(mutex_);
  ranks_[at(self_)]->ends = true;
  first_here().has_told = true;
  if (failure_.empty()) failure_ = "another rank ends the run";
  end_in(std::chrono::seconds(4), status);
  if (has_lost_host()) end_launcher_late();
  is_new_ = true;
  sent_ = 0;
  wakes_.notify_all();
}

void Heartbeat::end_in(nanoseconds time, int status) {
  if (ends_at_) return;
  ends_at_ = machine_time() + time.count();
  end_status_ = status;
}

void Heartbeat::live(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    beat(machine_time());
    is_new_ = false;
    wakes_.wait_for(lock, stop, std::min(vigil_->pause(), longest_sleep), [this] { return is_new_; });
  }
}

void Heartbeat::beat(std::int64_t now) {
  Presence& own = *ranks_[at(self_)];
  own.beat = now;
  if (work_->has_gone_on(now)) own.worked = now;
  if (signs_ && signs_->has_others()) talk(now);
  if (!is_leaving_)
    for (int r : deaths_.gone()) lost(r);
  if (!call_.empty() && !ends_at_) look();
  if (!ends_at_ || now < *ends_at_) return;
  own.ends = true;
  std::fflush(stderr);
  ::_exit(end_status_);
}

void Heartbeat::talk(std::int64_t now) {
  if (now - sent_ >= vigil_->pause().count() * 9 / 10) {
    sent_ = now;
    signs_->send(*ranks_[at(self_)], failure_);
  }
  hear();
}

/// Only the first of a host is sent anything.
void Heartbeat::hear() {
  std::vector<int> gone;
  signs_->receive({.presence = [this](int rank) -> Presence& { return *(shared_->elsewhere() + rank); },
                   .failed =
                       [&](const std::string& why) {
                         if (first_here().has_told.exchange(true)) return;
                         tell_members(why);
                       },
                   .gone = [&](int rank) { gone.push_back(rank); }});
  if (is_leaving_ || gone.empty() || ends_at_) return;
  // Every host notices; one that tells sooner says so.
  std::vector<int> firsts{here_.front()};
  for (int r = 0; r < static_cast<int>(ranks_.size()); ++r)
    if (signs_->first_of(r) == r && r < here_.front()) firsts.push_back(r);
  constexpr int most_turns = 10;
  const auto turn =
      std::min(most_turns, static_cast<int>(firsts.size()) - 1 + (here_.front() == self_ ? 0 : 1));
  if (turn > 0) std::this_thread::sleep_for(turn * milliseconds(60));
  for (int r : gone) lost(r);
}

void Heartbeat::look() {
  std::vector<int>& missing = vigil_->missing();
  for (int r = 0; r < static_cast<int>(ranks_.size()); ++r)
    if (r != self_) missing.push_back(r);
  if (const auto how = vigil_->look(busy_)) end(fmt::format("rank {}: {} {}", self_, call_, *how));
}

/// A process has ended that has not said why.
void Heartbeat::lost(int rank) {
  const Presence* const shown = ranks_[at(rank)];
  if (is_leaving_ || !shown || shown->ends) return;
  const bool is_told = first_here().has_told.exchange(true);
  const int signal = shown->signal;
  const std::string how =
      signal == 0 ? "has died" : fmt::format("was ended by signal {} ({})", signal, strsignal(signal));
  const std::string why = fmt::format("rank {} on {} {}{}", rank,
                                      signs_ ? signs_->host_of(rank) : host_name(), how, place_words(rank));
  if (!is_told) fmt::print(stderr, "shardwright: {}\n", why);
  std::fflush(stderr);
  tell_members(why);
  failure_ = why;
  sent_ = 0;
  end_in(time_to_write, lost_rank_status);
  is_new_ = true;
}

void Heartbeat::tell_members(const std::string& why) {
  for (const auto& [communicator, member] : members_) member.failed(why);
}

/// The first of a host says it: the end of one ends the others.
void Heartbeat::end(const std::string& why) {
  ranks_[at(self_)]->ends = true;
  const bool is_told = first_here().has_told.exchange(true);
  if (!is_told) fmt::print(stderr, "shardwright: {}\n", why);
  std::fflush(stderr);
  if (signs_ && signs_->has_others()) signs_->send(*ranks_[at(self_)], why);
  if (has_lost_host()) end_launcher_late();
  if (is_told) std::this_thread::sleep_for(std::chrono::seconds(5));
  ::_exit(lost_rank_status);
}

Heartbeat::Call::Call(Heartbeat& heartbeat, std::string_view what, Busy busy) : heartbeat_(heartbeat) {
  const std::lock_guard lock(heartbeat_.mutex_);
  is_outer_ = heartbeat_.call_.empty();
  if (!is_outer_) return;
  heartbeat_.call_ = what;
  heartbeat_.busy_ = busy;
}

Heartbeat::Call::~Call() {
  if (!is_outer_) return;
  const std::lock_guard lock(heartbeat_.mutex_);
  heartbeat_.call_ = {};
  heartbeat_.vigil_->end();
}

}  // namespace shardwright
