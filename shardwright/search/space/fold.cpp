#include "shardwright/search/space/fold.h"

#include <algorithm>
#include <map>
#include <optional>

#include "shardwright/base/index.h"
#include "shardwright/base/random.h"
#include "shardwright/graph/op.h"

namespace shardwright::space {
namespace {

/// Fewer are not worth folding: the first and the last stand for themselves.
constexpr int least_periods = 4;

/// `count` periods of `length` forward nodes, from place `begin` on.
struct Run {
  int begin = 0;
  int length = 0;
  int count = 0;
};

/// The forward nodes in their order; a place is an index into it. Parameters and data are among them, as they tie
/// their users together, but not what only an update reads.
class Sequence {
 public:
  Sequence(const Graph& graph, const Calls& calls, const FoldOptions& options)
      : graph_(graph), place_of_(graph.nodes.size(), -1), last_use_(graph.nodes.size(), -1) {
    std::vector<bool> is_forward(graph.nodes.size(), false);
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      if (node.phase != Phase::forward || node.op->kind != OpKind::compute) continue;
      is_forward[n] = true;
      for (ValueId v : node.operands) is_forward[at(graph.value(v).producer.index)] = true;
    }
    for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
      if (!is_forward[at(n)]) continue;
      place_of_[at(n)] = size();
      nodes_.push_back({n});
      const std::uint64_t label = options.labels.empty() ? 0 : options.labels[at(n)];
      signs_.push_back(splitmix64(static_cast<std::uint64_t>(calls.of({n}))) ^ label);
      for (ValueId v : graph.node({n}).operands) last_use_[at(graph.value(v).producer.index)] = size() - 1;
    }
  }

  int size() const { return static_cast<int>(nodes_.size()); }
  NodeId node(int place) const { return nodes_[at(place)]; }

  /// All runs between two places.
  void find_runs(int begin, int end, std::vector<Run>& out) const {
    const std::optional<Run> run = longest_run(begin, end);
    if (!run) return;
    find_runs(begin, run->begin, out);
    out.push_back(*run);
    find_runs(run->begin + run->length * run->count, end, out);
  }

 private:
  /// The node at `place` and the one a period later play the same part.
  bool recurs(int place, int period) const {
    if (signs_[at(place)] != signs_[at(place + period)]) return false;
    const auto& first = graph_.node(node(place)).operands;
    const auto& second = graph_.node(node(place + period)).operands;
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (first[i] == second[i]) continue;
      const Value &a = graph_.value(first[i]), &b = graph_.value(second[i]);
      if (a.result != b.result || place_of_[at(b.producer.index)] - place_of_[at(a.producer.index)] != period)
        return false;
    }
    return true;
  }

  /// The rarest call that occurs often enough, as it occurs once a period.
  std::optional<Run> longest_run(int begin, int end) const {
    std::map<std::uint64_t, std::vector<int>> places;
    for (int i = begin; i < end; ++i) places[signs_[at(i)]].push_back(i);
    std::optional<Run> best;
    std::size_t rarest = 0;
    for (const auto& [sign, where] : places) {
      if (where.size() + 1 < least_periods) continue;  // a run's first node may stand in the period before
      if (best && where.size() >= rarest) continue;
      const std::optional<Run> run = run_through(where, begin, end);
      if (!run) continue;
      best = run;
      rarest = where.size();
    }
    return best;
  }

  std::optional<Run> run_through(const std::vector<int>& where, int begin, int end) const {
    for (std::size_t i = 0; i + 1 < where.size(); ++i) {
      const int period = where[i + 1] - where[i];
      int first = where[i], last = where[i];  // places that recur
      if (!recurs(first, period)) continue;
      while (first > begin && recurs(first - 1, period)) --first;
      while (last + 1 + period < end && recurs(last + 1, period)) ++last;
      const int whole_end = last + 1 + period;
      if ((whole_end - first) / period < least_periods) continue;
      const int start = best_start(first, std::min(first + period, whole_end));
      const int count = (whole_end - start) / period;
      if (count >= least_periods) return Run{start, period, count};
    }
    return std::nullopt;
  }

  /// Where the fewest values cross from what is before to what is behind.
  int best_start(int begin, int end) const {
    int best = begin, least = size();
    for (int cut = begin; cut < end; ++cut) {
      int crossing = 0;
      for (int i = std::max(0, cut - 4 * (end - begin)); i < cut; ++i)
        crossing += last_use_[at(node(i).index)] >= cut ? 1 : 0;
      if (crossing >= least) continue;
      least = crossing;
      best = cut;
    }
    return best;
  }

  const Graph& graph_;
  std::vector<NodeId> nodes_;         // per place
  std::vector<int> place_of_;         // per node, or -1
  std::vector<std::uint64_t> signs_;  // per place: equal for nodes that may be alike
  std::vector<int> last_use_;         // per node: the place that reads a result of it last
};

}  // namespace

std::vector<std::vector<std::vector<NodeId>>> repeated_layers(const Graph& graph, const Calls& calls) {
  const Sequence sequence(graph, calls, {});
  std::vector<Run> runs;
  sequence.find_runs(0, sequence.size(), runs);
  std::vector<std::vector<std::vector<NodeId>>> out;
  for (const Run& run : runs) {
    auto& layers = out.emplace_back(at(run.count));
    for (int i = 0; i < run.count * run.length; ++i) {
      const NodeId id = sequence.node(run.begin + i);
      if (graph.node(id).op->kind == OpKind::compute) layers[at(i / run.length)].push_back(id);
    }
    if (layers.front().empty()) out.pop_back();  // leaves may recur, too
  }
  return out;
}

Fold fold(const Graph& graph, const Calls& calls, const FoldOptions& options) {
  const Sequence sequence(graph, calls, options);
  std::vector<Run> runs;
  if (options.is_on) sequence.find_runs(0, sequence.size(), runs);
  std::vector<int> like(at(sequence.size()));  // the place whose class it shares
  for (int i = 0; i < sequence.size(); ++i) like[at(i)] = i;
  for (const Run& run : runs)
    for (int i = run.begin + 2 * run.length; i < run.begin + (run.count - 1) * run.length; ++i)
      like[at(i)] = like[at(i - run.length)];

  Fold out{.class_of = std::vector<int>(graph.nodes.size(), -1), .members = {}};
  std::vector<int> class_at(like.size(), -1);
  for (int i = 0; i < sequence.size(); ++i) {
    int& c = class_at[at(like[at(i)])];
    if (c < 0) {
      c = out.size();
      out.members.emplace_back();
    }
    out.class_of[at(sequence.node(i).index)] = c;
    out.members[at(c)].push_back(sequence.node(i));
  }
  return out;
}

}  // namespace shardwright::space
