// Schedules as tables, as PyTorch's pipelining reads and writes them (torch.distributed.pipelining.schedules, the format
// `compute_only`): a line of comma-separated cells for each stage's devices, stage 0 first.
//
//   cell = "" | action | "(" action ";" action ")OVERLAP_F_B"
//   action = PART KIND MICRO_BATCH, as in 5I12. Kinds: F forward, B backward, I gradients of inputs, W of weights
//
// Nothing in a cell is idle time, which is left out. The two of a pair run one behind the other. PyTorch calls a part (a
// chunk of the network) stage, and numbers them as we do, in the order of the network; a part is on the devices in whose
// line it stands. Each micro-batch has one F and one B, or I and W, in each part, and no task may wait for one behind it. All parts
// take micro-batches in one order, forward and backward; gradients of weights may come in any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shardwright/plan/schedule.h"

namespace shardwright {

/// Throws: Error that names the cell.
Schedule schedule_of_rows(const std::vector<std::string_view>& rows);
Schedule load_schedule_table(const std::string& path);

/// Micro-batches of each part.
int micro_batches_of_table(const Schedule& table);

/// A line of a table.
std::string row_text(const Schedule& table, int row);
/// The tasks of any schedule as a table, with a line end behind each line. Backwards that are cut in two stay so.
std::string table_text(const Pipelining& p);

}  // namespace shardwright
