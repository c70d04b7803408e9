#include "shardwright/search/planning/stage_cut.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/cost/kernel_work.h"
#include "shardwright/graph/forward_operator.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/recompute.h"
#include "shardwright/plan/set_words.h"
#include "shardwright/search/planning/problem.h"

namespace shardwright {
namespace {

/// The forward operators in their order, without constants, and what would cross in front of each.
struct Line {
  std::vector<NodeId> nodes;
  std::vector<double> seconds;  // of the first so many nodes, all together
  std::vector<double> bytes;    // that cross in front of each, there and back
};

/// Per node the forward operator whose stage does it; invalid for what costs nothing.
std::vector<NodeId> doers_of(const Graph& graph) {
  std::vector<NodeId> doers(graph.nodes.size());
  std::vector<NodeId> first_reader(graph.values.size());
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.op->kind != OpKind::compute || node.operands.empty()) continue;  // constants are everybody's own
    NodeId& doer = doers[at(id.index)];
    const ValueId first = node.operands.front();
    if (node.phase == Phase::forward)
      doer = id;
    else if (node.forward.is_valid())
      doer = node.forward;
    else if (first_reader[at(first.index)].is_valid())  // the update of a parameter
      doer = first_reader[at(first.index)];
    else
      doer = doers[at(graph.value(first).producer.index)];
    if (node.phase != Phase::forward) continue;
    for (ValueId v : node.operands)
      if (NodeId& reader = first_reader[at(v.index)]; !reader.is_valid()) reader = id;
  }
  return doers;
}

/// Per node the seconds of a micro-batch that its forward operator's stage takes.
std::vector<double> seconds_of(const Graph& graph, const Calls& calls, const Cluster& cluster,
                               int micro_batches) {
  const std::vector<NodeId> doers = doers_of(graph);
  std::vector<double> of_call(at(calls.size()), -1), out(graph.nodes.size(), 0);
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (!doers[at(id.index)].is_valid() || node.op->is_alias) continue;
    double& seconds = of_call[at(calls.of(id))];
    if (seconds < 0) seconds = compute_seconds(kernel_work(graph, node, calls.rule(id)), cluster);
    out[at(doers[at(id.index)].index)] += node.phase == Phase::update ? seconds / micro_batches : seconds;
  }
  return out;
}

/// Per value the bytes that cross where it does: its own, and its gradient's.
std::vector<double> crossing_bytes(const Graph& graph) {
  std::vector<double> out;
  for (const Value& v : graph.values) out.push_back(static_cast<double>(v.type.bytes()));
  std::vector<bool> has_gradient(graph.values.size(), false);
  for (const Value& v : graph.values)
    for (ValueId of : v.gradient_of) has_gradient[at(of.index)] = true;
  for (std::size_t v = 0; v < out.size(); ++v)
    if (has_gradient[v]) out[v] *= 2;
  return out;
}

Line line_of(const Graph& graph, const Calls& calls, const Cluster& cluster, int micro_batches) {
  const std::vector<double> seconds = seconds_of(graph, calls, cluster, micro_batches);
  const std::vector<double> bytes = crossing_bytes(graph);
  Line out;
  std::vector<int> place(graph.values.size(), -1), last(graph.values.size(), -1);
  out.seconds.push_back(0);
  std::vector<bool> is_constant(graph.values.size(), false);  // every stage makes its own
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (!is_forward_operator(node)) continue;
    if (std::ranges::all_of(node.operands, [&](ValueId v) { return is_constant[at(v.index)]; })) {
      for (ValueId v : node.results) is_constant[at(v.index)] = true;
      continue;
    }
    const int here = static_cast<int>(out.nodes.size());
    out.nodes.push_back(id);
    out.seconds.push_back(out.seconds.back() + seconds[at(id.index)]);
    for (ValueId v : node.operands) last[at(v.index)] = here;
    for (ValueId v : node.results) place[at(v.index)] = here;
  }
  std::vector<double> change(out.nodes.size() + 1, 0);
  for (std::size_t v = 0; v < place.size(); ++v) {
    if (place[v] < 0 || last[v] <= place[v]) continue;
    change[at(place[v] + 1)] += bytes[v];
    change[at(last[v] + 1)] -= bytes[v];
  }
  out.bytes.resize(out.nodes.size());
  std::partial_sum(change.begin(), change.end() - 1, out.bytes.begin());
  return out;
}

/// Where cuts are tried: anywhere in a short network; in a long one in front of the operator where the fewest bytes cross,
/// in each of many equal shares of the work.
std::vector<int> places_of(const Line& line, std::size_t shares) {
  std::vector<int> all(line.nodes.size() - 1), out;
  std::iota(all.begin(), all.end(), 1);
  if (all.size() <= shares) return all;
  std::size_t share = 0;
  for (int p : all) {
    const auto of_p =
        static_cast<std::size_t>(line.seconds[at(p)] / line.seconds.back() * static_cast<double>(shares));
    if (out.empty() || of_p != share)
      out.push_back(p);
    else if (line.bytes[at(p)] < line.bytes[at(out.back())])
      out.back() = p;
    share = of_p;
  }
  return out;
}

