// Tensors in one memory format brought into another.
#pragma once

#include <functional>

#include "shardwright/runtime/backend/cpu/rows.h"

namespace shardwright::cpu {

/// The operator reformat, all at once: by oneDNN for f32, else by base/format.h. Nothing if the call is another.
Rows reformat_rows(const FusedCall& call, Workspace& workspace);

/// A call in any formats by way of row-major copies, on which `kernel_for` has a kernel: for what has no other.
Rows in_row_major(const FusedCall& call, Workspace& workspace,
                  const std::function<Rows(const FusedCall&)>& kernel_for);

}  // namespace shardwright::cpu
