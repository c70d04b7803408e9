// Tasks that a user gives one by one (plan/schedule_table.h).

#include <fmt/format.h>

#include "shardwright/base/index.h"
#include "shardwright/plan/schedule_table.h"

namespace shardwright::schedules {
namespace {

std::string refusal(const Pipelining& p) {
  const auto rows = static_cast<int>(p.schedule.rows.size());
  if (p.stages != rows)
    return fmt::format("the table of the schedule has {} rows, one for each stage, but there are {} stages",
                       rows, p.stages);
  if (const int count = micro_batches_of_table(p.schedule); p.micro_batches != count)
    return fmt::format("the table of the schedule has {} micro-batches but there are {}", count,
                       p.micro_batches);
  return "";
}

}  // namespace

std::vector<ScheduleDef> table() {
  return {{.name = "table",
           .doc = "as a file of tasks says",
           .order = ChunkOrder::table,
           .tasks = [](const Pipelining& p, int stage) { return p.schedule.rows[at(stage)]; },
           .refusal = refusal}};
}

}  // namespace shardwright::schedules