std::vector<int> places_for(const Line& line, int stages) {
  std::vector<int> out = places_of(line, std::max<std::size_t>(256, 8 * at(stages)));
  if (out.size() + 1 >= at(stages)) return out;
  out.resize(line.nodes.size() - 1);  // nearly all of the work may be in one place
  std::iota(out.begin(), out.end(), 1);
  return out;
}

}  // namespace

std::vector<int> even_stages(const Graph& graph, const Calls& calls, const Cluster& cluster,
                             const StageNumbers& numbers) {
  const int stages = numbers.stages;
  const Line line = line_of(graph, calls, cluster, numbers.micro_batches);
  if (line.nodes.size() < at(stages))
    throw Infeasible(fmt::format("{} stages: the network has {} operators; ask for fewer stages", stages,
                                 line.nodes.size()));
  std::vector<int> stage_of(graph.nodes.size(), 0);
  if (stages == 1) return stage_of;
  std::vector<int> cuts = places_for(line, stages);
  cuts.insert(cuts.begin(), 0);
  cuts.push_back(static_cast<int>(line.nodes.size()));
  const double bandwidth = cluster.links.empty()
                               ? cluster.memory_bytes_per_second
                               : cluster.links.back().bytes_per_second * cluster.link_efficiency;
  const auto work = [&](int i, int j) {
    return line.seconds[at(cuts[at(j)])] - line.seconds[at(cuts[at(i)])];
  };
  constexpr double never = std::numeric_limits<double>::infinity();
  const int n = static_cast<int>(cuts.size());
  // slowest[s][i]: of the first s + 1 stages, which end at cut i.
  std::vector<std::vector<double>> slowest(at(stages), std::vector<double>(at(n), never));
  std::vector<std::vector<int>> before(at(stages), std::vector<int>(at(n), 0));
  for (int i = 1; i < n; ++i) slowest[0][at(i)] = work(0, i);
  for (int s = 1; s < stages; ++s)
    for (int i = s + 1; i < n; ++i)
      for (int j = i; j-- > s && work(j, i) < slowest[at(s)][at(i)];) {
        const double received = line.bytes[at(cuts[at(j)])] / bandwidth;
        const double both = std::max(slowest[at(s - 1)][at(j)], work(j, i) + received);
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

std::vector<NodeId> cut_places(const Graph& graph, const Calls& calls, const Cluster& cluster, int shares) {
  const Line line = line_of(graph, calls, cluster, 1);
  std::vector<NodeId> out;
  if (line.nodes.empty()) return out;
  for (int place : places_of(line, at(shares))) out.push_back(line.nodes[at(place)]);
  return out;
}

const std::pair<const std::string, int>* stage_asked_of(const std::map<std::string, int>& asked,
                                                        std::string name) {
  for (;;) {
    if (const auto it = asked.find(name); it != asked.end()) return &*it;
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos) return nullptr;
    name.resize(dot);
  }
}

void check_stage_names(const Graph& graph, const std::map<std::string, int>& asked) {
  std::set<std::string> used;
  std::vector<std::string> known;
  for (NodeId id : graph.node_ids()) {
    if (!is_forward_operator(graph.node(id))) continue;
    known.push_back(graph.name_of(id));
    if (const auto* mine = stage_asked_of(asked, known.back())) used.insert(mine->first);
  }
  for (const auto& [name, stage] : asked)
    if (!used.contains(name))
      throw error("stage of '{}': the network has no such operator or module{}", name,
                  near_names(name, known));
}

namespace {

constexpr int no_stage = -1;

void check_asked(const std::map<std::string, int>& asked, int stages) {
  std::vector<bool> has(at(stages), false);
  for (const auto& [name, stage] : asked) {
    if (stage < 0 || stage >= stages)
      throw error("stage of '{}': it is {} but there are {} stages, from 0 on", name, stage, stages)
          .between({name, "stage", std::to_string(stage), std::to_string(stages)});
    has[at(stage)] = true;
  }
  for (int s = 0; s < stages; ++s)
    if (!has[at(s)]) throw error("stage {} of {} has no operator; give one to it with \"stage\"", s, stages);
}

/// Of operators whose stage is not known (-1): that of what they read, or of what reads them first.
std::vector<int> filled(const Graph& graph, std::vector<int> stage_of) {
  for (NodeId id : graph.node_ids()) {
    if (!is_forward_operator(graph.node(id))) continue;
    int& stage = stage_of[at(id.index)];
    for (ValueId v : graph.node(id).operands)
      stage = std::max(stage, stage_of[at(graph.value(v).producer.index)]);
  }
  const std::vector<int> known = stage_of;
  for (int n = static_cast<int>(graph.nodes.size()); n-- > 0;)
    for (ValueId v : graph.nodes[at(n)].operands) {
      const NodeId producer = graph.value(v).producer;
      int& below = stage_of[at(producer.index)];
      const int here = stage_of[at(n)];
      if (!is_forward_operator(graph.nodes[at(n)]) || here == no_stage ||
          known[at(producer.index)] != no_stage || graph.node(producer).operands.empty())
        continue;
      below = below == no_stage ? here : std::min(below, here);
    }
  // What is read only by what has no stage itself runs first.
  for (int& stage : stage_of) stage = std::max(stage, 0);
  return stage_of;
}

/// Throws: Error if an operator reads of a later stage than it was asked to be in.
void check_order(const Graph& graph, const std::map<std::string, int>& asked,
                 const std::vector<int>& stage_of) {
  for (NodeId id : graph.node_ids()) {
    if (!is_forward_operator(graph.node(id))) continue;
    const auto* mine = stage_asked_of(asked, graph.name_of(id));
    for (ValueId v : graph.node(id).operands) {
      const int below = stage_of[at(graph.value(v).producer.index)];
      if (mine && below > mine->second)
        throw error(
            "{}: stage {} is asked for '{}', but it reads %{} of stage {}; an operator cannot read from a "
            "later stage",
            graph.name_of(id), mine->second, mine->first, graph.value(v).name, below)
            .between({graph.name_of(id), "stage", std::to_string(mine->second), std::to_string(below)});
    }
  }
}

}  // namespace

std::vector<int> asked_stages(const Graph& graph, const std::map<std::string, int>& asked, int stages) {
  std::vector<int> stage_of(graph.nodes.size(), no_stage);
  for (NodeId id : graph.node_ids())
    if (is_forward_operator(graph.node(id)))
      if (const auto* mine = stage_asked_of(asked, graph.name_of(id))) stage_of[at(id.index)] = mine->second;
  std::vector<int> out = filled(graph, std::move(stage_of));
  check_order(graph, asked, out);
  check_stage_names(graph, asked);
  check_asked(asked, stages);
  return out;
}

namespace {

/// Throws: Error unless `numbers` share all layers out among the stages.
void check_stage_layers(const std::vector<int>& numbers, int stages, int layers) {
  const std::string said = "stage_layers=" + numbers_text(numbers);
  if (std::ssize(numbers) != stages)
    throw error("{}: {} numbers, but there are {} stages, chunks counted", said, numbers.size(), stages);
  if (const std::int64_t all = std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
      all != layers)
    throw error("{}: {} layers, but the network has {}", said, all, layers);
  for (std::size_t s = 1; s + 1 < numbers.size(); ++s)
    if (numbers[s] == 0) throw error("{}: stage {} would have nothing to do; give it a layer", said, s);
}

/// Operators of no layer: what reads of layers is of the last stage, all else of the first.
std::vector<int> with_ends(const Graph& graph, std::vector<int> stage_of, int stages) {
  std::vector<bool> reads_layers(graph.nodes.size());
  for (NodeId id : graph.node_ids()) {
    int& stage = stage_of[at(id.index)];
    const bool reads = stage != no_stage || std::ranges::any_of(graph.node(id).operands, [&](ValueId v) {
                         return reads_layers[at(graph.value(v).producer.index)];
                       });
    reads_layers[at(id.index)] = reads;
    if (stage == no_stage) stage = reads ? stages - 1 : 0;
  }
  return stage_of;
}

}  // namespace

std::vector<int> layered_stages(const Graph& graph, int stages, const std::vector<int>& numbers) {
  const std::vector<RecomputeRegion> layers =
      regions_of(graph, {.mode = RecomputeMode::full}, has_layers(graph));
  const auto count = static_cast<int>(layers.size());
  if (!numbers.empty()) {
    check_stage_layers(numbers, stages, count);
    std::vector<int> stage_of(graph.nodes.size(), no_stage);
    for (int s = 0, l = 0; s < stages; ++s)
      for (const int end = l + numbers[at(s)]; l < end; ++l)
        for (NodeId id : layers[at(l)].nodes) stage_of[at(id.index)] = s;
    return with_ends(graph, std::move(stage_of), stages);
  }
  if (count < stages)
    throw Infeasible(
        fmt::format("{} stages: the network has {} layers; ask for fewer stages", stages, count));
  // Where they do not come out even, embedding and head count as a layer each, if all stages then have one.
  const int end = count % stages != 0 && count + 2 >= 2 * stages ? 1 : 0;
  std::vector<int> stage_of(graph.nodes.size(), no_stage);
  for (int l = 0; l < count; ++l)
    for (NodeId id : layers[at(l)].nodes) stage_of[at(id.index)] = (l + end) * stages / (count + 2 * end);
  return filled(graph, std::move(stage_of));
}

}  // namespace shardwright
