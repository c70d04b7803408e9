// Small all_gathers over the same axes become one, which pays the latency once: fused steps run as one
// collective. They meet in front of the first node that reads one of them, if by then the operands of all are
// there; so some are gathered earlier than they were, and none later than it may be.
//
// Small is what the latency outweighs, all together: moving their bytes takes no longer than starting them. That
// bounds what lies gathered in memory before it is used.

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "shardwright/graph/rewrite.h"
#include "shardwright/passes/optimize.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// All_gathers that may stand in front of any node from `ready` to `deadline`.
struct Merged {
  std::vector<NodeId> nodes;
  int ready = 0;
  int deadline = std::numeric_limits<int>::max();
  double seconds = 0;  // for the bytes
};

class Merger {
 public:
  Merger(const Graph& graph, Redistributor& redistributor)
      : graph_(graph), redistributor_(redistributor), users_(users_of(graph)), begins_(graph.nodes.size()) {
    for (const Fusion& f : fusions_of(graph))
      for (int i = f.begin.index; i < f.end.index; ++i) begins_[at(i)] = f.begin.index;
  }

  Graph run() {
    std::map<Key, Merged> open;
    for (NodeId id : graph_.node_ids()) {
      if (!is_gather(id) || is_gather(producer(id))) continue;
      const Node& node = graph_.node(id);
      const Step step = step_of(graph_, node);
      const double latency = redistributor_.latency(step);
      Merged one{.nodes = {id},
                 .ready = ready(id),
                 .deadline = deadline(id),
                 .seconds = redistribution_of(graph_, node, redistributor_).seconds - latency};
      if (one.seconds > latency) continue;
      Merged& group = open[{step.from.mesh, step.axes, node.phase}];
      const Merged both = joined(group, one);
      if (both.ready <= both.deadline && both.seconds <= latency) {
        group = both;
      } else {
        close(group);
        group = one;
      }
    }
    for (const auto& [key, group] : open) close(group);
    return reordered();
  }

 private:
  using Key = std::tuple<int, Axes, Phase>;

  bool is_gather(NodeId id) const { return graph_.node(id).op->step == StepKind::all_gather; }
  NodeId producer(NodeId id) const { return graph_.value(graph_.node(id).operands.front()).producer; }

  /// The first fusion behind the operand, in the phase of `id`.
  int ready(NodeId id) const {
    const int begin = begins_[at(producer(id).index)];
    int i = producer(id).index;
    while (begins_[at(i)] == begin || graph_.nodes[at(i)].phase < graph_.node(id).phase) ++i;
    return i;
  }
  /// The first fusion that reads the result, or the end of the phase.
  int deadline(NodeId id) const {
    const auto& users = users_[at(graph_.node(id).results.front().index)];
    int end = id.index;
    while (at(end) < graph_.nodes.size() && graph_.nodes[at(end)].phase == graph_.node(id).phase) ++end;
    for (NodeId user : users) end = std::min(end, begins_[at(user.index)]);
    return end;
  }

  static Merged joined(Merged a, const Merged& b) {
    a.nodes.insert(a.nodes.end(), b.nodes.begin(), b.nodes.end());
    a.ready = std::max(a.ready, b.ready);
    a.deadline = std::min(a.deadline, b.deadline);
    a.seconds += b.seconds;
    return a;
  }

  void close(const Merged& group) {
    if (group.nodes.size() > 1) groups_[group.deadline].push_back(group.nodes);
  }

  /// Groups in front of the node that they are for, the rest as it was.
  Graph reordered() const {
    std::vector<bool> is_merged(graph_.nodes.size(), false);
    for (const auto& [place, groups] : groups_)
      for (const std::vector<NodeId>& group : groups)
        for (NodeId id : group) is_merged[at(id.index)] = true;
    std::vector<NodeId> order;
    std::vector<bool> is_fused;
    for (int i = 0; i <= static_cast<int>(graph_.nodes.size()); ++i) {
      if (const auto here = groups_.find(i); here != groups_.end())
        for (const std::vector<NodeId>& group : here->second)
          for (NodeId id : group) {
            order.push_back(id);
            is_fused.push_back(id != group.front());
          }
      if (at(i) == graph_.nodes.size() || is_merged[at(i)]) continue;
      order.push_back({i});
      is_fused.push_back(graph_.nodes[at(i)].is_fused);
    }
    Graph out = rebuild(graph_, order, std::vector<ValueId>(graph_.values.size()));
    for (std::size_t i = 0; i < order.size(); ++i) out.nodes[i].is_fused = is_fused[i];
    return out;
  }

  const Graph& graph_;
  Redistributor& redistributor_;
  std::vector<std::vector<NodeId>> users_;                  // by value
  std::vector<int> begins_;                                 // by node: where its fusion begins
  std::map<int, std::vector<std::vector<NodeId>>> groups_;  // by the node in front of which they stand
};

}  // namespace

Program merge_gathers(Program program, const PassContext& context) {
  program.graph = Merger(program.graph, context.redistributor).run();
  return program;
}

}  // namespace shardwright
