#include "shardwright/cost/compute.h"

#include <algorithm>

#include "shardwright/layout/rule_dims.h"

namespace shardwright {
namespace {

bool is_reduced(const Rule& rule, int loop) {
  return std::any_of(rule.results.begin(), rule.results.end(),
                     [loop](const RuleTensor& t) { return !has_loop(t, loop); });
}

/// `a` has a loop dim that `b` lacks.
bool has_more(const RuleTensor& a, const RuleTensor& b) {
  for (const auto& dim : a.dims)
    for (int loop : dim)
      if (!has_loop(b, loop)) return true;
  return false;
}

/// Of two operands a dim is reduced, and either has a dim of its own: every element is used more than once. Only operands
/// that share a dim are compared: a concat has hundreds, each with its own.
bool contracts(const Rule& rule) {
  std::vector<std::vector<const RuleTensor*>> holders(rule.loops.size());
  for (const RuleTensor& t : rule.operands)
    for (const auto& dim : t.dims)
      for (int loop : dim) {
        auto& of_loop = holders[static_cast<std::size_t>(loop)];
        if (of_loop.empty() || of_loop.back() != &t) of_loop.push_back(&t);
      }
  for (std::size_t l = 0; l < holders.size(); ++l) {
    const auto& of_loop = holders[l];
    if (of_loop.size() < 2 || !is_reduced(rule, static_cast<int>(l))) continue;
    for (std::size_t a = 0; a < of_loop.size(); ++a)
      for (std::size_t b = a + 1; b < of_loop.size(); ++b)
        if (has_more(*of_loop[a], *of_loop[b]) && has_more(*of_loop[b], *of_loop[a])) return true;
  }
  return false;
}

/// Operands with a dim that is reduced.
int reduced_operands(const Rule& rule) {
  return static_cast<int>(std::ranges::count_if(rule.operands, [&](const RuleTensor& t) {
    for (const auto& dim : t.dims)
      for (int loop : dim)
        if (is_reduced(rule, loop)) return true;
    return false;
  }));
}

/// Windows slide along a dim that is reduced: what comes out is a gradient of the weights that they are.
bool slides_along_reduced(const Rule& rule) {
  for (const RuleTensor& t : rule.operands)
    for (std::size_t d = 0; d < t.windows.size(); ++d)
      if (t.windows[d].loop != 0 && !t.dims[d].empty() && is_reduced(rule, t.dims[d].front())) return true;
  return false;
}

double seconds_at(double peak_seconds, const Efficiency& efficiency) {
  return (peak_seconds + efficiency.half_seconds) / efficiency.best;
}

/// At the peaks of caches and memory.
double memory_seconds(const Work& work, const Cluster& cluster) {
  if (!work.is_ordered) {
    for (const CacheLevel& cache : cluster.caches)
      if (work.bytes <= static_cast<double>(cache.bytes)) return work.bytes / cache.bytes_per_second;
    return work.bytes / cluster.memory_bytes_per_second;
  }
  double seconds = 0, from_memory = work.bytes;
  for (std::size_t c = 0; c < cluster.caches.size(); ++c) {
    seconds += work.cached[c] / cluster.caches[c].bytes_per_second;
    from_memory -= work.cached[c];
  }
  return seconds + from_memory / cluster.memory_bytes_per_second;
}

/// Of the peak, what tensor units reach with rows like those of `work`.
double share_of_rate(const Work& work, const RowLines& rows) {
  if (rows.line_bytes == 0 || work.row_bytes % rows.line_bytes == 0) return 1;
  return work.is_batched ? rows.batched : rows.product;
}

}  // namespace

WorkKind work_kind(const Rule& rule) {
  if (!contracts(rule)) return WorkKind::streaming;
  const bool slides = std::any_of(rule.operands.begin(), rule.operands.end(),
                                  [](const RuleTensor& t) { return !t.windows.empty(); });
  if (slides) return slides_along_reduced(rule) ? WorkKind::weight_convolution : WorkKind::convolution;
  return reduced_operands(rule) > 2 ? WorkKind::chain : WorkKind::contraction;
}

bool is_of_matrices(const Rule& rule) {
  return std::ranges::all_of(rule.operands, [&](const RuleTensor& t) {
    const auto is_summed = [&](const std::vector<int>& dim) {
      return std::ranges::any_of(dim, [&](int loop) { return is_reduced(rule, loop); });
    };
    const auto first = std::ranges::find_if(t.dims, is_summed);
    const auto end = std::find_if_not(first, t.dims.end(), is_summed);
    return first == t.dims.end() || (end + 1 >= t.dims.end() && std::none_of(end, t.dims.end(), is_summed));
  });
}

bool is_batched(const Rule& rule) {
  for (std::size_t l = 0; l < rule.loops.size(); ++l) {
    const auto has = [l](const RuleTensor& t) { return has_loop(t, static_cast<int>(l)); };
    if (rule.loops[l].size > 1 && std::ranges::all_of(rule.operands, has) &&
        std::ranges::all_of(rule.results, has))
      return true;
  }
  return false;
}

double bytes_read(double bytes, double flops, double element, double row) {
  constexpr double line = 64;
  const double touched = flops * element;
  if (touched >= bytes) return bytes;
  return std::min(bytes, touched * std::max(1.0, line / row));
}

void add_cached(Work& work, double bytes, double since, const Cluster& cluster) {
  for (std::size_t c = 0; c < cluster.caches.size(); ++c)
    if (since <= static_cast<double>(cluster.caches[c].bytes)) {
      work.cached[c] += bytes;
      return;
    }
}

double compute_seconds(const Work& work, const Cluster& cluster) {
  const double flops =
      work.flops / cluster.flops_per_second.of(work.dtype) / share_of_rate(work, cluster.rows);
  return cluster.kernel_seconds +
         std::max(seconds_at(flops, cluster.efficiency_of(work.kind)),
                  seconds_at(memory_seconds(work, cluster),
                             cluster.efficiency_of(streams(work.kind) ? work.kind : WorkKind::streaming)));
}

}  // namespace shardwright
