#include "python/core/ranks.h"

#include <fmt/core.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "python/core/program.h"
#include "shardwright/runtime/communicator/attendance.h"
#include "shardwright/runtime/communicator/mpi.h"
#include "shardwright/runtime/launcher.h"

namespace shardwright::python {
namespace {

std::unique_ptr<MpiProcess> process;
std::unique_ptr<Attendance> attendance;
std::vector<std::shared_ptr<Program>> programs;  // in the order in which they were made

MpiProcess& joined() {
  if (!process) {
    process = std::make_unique<MpiProcess>();
    attendance = std::make_unique<Attendance>();
  }
  return *process;
}

/// Waits until all end their programs. One that goes on with something would wait for this process for ever.
void wait_for_all() {
  const py::gil_scoped_release others_run;
  for (Attendance::Left left = attendance->leave(); !left.have_all; left = attendance->leave()) {
    if (left.goes_on) {
      fmt::print(stderr,
                 "rank {} has ended its program, but rank {} goes on with something that all processes do "
                 "together\n",
                 own_rank(), *left.goes_on);
      process->end_all(1);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const py::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) process->end_all(130);
  }
}

/// All processes leave together: one that fails ends the others instead.
void leave() {
  if (attendance) wait_for_all();
  for (const auto& program : programs) program->end();
  programs.clear();
  attendance.reset();
  process.reset();
}

}  // namespace

int rank_count() { return std::max(1, launched_ranks()); }
int own_rank() { return launched_rank().value_or(0); }

SessionStart session_start(int devices, std::vector<int> ranks) {
  if (rank_count() == 1 || devices == 1) return start_threads;
  if (ranks.empty())
    for (int r = 0; r < rank_count(); ++r) ranks.push_back(r);
  if (devices != static_cast<int>(ranks.size()))
    throw error("devices={} but mpirun has started {} processes; there should be one per device", devices,
                ranks.size());
  return [ranks = std::move(ranks)](Pipeline program, SessionOptions options) {
    const std::size_t transfers = most_transfers(program);
    MpiProcess& self = joined();
    if (static_cast<int>(ranks.size()) == rank_count()) attendance->enter();
    return Session(std::move(program), self.communicator(ranks, transfers), options);
  };
}

void enter(const Session& session) {
  if (attendance && session.ranks().size() == 1 && session.pipeline().rank_count() == rank_count())
    attendance->enter();
}

void remember(const std::shared_ptr<Program>& program) {
  if (rank_count() > 1) programs.push_back(program);
}

void bind_ranks(py::module_& m) {
  m.def("rank_count", &rank_count, "Processes of this run: 1 unless mpirun has started more.");
  m.def("own_rank", &own_rank);
  m.def(
      "join",
      [] {
        if (rank_count() > 1) joined();
      },
      "Meets the other processes of this run.");
  m.def(
      "end_all",
      [](int status) {
        if (process) process->end_all(status);
      },
      "Ends all processes of the run: for a failure that the others do not know of.");
  py::module_::import("atexit").attr("register")(py::cpp_function(&leave));
}

}  // namespace shardwright::python
