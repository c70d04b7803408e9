// What the host does, measured: streams of several sizes, kernels as they come in training steps, collectives.
//
// All cores that will be devices work at the same time, as they will: they share memory and caches. Kernels are those of
// small networks, trained, because what a kernel takes depends on what ran before it; they are not the ones that
// bench/truth.cpp judges by.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "shardwright/cost/calibrate.h"
#include "shardwright/runtime/backend/backend.h"
#include "shardwright/runtime/communicator/communicator.h"

namespace shardwright {

class Progress;

struct HostMeasuring {
  DeviceKind device;
  int devices = 1;        // threads of this process
  int first_core = 0;     // of the first one
  bool is_quick = false;  // small sizes and few rounds: shows that it works, the figures mean little
  Progress* progress = nullptr;
};

/// Keeps the calling thread on a core: `number` counts those that the process may use, and round again.
void keep_on_core(int number);

/// Cores that the process may use.
int usable_cores();

std::vector<StreamSample> measured_streams(const HostMeasuring& how);

/// Their works say what caches of `cluster` hold.
std::vector<KernelSample> measured_kernels(const HostMeasuring& how, const Cluster& cluster);

/// Of this rank, whose group of ranks all measure; in each, ranks are `stride` apart.
std::vector<CollectiveSample> measured_collectives(const HostMeasuring& how, Communicator& all,
                                                   Backend& backend, int ranks, int stride);
/// The same over threads of this process, of 2, 4, ... ranks up to all.
std::vector<CollectiveSample> measured_collectives(const HostMeasuring& how);

}  // namespace shardwright
