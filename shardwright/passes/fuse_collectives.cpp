// Collectives over the same axes run as one, a bucket, which pays the latency once: sums of parameters' gradients, and
// gathers. Losses keep their bits: each tensor is summed as before.
//
// A bucket of the forward or backward stands in front of the first node that reads one of its results; what is not
// ready by then stays out. Nothing else moves but weights, which stand in front of the bucket that gathers them, and
// gradients of which a rank keeps a share: those are reduced while the backward goes on (buckets.h), and what adds them
// up stands behind. The update is put in order of readiness: what came out of the backward first is reduced and used
// first, so that updates run while later buckets are on their way.
//
// Stages do not wait for each other: what stands in front of a receive of the update (a norm of all gradients, a tied
// weight's gradient) stays in front of it, because what another stage needs may be sent there, though nothing in this
// stage's graph depends on that (rounds).

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <tuple>

#include "shardwright/base/index.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/rewrite.h"
#include "shardwright/passes/buckets.h"

namespace shardwright {
namespace {

/// Fusions of one phase, each in one piece, that are to run in an order of their own.
struct Unit {
  std::vector<NodeId> nodes;
  bool is_bucket = false;
  bool is_along = false;  // stands in front of its first reader
  int rank = 0;           // among units that are equally urgent
  int waits_for = 0;
  int round = 0;
  int readiness = 0;
  std::vector<int> users;  // units
};

/// Nodes in a new order. None: as they stand.
struct Order {
  std::vector<NodeId> nodes;
  std::vector<bool> is_fused;
};

class CollectiveFuser {
 public:
  CollectiveFuser(const Graph& graph, const PassContext& context)
      : graph_(graph),
        users_(users_of(graph)),
        dependences_(graph),
        fusions_(dependences_.fusions()),
        backward_(dependences_.first_of(Phase::backward)),
        buckets_(buckets_of(graph, dependences_, context)) {
    for (std::size_t b = 0; b < buckets_.size(); ++b)
      for (NodeId id : buckets_[b].nodes) bucket_of_[id] = static_cast<int>(b);
  }

  Order run() {
    const bool has_sums = std::any_of(fusions_.begin(), fusions_.end(), [this](const Fusion& f) {
      return node(f.begin).phase == Phase::update && dependences_.is_gradients_sum(f.begin);
    });
    if (buckets_.empty() && !has_sums) return {};
    for (std::size_t f = 0; f < fusions_.size();) {
      std::size_t end = f;
      while (end < fusions_.size() && phase(end) == phase(f)) ++end;
      add_phase(static_cast<int>(f), static_cast<int>(end));
      f = end;
    }
    return std::move(order_);
  }

 private:
  const Node& node(NodeId id) const { return graph_.node(id); }

  Phase phase(std::size_t fusion) const { return node(fusions_[fusion].begin).phase; }
  NodeId producer(ValueId v) const { return graph_.value(v).producer; }
  bool is_sent(ValueId v) const {
    return std::find(graph_.sends.begin(), graph_.sends.end(), v) != graph_.sends.end();
  }

  /// The units of the fusions [begin, end), and which waits for which.
  void make_units(int begin, int end) {
    units_.clear();
    unit_of_.assign(graph_.nodes.size(), -1);
    std::map<int, int> of_bucket;
    for (int f = begin; f < end; ++f) {
      const Fusion& fusion = fusions_[at(f)];
      const auto in = bucket_of_.find(fusion.begin);
      int unit = static_cast<int>(units_.size());
      if (in != bucket_of_.end()) unit = of_bucket.emplace(in->second, unit).first->second;
      if (at(unit) == units_.size()) {
        Unit& u = units_.emplace_back();
        u.rank = f;
        u.is_bucket = in != bucket_of_.end();
        if (u.is_bucket) {
          const Bucket& bucket = buckets_[at(in->second)];
          u.nodes = bucket.nodes;
          u.readiness = bucket.deadline;
          u.rank = -1;
        } else {
          for (NodeId id = fusion.begin; id < fusion.end; ++id.index) u.nodes.push_back(id);
          u.readiness = f;
        }
      }
      for (NodeId id = fusion.begin; id < fusion.end; ++id.index) unit_of_[at(id.index)] = unit;
    }
    for (Unit& unit : units_) {
      if (node(unit.nodes.front()).phase == Phase::update) set_readiness(unit);
      unit.is_along = goes_along(unit);
    }
    for (std::size_t u = 0; u < units_.size(); ++u) {
      for (int above : units_above(static_cast<int>(u))) {
        units_[at(above)].users.push_back(static_cast<int>(u));
        ++units_[u].waits_for;
      }
    }
  }

  void set_readiness(Unit& unit) const {
    unit.readiness = 0;
    for (NodeId id : unit.nodes) {
      unit.round = std::max(unit.round, dependences_.round(id));
      unit.readiness = std::max(unit.readiness, dependences_.readiness(id));
    }
    const bool is_read = std::any_of(unit.nodes.begin(), unit.nodes.end(), [this](NodeId id) {
      const ValueId made = node(id).results.front();
      return !node(id).op->step || !users_[at(made.index)].empty() || is_sent(made);
    });
    if (is_read) return;
    // A new weight, for the next step: waited for behind all else.
    unit.rank = unit.readiness;
    unit.round = dependences_.rounds();
    unit.readiness = std::numeric_limits<int>::max();
  }

