#include "shardwright/runtime/communicator/attendance.h"

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <new>
#include <vector>

#include "shardwright/base/error.h"
#include "shardwright/runtime/communicator/mpi_window.h"

namespace shardwright {
namespace {

/// What a process did as one of the last things.
struct Entry {
  std::uint64_t key = 0;
  std::array<char, 200> words{};
};

constexpr std::size_t remembered = 32;  // how far processes run ahead of each other is much less

struct alignas(64) Seat {
  std::atomic<std::uint64_t> entered{0};
  std::atomic<bool> has_left{false};
  std::array<Entry, remembered> entries;  // of entry k at k % remembered, once `entered` is k or more
};

}  // namespace

struct Attendance::State {
  MPI_Comm host = MPI_COMM_NULL;
  MpiWindow window;
  std::vector<int> ranks;  // of the run, by that on the host
  int own = 0;

  Seat& seat(std::size_t i) const { return *reinterpret_cast<Seat*>(window.begins[i]); }
  Seat& own_seat() const { return seat(static_cast<std::size_t>(own)); }
};

Attendance::Attendance() : state_(std::make_unique<State>()) {
  State& s = *state_;
  int rank = 0, here = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &s.host);
  MPI_Comm_rank(s.host, &s.own);
  MPI_Comm_size(s.host, &here);
  s.ranks.resize(static_cast<std::size_t>(here));
  MPI_Allgather(&rank, 1, MPI_INT, s.ranks.data(), 1, MPI_INT, s.host);
  s.window = make_window(s.host, sizeof(Seat));
  new (&s.own_seat()) Seat;
  MPI_Barrier(s.host);
}

Attendance::~Attendance() {
  MPI_Win_free(&state_->window.window);
  MPI_Comm_free(&state_->host);
}

void Attendance::enter(std::uint64_t key, std::string_view words) {
  const State& s = *state_;
  Seat& own = s.own_seat();
  const std::uint64_t number = own.entered + 1;
  Entry& entry = own.entries[number % remembered];
  entry.key = key;
  entry.words = {};
  words.copy(entry.words.data(), entry.words.size() - 1);
  own.entered = number;  // behind what it announces
  for (std::size_t i = 0; i < s.ranks.size(); ++i) {
    const Seat& other = s.seat(i);
    const std::uint64_t there = other.entered;
    if (there < number || there - number >= remembered) continue;
    const Entry seen = other.entries[number % remembered];
    // Unless it has been overwritten meanwhile, by one who would not have waited.
    if (seen.key != key && other.entered - number < remembered)
      throw error("rank {} {}, but rank {} {}: all processes do the same in the same order",
                  s.ranks[static_cast<std::size_t>(s.own)], words, s.ranks[i], seen.words.data());
  }
}

Attendance::Left Attendance::leave() {
  const State& s = *state_;
  s.own_seat().has_left = true;
  Left out{.have_all = true};
  for (std::size_t i = 0; i < s.ranks.size(); ++i) {
    if (s.seat(i).entered > s.own_seat().entered) out.goes_on = s.ranks[i];
    out.have_all = out.have_all && s.seat(i).has_left;
  }
  return out;
}

}  // namespace shardwright
