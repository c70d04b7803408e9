#include "python/core/ranks.h"

#include <memory>
#include <vector>

#include "python/core/program.h"
#include "shardwright/runtime/communicator/mpi.h"
#include "shardwright/runtime/launcher.h"

namespace shardwright::python {
namespace {

std::unique_ptr<MpiProcess> process;
std::vector<std::shared_ptr<Program>> programs;  // in the order in which they were made

MpiProcess& joined() {
  if (!process) process = std::make_unique<MpiProcess>();
  return *process;
}

/// All processes leave together: one that fails ends the others instead.
void leave() {
  for (const auto& program : programs) program->end();
  programs.clear();
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
    return Session(std::move(program), joined().communicator(ranks, transfers), options);
  };
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
