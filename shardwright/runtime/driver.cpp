#include "shardwright/runtime/driver.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <system_error>

namespace shardwright {

Driver::Driver(std::deque<Rank>& ranks, Mode mode, std::chrono::nanoseconds timeout)
    : ranks_(ranks), mode_(mode), timeout_(timeout), process_(getpid()) {
  if (mode == Mode::caller) return;
  try {
    for (Rank& rank : ranks)
      threads_.emplace_back([this, &rank](const std::stop_token& stop) { live(rank, stop); });
  } catch (const std::system_error& e) {
    stop_threads();  // those that run would be waited for
    throw io_error("only {} of {} devices could be started ({}); use fewer", threads_.size(), ranks.size(),
                   e.what());
  }
}

Driver::~Driver() {
  if (is_forked())  // the threads are not here: they can neither be waited for nor let go
    new std::vector<std::jthread>(std::move(threads_));
  else
    stop_threads();
}

bool Driver::is_forked() const { return getpid() != process_; }

void Driver::stop_threads() {
  for (std::jthread& t : threads_) t.request_stop();
  round_.add(1);
}

void Driver::live(Rank& rank, const std::stop_token& stop) {
  for (std::uint32_t number = 0;; ++number) {
    round_.wait_while(number);
    if (stop.stop_requested()) return;
    guarded(rank);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) done_.add(1);
  }
}

void Driver::run(const Work& work) {
  check_usable();
  const std::lock_guard turn(turn_);
  check_usable();
  work_ = &work;
  if (mode_ == Mode::caller) {
    guarded(ranks_.front());
  } else {
    busy_.store(static_cast<std::uint32_t>(ranks_.size()), std::memory_order_relaxed);
    const std::uint32_t number = done_.load();
    round_.add(1);
    while (!done_.wait_while(number, std::min<std::chrono::nanoseconds>(timeout_, std::chrono::seconds(1))))
      end_if_given_up();
  }
  throw_failure();
}

void Driver::read(const Work& work) {
  std::optional<Failure> before;
  {
    const std::lock_guard lock(mutex_);
    if (keeps_) before.swap(failure_);
  }
  run(work);
  const std::lock_guard lock(mutex_);
  if (before) failure_.swap(before);
}

void Driver::keep(bool is_as_before) {
  const std::lock_guard lock(mutex_);
  keeps_ = is_as_before;
}

bool Driver::has_stopped() const {
  const std::lock_guard lock(mutex_);
  return failure_.has_value();
}

/// Nothing may escape: what goes wrong is told to the peers and kept for the caller.
void Driver::guarded(Rank& rank) {
  try {
    (*work_)(rank);
  } catch (const Error& e) {
    record(rank, {e.what(), e.kind()});
  } catch (const std::bad_alloc&) {
    record(rank, {"out of memory", ErrorKind::timeout});  // it is lost, as one that does not come
  } catch (const std::exception& e) {
    record(rank, {e.what(), ErrorKind::user, true});
  }
}

void Driver::record(const Rank& rank, Failure f) {
  // The first is the cause; what follows are peers that were told of it.
  bool is_first = false;
  try {
    is_first = rank.communicator().fail(f.message);
  } catch (const std::bad_alloc&) {
    is_first = rank.communicator().fail("no memory left");  // which a string holds itself
  }
  const std::lock_guard lock(mutex_);
  if (!is_first) f.kind = ErrorKind::peer;
  if (!is_first && failure_) return;
  try {
    f.message = fmt::format("rank {}: {}", rank.number(), f.message);
  } catch (const std::bad_alloc&) {  // without its number
  }
  failure_ = Failure{std::move(f.message), f.kind, is_first && f.is_ours};
}

void Driver::end_if_given_up() const {
  const std::lock_guard lock(mutex_);
  if (!failure_ || failure_->kind != ErrorKind::timeout) return;
  if (std::chrono::steady_clock::now() - failure_->time < 10 * timeout_) return;
  fmt::print(stderr, "shardwright: {}\n", failure_->message);
  std::fflush(stderr);
  ::_exit(lost_rank_status);
}

void Driver::throw_failure() const {
  const std::lock_guard lock(mutex_);
  if (!failure_) return;
  if (failure_->is_ours) throw InternalError(failure_->message);
  throw Error(failure_->message, failure_->kind);
}

void Driver::check_usable() const {
  if (is_forked())
    throw error(
        "a forked process cannot use devices that its parent has started; build what runs in the child "
        "itself");
  const std::lock_guard lock(mutex_);
  if (failure_)
    throw Error(fmt::format("the session has stopped{}; {}",
                            keeps_ ? "" : ", and its values are lost, which some rank was changing",
                            failure_->message),
                failure_->kind);
}

}  // namespace shardwright
