#include "shardwright/simulate/reuse.h"

#include <algorithm>
#include <map>

#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

/// The arena as ranges that were touched at one time.
class Stamps {
 public:
  /// Traffic since the bytes from `begin` to `end` were touched, on average; they are touched now.
  double touch(std::int64_t begin, std::int64_t end) {
    split(begin);
    split(end);
    double since = 0;
    const auto first = ranges_.lower_bound(begin);
    auto it = first;
    std::int64_t known = 0;
    for (; it != ranges_.end() && it->first < end; ++it) {
      const auto bytes = static_cast<double>(it->second.end - it->first);
      since += bytes * (traffic_ - it->second.traffic);
      known += it->second.end - it->first;
    }
    const auto all = static_cast<double>(end - begin);
    since += (all - static_cast<double>(known)) * never;
    ranges_.erase(first, it);
    traffic_ += all;
    ranges_[begin] = {end, traffic_};
    return since / all + all;
  }

 private:
  struct Range {
    std::int64_t end = 0;
    double traffic = 0;  // when it was touched
  };
  static constexpr double never = 1e30;

  /// No range lies on both sides of `place`.
  void split(std::int64_t place) {
    const auto behind = ranges_.lower_bound(place);
    if (behind == ranges_.begin()) return;
    const auto it = std::prev(behind);
    if (it->second.end <= place) return;
    ranges_[place] = it->second;
    it->second.end = place;
  }

  std::map<std::int64_t, Range> ranges_;  // by begin; disjoint
  double traffic_ = 0;
};

/// Leaves are there, all but inputs, which are brought; and an alias in its place is its operand.
bool is_still(const Program& program, const Node& node) {
  if (node.op->kind == OpKind::compute && node.op->is_alias)
    return program.offset(node.operands.front()) == program.offset(node.results.front());
  return is_leaf(node) && node.op->kind != OpKind::input;
}

}  // namespace

Reuse::Reuse(const Program& program) {
  const Graph& graph = program.graph;
  const auto arena = static_cast<double>(program.arena_bytes);
  Stamps stamps;
  std::vector<ValueId> seen;
  const auto walk = [&](bool is_kept) {
    for (const Fusion& fusion : fusions_of(graph)) {
      const std::size_t begin = touches_.size();
      seen.clear();
      const auto touch = [&](ValueId v) {
        const std::int64_t place = program.offset(v), bytes = graph.value(v).type.bytes();
        if (place == no_place || bytes == 0 || std::ranges::find(seen, v) != seen.end()) return;
        seen.push_back(v);
        const double since = std::min(stamps.touch(place, place + bytes), arena);
        if (is_kept) touches_.push_back({static_cast<double>(bytes), since});
      };
      for (NodeId id = fusion.begin; id < fusion.end; ++id.index) {
        if (is_still(program, graph.node(id))) continue;
        std::ranges::for_each(graph.node(id).operands, touch);
        std::ranges::for_each(graph.node(id).results, touch);
      }
      if (is_kept) ranges_[fusion.begin.index] = {begin, touches_.size()};
    }
  };
  walk(false);
  walk(true);
}

std::span<const Touch> Reuse::of(int first) const {
  const auto [begin, end] = ranges_.at(first);
  return std::span(touches_).subspan(begin, end - begin);
}

}  // namespace shardwright
