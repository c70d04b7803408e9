// What the kernel of a node computes and moves: read off its rule, its types and its strategy, and priced by
// cost/compute.h. Estimates, explanations, searches and the cut into stages all ask here.
#pragma once

#include <algorithm>
#include <vector>

#include "shardwright/cost/compute.h"
#include "shardwright/graph/graph.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/op.h"

namespace shardwright {

/// What the rule of a call says, on all devices together; the same for all calls of an operator with equal types.
struct CallWork {
  double flops = 0;
  WorkKind kind = WorkKind::streaming;
  Rule rule = {};  // of a product: its rows depend on how it is split
  bool is_batched = false;
  int experts = -1;                      // loop dim of experts, of which rows take few
  std::vector<std::int64_t> sizes = {};  // of loop dims
};
CallWork call_work(const OpDef& op, const Rule& rule);

/// Of a program's ranks those that are looked at: the one with most of them counts. `count` 0: all.
struct RanksOf {
  int first = 0, count = 0;
};

/// Bytes of which the rows are multiples that one device reads of `node`, a product of `call`; of other work 0.
std::int64_t row_bytes(const Graph& graph, const Node& node, const CallWork& call, RanksOf ranks = {});

/// One device's share of the loop space of `node`, which makes `call`, the largest; without a strategy nothing is split.
double share_of(const Graph& graph, const Node& node, const CallWork& call, RanksOf ranks = {});

/// Of the bytes that the largest part of `v` has, how many the largest on `ranks` has: 1 but where it is cut by shares.
double part_of_largest(const Graph& graph, ValueId v, RanksOf ranks);

/// Of what the devices that share the experts of `node` do, how many times the mean the busiest does; 1 of other work.
double imbalance_of(const Node& node, const CallWork& call, const Cluster& cluster);

/// Bytes that a kernel of `flops` reads of `v`, which lies as its type says.
double bytes_read(const Graph& graph, ValueId v, double flops);

/// What `node` of `flops` reads and writes but for values in `moved`, which it adds its own to: nodes that run together
/// move each value between cache and memory once. `is_in_memory(v)`: what passes between them in the cache is not.
template <class F>
double bytes_moved(const Graph& graph, const Node& node, double flops, std::vector<ValueId>& moved,
                   F is_in_memory, RanksOf ranks = {}) {
  const auto is_new = [&](ValueId v) {
    if (!is_in_memory(v) || std::find(moved.begin(), moved.end(), v) != moved.end()) return false;
    moved.push_back(v);
    return true;
  };
  double bytes = 0;
  for (ValueId v : node.operands)
    if (is_new(v)) bytes += bytes_read(graph, v, flops) * part_of_largest(graph, v, ranks);
  for (ValueId v : node.results)
    if (is_new(v))
      bytes += (updates_rows(node) ? bytes_read(graph, v, flops)
                                   : static_cast<double>(graph.value(v).type.bytes())) *
               part_of_largest(graph, v, ranks);
  return bytes;
}

/// Of a kernel of its own on what one device holds of the tensors of `node`; none of an operand seen otherwise (alias).
Work kernel_work(const Graph& graph, const Node& node, const Rule& rule);
/// Seconds of that; 0 of what computes nothing.
double kernel_seconds(const Graph& graph, const Node& node, const Cluster& cluster);

}  // namespace shardwright
