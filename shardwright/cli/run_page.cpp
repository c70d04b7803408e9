#include "shardwright/cli/run_page.h"

#include "shardwright/cli/mpi_rank.h"

namespace shardwright {

void RunPage::write(const Session& session, TrainedRun run) const {
  const MemoryMarks memory = session.memory_marks();
  if (!is_first_rank()) return;
  run.planned_bytes = memory.planned;
  run.measured_bytes = memory.measured;
  write_page(arguments_, Arguments(arguments_).text("--html"),
             {.plan = plan_,
              .pipeline = session.pipeline(),
              .evaluation = expected_,
              .report = told_,
              .batch = batch_,
              .run = std::move(run)});
}

}  // namespace shardwright
