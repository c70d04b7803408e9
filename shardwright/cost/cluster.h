// A cluster: the machine that a plan is for. Devices, their speed and memory, and the links between them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shardwright/layout/mesh.h"
#include "shardwright/layout/redistribution.h"

namespace shardwright {

struct Cluster {
  std::string name = "cpu:1";
  int devices = 1;
  double flops_per_second = 1.5e11;         // of one device, 32-bit floats
  double memory_bytes_per_second = 1.4e10;  // of one device
  LinkCost link;                            // between any two devices
};

/// The cluster called `name`: `cpu:N` (figures measured on a 2-core host, one device a core).
/// Throws: Error if there is no such cluster or N is not in 1..4096.
Cluster cluster_called(std::string_view name);

/// What each axis of `mesh` costs to communicate over.
MeshCost mesh_cost(const Cluster& cluster, const Mesh& mesh);

}  // namespace shardwright
