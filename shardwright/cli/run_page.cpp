#include "shardwright/cli/run_page.h"

#include <ostream>
#include <thread>

#include "shardwright/cli/mpi_rank.h"

namespace shardwright {

void RunPage::write(const Session& session, TrainedRun run, std::ostream& err) const {
  const MemoryMarks memory = session.memory_marks();
  if (!is_first_rank()) return;
  run.planned_bytes = memory.planned;
  run.measured_bytes = memory.measured;
  if (memory.processes.size() == 1) run.cores = static_cast<int>(std::thread::hardware_concurrency());
  try {
    write_page(
        arguments_, Arguments(arguments_).text("--html"),
        {.plan = plan_,
         .pipeline = session.pipeline(),
         .evaluation = expected_,
         .report = told_,
         .batch = batch_,
         .bound = bound_of_ && !run.is_interrupted ? std::optional(bound_of_(expected_)) : std::nullopt,
         .run = std::move(run)});
  } catch (const Error& e) {
    err << fmt::format("--html: the run is whole, its page is not: {}\n", e.what());
  }
}

}  // namespace shardwright
