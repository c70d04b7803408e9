#include "shardwright/lower/offloaded_values.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <utility>

#include "shardwright/base/index.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

double bytes_of(const Graph& graph, ValueId v) { return static_cast<double>(graph.value(v).type.bytes()); }

double bytes_of(const Graph& graph, const std::vector<ValueId>& values) {
  double out = 0;
  for (ValueId v : values) out += bytes_of(graph, v);
  return out;
}

/// The first of at most `most` bytes that `is_taken` agrees to, which is asked in order.
template <class F>
std::vector<ValueId> first_of(const Graph& graph, const std::vector<ValueId>& values, double most,
                              F is_taken) {
  std::vector<ValueId> out;
  for (ValueId v : values)
    if (const double bytes = bytes_of(graph, v); bytes <= most && is_taken(v, bytes)) {
      most -= bytes;
      out.push_back(v);
    }
  return out;
}

/// Those of which none has been copied later than `most_behind` seconds after it was made.
std::vector<ValueId> keeping_up(const Graph& graph, const std::vector<ValueId>& values, double most_bytes,
                                const CopyPace& pace, double most_behind) {
  double copied = 0;  // when all that is taken is
  return first_of(graph, values, most_bytes, [&](ValueId v, double bytes) {
    const double made = pace.made_at[at(graph.value(v).producer.index)];
    const double end = std::max(copied, made) + bytes * pace.seconds_per_byte;
    if (end - made > most_behind) return false;
    copied = end;
    return true;
  });
}

/// Copies of the largest that one may be behind, at least: with one there is no room for what is made just before it.
constexpr double copies_behind = 1.25;
/// Of the bytes that may go, those that do so in turn; the earliest of the others that fit fill up the rest.
constexpr double nearly_all = 0.9;
constexpr int halvings = 10;

}  // namespace

ValueId root_of(const Graph& graph, ValueId v) {
  while (graph.node(graph.value(v).producer).op->is_alias)
    v = graph.node(graph.value(v).producer).operands.front();
  return v;
}

std::vector<ValueId> kept_activations(const Graph& graph) {
  std::vector<bool> is_read(graph.values.size(), false), stays = is_read;
  for (const Node& node : graph.nodes)
    for (ValueId v : node.operands)
      if (is_backward(node.phase) && node.space == Space::device) is_read[at(root_of(graph, v).index)] = true;
  for (const auto* held : {&graph.sends, &graph.outputs})
    for (ValueId v : *held) stays[at(root_of(graph, v).index)] = true;
  for (const Update& u : graph.updates) stays[at(root_of(graph, u.value).index)] = true;
  std::vector<ValueId> out;
  for (const Node& node : graph.nodes)
    for (ValueId v : node.results)
      if (node.phase == Phase::forward && space_of(graph, v) == Space::device && !is_leaf(node) &&
          !node.op->is_alias && is_read[at(v.index)] && !stays[at(v.index)] &&
          element_count(graph.value(v).type.shape) > 1)
        out.push_back(v);
  return out;
}

std::vector<ValueId> largest_offloaded(const Graph& graph, std::vector<ValueId> values, double share) {
  const double most = share * bytes_of(graph, values);
  std::ranges::stable_sort(values, std::ranges::greater(), [&](ValueId v) { return bytes_of(graph, v); });
  return first_of(graph, values, most, [](ValueId, double) { return true; });
}

std::vector<ValueId> earliest_offloaded(const Graph& graph, const std::vector<ValueId>& values, double share,
                                        const CopyPace& pace) {
  const double most = share * bytes_of(graph, values);
  const auto any = [](ValueId, double) { return true; };
  std::vector<ValueId> out = first_of(graph, values, most, any);
  if (pace.made_at.empty() || out.empty()) return out;
  const double wanted = nearly_all * bytes_of(graph, out);
  double largest = 0;
  for (ValueId v : values) largest = std::max(largest, bytes_of(graph, v));
  double too_little = 0, behind = copies_behind * largest * pace.seconds_per_byte;
  const auto is_enough = [&](double seconds) {
    std::vector<ValueId> tried = keeping_up(graph, values, most, pace, seconds);
    if (bytes_of(graph, tried) < wanted) return false;
    out = std::move(tried);
    return true;
  };
  while (!is_enough(behind)) too_little = std::exchange(behind, 2 * behind);
  for (int n = 0; n < halvings && too_little > 0; ++n) {
    const double between = (too_little + behind) / 2;
    (is_enough(between) ? behind : too_little) = between;
  }
  std::vector<ValueId> rest;
  const std::set<ValueId> taken(out.begin(), out.end());
  std::ranges::copy_if(values, std::back_inserter(rest), [&](ValueId v) { return !taken.contains(v); });
  for (ValueId v : first_of(graph, rest, most - bytes_of(graph, out), any)) out.push_back(v);
  return out;
}

}  // namespace shardwright
