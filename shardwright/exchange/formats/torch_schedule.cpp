// The order of tasks as PyTorch's pipelining reads it (torch.distributed.pipelining.schedules, `compute_only`), for
// torchtitan's pipeline_parallel_schedule_csv. PyTorch sends only between stages that are neighbours in the network.

#include "shardwright/exchange/plan_format.h"
#include "shardwright/exchange/words_left.h"
#include "shardwright/plan/schedule_table.h"

namespace shardwright::formats {
namespace {

Exported write(const WrittenPlan& plan) {
  const Pipelining& p = plan.plan.settings.pipelining;
  if (p.stages == 1)
    throw error("torch-schedule: is the order of tasks of several stages, and the plan has one");
  WordsLeft left(plan);
  left.take({"pp", "micro_batches", "schedule"});
  left.leave({"micro_batch_interleave"}, "a task is a whole micro-batch");
  if (!plan.far_crossings.empty())
    left.add(fmt::format("what goes between stages that are no neighbours, which PyTorch does not send: {}",
                         some_of(plan.far_crossings)));
  return {.text = table_text(p), .not_carried = left.lines()};
}

}  // namespace

std::vector<PlanFormat> torch_schedule() {
  return {{.name = "torch-schedule",
           .doc = "tasks of each stage as a table of PyTorch's pipelining",
           .write = write}};
}

}  // namespace shardwright::formats