  /// In the phase that units_ are made of, each once; but for those that go along with whom they are read by.
  std::vector<int> units_above(int u) const {
    std::vector<int> out;
    for (NodeId id : units_[at(u)].nodes)
      for (ValueId v : node(id).operands) {
        const int above = unit_of_[at(producer(v).index)];
        if (above >= 0 && above != u && !units_[at(above)].is_along) out.push_back(above);
      }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }
  /// A collective of a bucket reads it.
  bool is_in_bucket(ValueId v) const {
    const auto& users = users_[at(v.index)];
    return std::any_of(users.begin(), users.end(), [this](NodeId id) { return bucket_of_.contains(id); });
  }
  /// States, weights that a bucket gathers, and what an update needs that waits for no gradient (a weight's slice):
  /// earlier it would only take memory. What another stage waits for does not: its answer may be what all else here waits
  /// for.
  bool goes_along(const Unit& u) const {
    const Node& first = node(u.nodes.front());
    if (is_leaf(first)) return first.phase == Phase::update || is_in_bucket(first.results.front());
    if (first.phase != Phase::update || u.is_bucket) return false;
    if ((first.op->step && !is_local(*first.op->step)) || u.readiness > backward_) return false;
    for (NodeId id : u.nodes)
      for (ValueId v : node(id).results)
        if (is_sent(v)) return false;
    return std::all_of(u.nodes.begin(), u.nodes.end(), [&](NodeId id) {
      return std::all_of(node(id).operands.begin(), node(id).operands.end(), [&](ValueId v) {
        const int above = unit_of_[at(producer(v).index)];
        return above < 0 || units_[at(above)].nodes == u.nodes || units_[at(above)].is_along;
      });
    });
  }

  /// The most urgent first of those whose operands are there.
  void add_phase(int begin, int end) {
    make_units(begin, end);
    using Place = std::tuple<int, int, int, int>;  // round, readiness, rank, unit
    std::priority_queue<Place, std::vector<Place>, std::greater<>> next;
    const auto offer = [&](int u) {
      next.emplace(units_[at(u)].round, units_[at(u)].readiness, units_[at(u)].rank, u);
    };
    std::vector<bool> is_added(units_.size(), false);
    for (std::size_t u = 0; u < units_.size(); ++u)
      if (units_[u].waits_for == 0 && !units_[u].is_along) offer(static_cast<int>(u));
    while (!next.empty()) {
      const int u = std::get<3>(next.top());
      next.pop();
      add_along(u, is_added);
      for (int user : units_[at(u)].users) {
        Unit& below = units_[at(user)];
        below.readiness = std::max(below.readiness, units_[at(u)].readiness);
        if (--below.waits_for == 0) offer(user);
      }
    }
    for (std::size_t u = 0; u < units_.size(); ++u) {
      require(is_added[u] || units_[u].is_along, "{} waits for itself",
              graph_.name_of(units_[u].nodes.front()));
      if (!is_added[u]) add_along(static_cast<int>(u), is_added);
    }
  }

  /// Behind what goes along with it.
  void add_along(int u, std::vector<bool>& is_added) {
    is_added[at(u)] = true;
    for (NodeId id : units_[at(u)].nodes)
      for (ValueId v : node(id).operands) {
        const int above = unit_of_[at(producer(v).index)];
        if (above >= 0 && !is_added[at(above)] && units_[at(above)].is_along) add_along(above, is_added);
      }
    add(units_[at(u)]);
  }

  void add(const Unit& unit) {
    for (NodeId id : unit.nodes) {
      order_.nodes.push_back(id);
      order_.is_fused.push_back(unit.is_bucket ? id != unit.nodes.front() : node(id).is_fused);
    }
  }

  const Graph& graph_;
  Users users_;  // by value
  Dependences dependences_;
  const std::vector<Fusion>& fusions_;
  int backward_;  // the first fusion behind the forward
  std::vector<Bucket> buckets_;
  std::map<NodeId, int> bucket_of_;
  std::vector<Unit> units_;   // of one phase
  std::vector<int> unit_of_;  // by node; -1 in other phases
  Order order_;
};

/// Gradients whose reduction the backward ends with, or ends before, are waited for in the update, which has something to
/// do beside it. With micro-batches the next one begins instead.
Graph with_last_sums_in_update(Graph graph, const PassContext& context) {
  const Dependences dependences(graph);
  const int update = dependences.first_of(Phase::update);
  std::vector<NodeId> last;
  for (const Bucket& bucket : buckets_of(graph, dependences, context))
    if (dependences.is_reduced_early(bucket.nodes.front()) && bucket.deadline == update)
      last.insert(last.end(), bucket.nodes.begin(), bucket.nodes.end());
  const std::vector<bool> is_held = held_values(graph);  // another stage waits for it
  if (last.empty() ||
      std::ranges::any_of(last, [&](NodeId id) { return is_held[at(graph.node(id).results.front().index)]; }))
    return graph;
  for (NodeId id : last) graph.node(id).phase = Phase::update;
  std::vector<NodeId> order = graph.node_ids();
  std::ranges::stable_sort(order, {}, [&](NodeId id) { return graph.node(id).phase; });
  return rebuild(std::move(graph), order, std::vector<ValueId>(graph.values.size()));
}

}  // namespace

Program fuse_collectives(Program program, const PassContext& context) {
  if (program.batch_parts() == 1) program.graph = with_last_sums_in_update(std::move(program.graph), context);
  const Order order = CollectiveFuser(program.graph, context).run();
  if (order.nodes.empty()) return program;
  const std::vector<ValueId> same(program.graph.values.size());
  program.graph = rebuild(std::move(program.graph), order.nodes, same);
  for (std::size_t i = 0; i < order.nodes.size(); ++i) program.graph.nodes[i].is_fused = order.is_fused[i];
  return program;
}

}  // namespace shardwright
