// Seconds that one device takes for one kernel: a roofline whose two roofs are reached only by large work.
//
//   seconds = kernel_seconds + max(time at the peak of flops, time at the bandwidth of memory)
//   time    = (w + half) / best        w: seconds of the work at the peak, which is thus best * w / (w + half) of it
//
// What a cache holds comes at the cache's bandwidth.
//
// `best` and `half` are the cluster's, per class of work (Cluster::efficiency). The class is read off the rule, so
// that no operator is named: where flops grow faster than data the tensor units work, all else streams memory.
// How well this fits measurements: docs/cost-model.md.
#pragma once

#include <array>
#include <numeric>

#include "shardwright/cost/cluster.h"
#include "shardwright/layout/rule.h"

namespace shardwright {

/// What one device does in one kernel.
struct Work {
  WorkKind kind = WorkKind::streaming;
  double flops = 0;
  double bytes = 0;  // read and written
  DType dtype = DType::f32;
  /// Of a product: bytes of which the rows of all that it reads are multiples; 0: nobody has said. `is_batched`: it is many
  /// products at once.
  std::int64_t row_bytes = 0;
  bool is_batched = false;
  /// Whether `cached` says what each of the cluster's caches holds of the bytes. Else all of them are where they fit, as if
  /// the kernel ran again and again.
  bool is_ordered = false;
  std::array<double, most_caches> cached = {};
};

/// contraction: some loop dim is reduced of two operands, each of which has a dim that the other lacks; convolution:
/// the same where windows slide over an operand; weight_convolution: where they slide along a dim that is summed, so that
/// what comes out is as small as a window; chain: contractions over different dims, of three operands or more, so that
/// what one makes is what the next reads; streaming: all other work. Updates
/// are told by their operator, not by their rule.
WorkKind work_kind(const Rule& rule);

/// What is summed stands side by side in each operand that has it, as its last dims or in front of the last.
bool is_of_matrices(const Rule& rule);
/// Bytes of which the rows of the operands of a product are multiples, where of loop dim l `count(l)` are here; elements
/// of so many bytes. 0 of other work, and of what is no product of matrices as they lie (1x1 convolutions). `work_kind` of `rule` is `kind`.
template <class F>
std::int64_t row_bytes(const Rule& rule, WorkKind kind, std::int64_t element, F count) {
  if (kind != WorkKind::contraction || !is_of_matrices(rule)) return 0;
  std::int64_t out = 0;
  for (const RuleTensor& t : rule.operands) {
    if (t.dims.empty() || !t.is_sharded) continue;
    std::int64_t row = element;
    for (int l : t.dims.back()) row *= count(l);
    out = std::gcd(out, row);
  }
  return out;
}
/// It is many products at once: there is a dim that all operands and the result have.
bool is_batched(const Rule& rule);

/// Bytes that memory moves for a kernel of `flops` to read a tensor of `bytes`, of elements and rows of so many bytes.
/// No tensor is read more often than there are operations: of a table only some rows, each of which comes in whole lines
/// of 64 bytes.
double bytes_read(double bytes, double flops, double element, double row);

/// Of `bytes` that were touched `since` so much traffic ago: adds them to what the smallest cache that holds them has.
void add_cached(Work& work, double bytes, double since, const Cluster& cluster);

/// Allocates nothing.
double compute_seconds(const Work& work, const Cluster& cluster);

}  // namespace shardwright
