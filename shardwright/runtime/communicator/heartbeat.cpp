#include "shardwright/runtime/communicator/heartbeat.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <new>

#include "shardwright/base/index.h"
#include "shardwright/runtime/communicator/mpi_window.h"

namespace shardwright {

struct Heartbeat::Shared {
  MPI_Comm host = MPI_COMM_NULL;
  MpiWindow window;
};

Heartbeat::Heartbeat(int self, int ranks, std::chrono::nanoseconds timeout) : self_(self), timeout_(timeout) {
  see(std::vector<Presence*>(at(ranks), nullptr));
  thread_ = std::jthread([this](const std::stop_token& stop) { live(stop); });
}

Heartbeat::~Heartbeat() = default;

void Heartbeat::see(std::vector<Presence*> ranks) {
  if (!ranks[at(self_)]) ranks[at(self_)] = &unseen_;
  const std::lock_guard lock(mutex_);
  ranks_ = std::move(ranks);
  vigil_ = std::make_unique<Vigil>(ranks_, self_, timeout_, Vigil::In::call);
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
  window = make_window(host, sizeof(Presence));
  (new (window.begins[at(own)]) Presence)->beat = machine_time();
  MPI_Barrier(host);
  std::vector<Presence*> ranks(ranks_.size(), nullptr);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    ranks[at(numbers[i])] = reinterpret_cast<Presence*>(window.begins[i]);
  see(std::move(ranks));
}

void Heartbeat::leave() {
  MPI_Barrier(shared_->host);
  see(std::vector<Presence*>(ranks_.size(), nullptr));
  MPI_Win_free(&shared_->window.window);
  MPI_Comm_free(&shared_->host);
}

std::vector<Presence*> Heartbeat::presences(std::span<const int> ranks) const {
  std::vector<Presence*> out;
  for (int r : ranks) out.push_back(ranks_[at(r)]);
  return out;
}

void Heartbeat::live(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    ranks_[at(self_)]->beat = machine_time();
    if (!call_.empty()) look();
    is_new_ = false;
    wakes_.wait_for(lock, stop, vigil_->pause(), [this] { return is_new_; });
  }
}

void Heartbeat::look() {
  std::vector<int>& missing = vigil_->missing();
  for (int r = 0; r < static_cast<int>(ranks_.size()); ++r)
    if (r != self_) missing.push_back(r);
  if (const auto how = vigil_->look(busy_)) end(fmt::format("rank {}: {} {}", self_, call_, *how));
}

/// The first of a host says it: the end of one ends the others.
void Heartbeat::end(const std::string& why) {
  const auto first = std::ranges::find_if(ranks_, [](const Presence* p) { return p != nullptr; });
  if ((*first)->has_told.exchange(true))
    std::this_thread::sleep_for(std::chrono::seconds(5));
  else
    fmt::print(stderr, "shardwright: {}\n", why);
  std::fflush(stderr);
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
