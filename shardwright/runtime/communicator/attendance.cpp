#include "shardwright/runtime/communicator/attendance.h"

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <new>
#include <vector>

#include "shardwright/runtime/communicator/mpi_window.h"

namespace shardwright {
namespace {

struct alignas(64) Seat {
  std::atomic<std::uint64_t> entered{0};
  std::atomic<bool> has_left{false};
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

void Attendance::enter() { ++state_->own_seat().entered; }

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
