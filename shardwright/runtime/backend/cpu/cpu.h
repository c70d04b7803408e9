// The CPU backend: oneDNN for matrix products, our own loops for everything else.
//
// Which operators have a kernel of their own here is one table in cpu.cpp. A rank is a thread, so kernels
// themselves use one thread.
#pragma once

#include <memory>

#include "shardwright/runtime/backend/backend.h"

namespace shardwright {

std::unique_ptr<Backend> cpu_backend();

/// The formats that this backend's kernels like: what `compile` is told for programs that run here.
Formats cpu_formats(const OpDef& op, const KernelCall& call);

DeviceKind cpu_devices();

}  // namespace shardwright
