// What only communicators of processes have.
#pragma once

#include <functional>

#include "shardwright/runtime/communicator/communicator.h"

namespace shardwright {

/// As on_each_rank; the communicators have room for so many transfers.
void on_each_process(int ranks, std::size_t transfers, const std::function<void(Communicator&)>& work);

}  // namespace shardwright
