#include "shardwright/plan/stage_cut.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "shardwright/base/text.h"
#include "shardwright/cost/compute.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/problem.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

bool is_forward_operator(const Node& node) {
  return node.phase == Phase::forward && node.op->kind == OpKind::compute;
}

/// The forward operators in their order, and what would cross in front of each.
struct Line {
  std::vector<NodeId> nodes;
  std::vector<double> seconds;      // of the first so many nodes, all together
  std::vector<std::int64_t> bytes;  // that cross in front of each
};

Line line_of(const Graph& graph, const Calls& calls, const Cluster& cluster) {
  Line out;
  std::vector<int> place(graph.values.size(), -1), last(graph.values.size(), -1);
  out.seconds.push_back(0);
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (!is_forward_operator(node)) continue;
    const int here = static_cast<int>(out.nodes.size());
    out.nodes.push_back(id);
    Work work{.dtype = graph.value(node.results.front()).type.dtype};
    work.kind = work_kind(calls.rule(id));
    work.flops = flops_of(*node.op, calls.rule(id));
    for (ValueId v : node.operands) {
      last[at(v.index)] = here;
      work.bytes += static_cast<double>(graph.value(v).type.bytes());
    }
    for (ValueId v : node.results) {
      if (!node.operands.empty()) place[at(v.index)] = here;  // every stage makes its own constants
      work.bytes += static_cast<double>(graph.value(v).type.bytes());
    }
    out.seconds.push_back(out.seconds.back() + compute_seconds(work, cluster));
  }
  std::vector<std::int64_t> change(out.nodes.size() + 1, 0);
  for (std::size_t v = 0; v < place.size(); ++v) {
    if (place[v] < 0 || last[v] <= place[v]) continue;
    change[at(place[v] + 1)] += graph.values[v].type.bytes();
    change[at(last[v] + 1)] -= graph.values[v].type.bytes();
  }
  out.bytes.resize(out.nodes.size());
  std::partial_sum(change.begin(), change.end() - 1, out.bytes.begin());
  return out;
}

/// Where the fewest bytes cross: all places with as few as the 8th for each stage has.
std::vector<int> narrow_places(const Line& line, int stages) {
  std::vector<int> places(line.nodes.size() - 1);
  std::iota(places.begin(), places.end(), 1);
  std::vector<std::int64_t> bytes;
  for (int p : places) bytes.push_back(line.bytes[at(p)]);
  const std::size_t enough = std::min(bytes.size() - 1, static_cast<std::size_t>(8 * (stages - 1)));
  std::nth_element(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(enough), bytes.end());
  const std::int64_t most = bytes[enough];
  std::erase_if(places, [&](int p) { return line.bytes[at(p)] > most; });
  return places;
}

}  // namespace

std::vector<int> even_stages(const Graph& graph, const Calls& calls, const Cluster& cluster, int stages) {
  const Line line = line_of(graph, calls, cluster);
  if (line.nodes.size() < at(stages))
    throw Infeasible(fmt::format("{} stages: the network has {} operators; ask for fewer stages", stages,
                                 line.nodes.size()));
  std::vector<int> stage_of(graph.nodes.size(), 0);
  if (stages == 1) return stage_of;
  std::vector<int> cuts = narrow_places(line, stages);
  cuts.insert(cuts.begin(), 0);
  cuts.push_back(static_cast<int>(line.nodes.size()));
  const double bandwidth =
      cluster.links.empty() ? cluster.memory_bytes_per_second : cluster.links.back().bytes_per_second;
  const auto seconds = [&](int from, int to) {
    const double received = static_cast<double>(line.bytes[at(from)]) / bandwidth;
    return line.seconds[at(to)] - line.seconds[at(from)] + (from > 0 ? received : 0);
  };
  constexpr double never = std::numeric_limits<double>::infinity();
  const int n = static_cast<int>(cuts.size());
  // slowest[s][i]: of the first s + 1 stages, which end at cut i.
  std::vector<std::vector<double>> slowest(at(stages), std::vector<double>(at(n), never));
  std::vector<std::vector<int>> before(at(stages), std::vector<int>(at(n), 0));
  for (int i = 1; i < n; ++i) slowest[0][at(i)] = seconds(0, cuts[at(i)]);
  for (int s = 1; s < stages; ++s)
    for (int i = s + 1; i < n; ++i)
      for (int j = s; j < i; ++j) {
        const double both = std::max(slowest[at(s - 1)][at(j)], seconds(cuts[at(j)], cuts[at(i)]));
        if (both >= slowest[at(s)][at(i)]) continue;
        slowest[at(s)][at(i)] = both;
        before[at(s)][at(i)] = j;
      }
  for (int s = stages - 1, end = n - 1; s >= 0; end = before[at(s--)][at(end)]) {
    const int begin = s > 0 ? before[at(s)][at(end)] : 0;
    for (int p = cuts[at(begin)]; p < cuts[at(end)]; ++p) stage_of[at(line.nodes[at(p)].index)] = s;
  }
  return stage_of;
}

