// Clusters as YAML files.
//
//   nodes: 2
//   devices_per_node: 8
//   memory: 80GB                                 # of one device
//   reserved: 2GB                                # of it, for driver and runtime; 0 if left out
//   margin: 6%                                   # of the rest, what plans keep free; 6% if something is reserved
//   memory_bandwidth: 2039GB/s
//   caches: [{size: 1MB, bandwidth: 80GB/s}]     # the smallest first, up to 4; none if left out
//   flops: {f64: 9.7T, f32: 19.5T, bf16: 312T, fp16: 312T}  # f32 must be there; others run at its rate if left out
//   kernel_overhead: 5us                         # 0 if left out
//   efficiency:                                  # per kind of work; each may be left out
//     contraction: {best: 0.7, half: 20us}       # of the peak; seconds of work at which half of it is reached
//   links:                                       # innermost first; the last joins all devices
//     - {kind: nvlink, devices: 8, latency: 5us, bandwidth: 300GB/s}
//     - {kind: infiniband, latency: 10us, bandwidth: 25GB/s}
//   link_efficiency: 0.75                        # of bandwidth, what collectives reach
//   overlap: 0.9                                 # of communication, what runs beside compute
//   price_per_hour: 2.5                          # of one device, in whatever currency; unknown if left out
//   kinds:                                       # where devices are of several kinds, in the order of ranks; one if left out
//     - {devices: 8, device: h100}               # as a preset's; without `device` as above
//     - {devices: 8, memory: 40GB}               # but for what is said otherwise: memory, flops, ... rows, links among them
//
// A link may say what starting a collective costs beside its messages, `start: 40us`, and how devices are joined,
// `wiring: switched` (the default), mesh or cube (layout/collective.h).
// Bandwidths are per device in one direction. Prefixes n u m k M G T P are powers of ten.
#pragma once

#include <string>

#include "shardwright/cost/cluster.h"

namespace shardwright {

/// Throws: Error naming the file and the key that is unknown, missing or not what it should be.
Cluster load_cluster(const std::string& path);

/// The same of the text of such a file. Throws: Error naming `where` and the key.
Cluster parse_cluster(const std::string& text, const std::string& where);
/// Of a cluster whose file says nothing of them: threads of a host have no tensor units.
RowLines usual_rows(const Cluster& cluster);
/// All of it but its name, as a file says it.
std::string to_text(const Cluster& cluster);

}  // namespace shardwright