namespace {

/// The longest of `asked` that is `name` or a module around it.
const std::pair<const std::string, int>* asked_of(const std::map<std::string, int>& asked, std::string name) {
  for (;;) {
    if (const auto it = asked.find(name); it != asked.end()) return &*it;
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos) return nullptr;
    name.resize(dot);
  }
}

void check_asked(const std::map<std::string, int>& asked, const std::vector<bool>& is_used, int stages,
                 const std::vector<std::string>& known) {
  std::vector<bool> has(at(stages), false);
  std::size_t i = 0;
  for (const auto& [name, stage] : asked) {
    if (!is_used[i++])
      throw error("stage of '{}': the network has no such operator or module{}", name,
                  near_names(name, known));
    if (stage < 0 || stage >= stages)
      throw error("stage of '{}': it is {} but there are {} stages, from 0 on", name, stage, stages);
    has[at(stage)] = true;
  }
  for (int s = 0; s < stages; ++s)
    if (!has[at(s)]) throw error("stage {} of {} has no operator; give one to it with \"stage\"", s, stages);
}

}  // namespace

std::vector<int> asked_stages(const Graph& graph, const std::map<std::string, int>& asked, int stages) {
  constexpr int unknown = -1;
  std::vector<int> stage_of(graph.nodes.size(), unknown);
  std::vector<bool> is_used(asked.size(), false);
  std::vector<std::string> known;
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (!is_forward_operator(node)) continue;
    known.push_back(graph.name_of(id));
    int& stage = stage_of[at(id.index)];
    const auto* mine = asked_of(asked, known.back());
    if (mine) {
      stage = mine->second;
      is_used[static_cast<std::size_t>(std::distance(asked.begin(), asked.find(mine->first)))] = true;
    }
    for (ValueId v : node.operands) {
      const int below = stage_of[at(graph.value(v).producer.index)];
      if (mine && below > stage)
        throw error("{}: stage {} is asked for '{}', but it reads %{} of stage {}; stages follow each other",
                    known.back(), stage, mine->first, graph.value(v).name, below);
      stage = std::max(stage, below);
    }
  }
  check_asked(asked, is_used, stages, known);
  for (int n = static_cast<int>(graph.nodes.size()); n-- > 0;)
    for (ValueId v : graph.nodes[at(n)].operands) {
      int& below = stage_of[at(graph.value(v).producer.index)];
      const int here = stage_of[at(n)];
      if (is_forward_operator(graph.nodes[at(n)]) && here != unknown &&
          !graph.node(graph.value(v).producer).operands.empty())
        if (below == unknown) below = here;
    }
  // What is read only by what has no stage itself runs first.
  for (int& stage : stage_of) stage = std::max(stage, 0);
  return stage_of;
}

}  // namespace shardwright
