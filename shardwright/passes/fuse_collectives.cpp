// Collectives over the same axes run as one, a bucket, which pays the latency once: sums of parameters' gradients, and
// gathers. Losses keep their bits: each tensor is summed as before.
//
// Buckets fill greedily, in the order in which the collectives may start, within the limits of plan/comm_fusion.h. In
// mode auto they fill from the end, and the k-th from the end is full when moving it takes 1/2, 2, 8, 10, 10, ... times
// as long as starting it: the last one, which no backward hides, is the smallest, and beyond 10 there is nothing to
// save. Gathers of the forward and backward join as long as the latency outweighs their bytes, because they lie
// gathered in memory before they are used.
//
// A bucket of the forward or backward stands in front of the first node that reads one of its results; what is not
// ready by then stays out. Nothing else moves but weights, which stand in front of the bucket that gathers them. The update is put in order of readiness: what came out of the backward
// first is reduced and used first, so that updates run while later buckets are on their way.
//
// Nothing of the update waits for itself: the collectives of a bucket have the same number of other such collectives
// on the longest way to them (their depth). Nor do stages wait for each other: what stands in front of a receive of the
// update (a norm of all gradients, a tied weight's gradient) stays in front of it, because what another stage needs may
// be sent there, though nothing in this stage's graph depends on that (rounds).

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <tuple>

#include "shardwright/graph/rewrite.h"
#include "shardwright/passes/optimize.h"
#include "shardwright/passes/parameter_steps.h"

namespace shardwright {
namespace {

using Mode = BucketLimit::Mode;

/// Of the k-th bucket from the end in mode auto, the time of moving it over that of starting it.
double full_at(int k) { return std::min(10.0, 0.5 * std::pow(4.0, std::min(k, 10))); }

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// When a bucket has no room for one more.
enum class Filling : std::uint8_t {
  alone,       // always
  unlimited,   // never
  bytes,       // beyond a number of bytes
  worthwhile,  // once starting it is cheap beside moving it; from the last to the first
  small        // when moving it takes longer than starting it
};

/// A collective, or several that run as one.
struct Bucket {
  std::vector<NodeId> nodes = {};
  std::int64_t bytes = 0;
  double seconds = 0;                              // for the bytes
  int ready = 0;                                   // fusions in front of which it may stand, from here
  int deadline = std::numeric_limits<int>::max();  // to here
  int behind = 0;                                  // buckets of its kind that stand behind it (`worthwhile`)
};

Bucket joined(Bucket a, const Bucket& b) {
  a.nodes.insert(a.nodes.end(), b.nodes.begin(), b.nodes.end());
  a.bytes += b.bytes;
  a.seconds += b.seconds;
  a.ready = std::max(a.ready, b.ready);
  a.deadline = std::min(a.deadline, b.deadline);
  return a;
}

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

class Fuser {
 public:
  Fuser(const Graph& graph, const PassContext& context)
      : graph_(graph),
        context_(context),
        users_(users_of(graph)),
        fusions_(fusions_of(graph)),
        parameters_(parameter_steps(graph)),
        fusion_of_(graph.nodes.size()),
        depths_(graph.nodes.size()),
        rounds_(graph.nodes.size()),
        readiness_(graph.nodes.size()),
        made_(graph.nodes.size()) {
    for (const Update& u : graph.updates) made_[at(producer(u.leaf).index)] = producer(u.value);
    for (std::size_t f = 0; f < fusions_.size(); ++f)
      for (NodeId id = fusions_[f].begin; id < fusions_[f].end; ++id.index)
        fusion_of_[at(id.index)] = static_cast<int>(f);
    for (const Fusion& f : fusions_) measure(f);
    backward_ = first_of(Phase::backward);
  }

  Order run() {
    fill_buckets();
    const bool has_sums = std::any_of(fusions_.begin(), fusions_.end(), [this](const Fusion& f) {
      return node(f.begin).phase == Phase::update && is_sum(f.begin);
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
  struct Choice {
    Filling filling;
    std::int64_t number = 0;  // buckets of other numbers are apart
  };
  using Key = std::tuple<const OpDef*, int, Axes, Phase, DType, int, int, Filling, std::int64_t>;

  const Node& node(NodeId id) const { return graph_.node(id); }

  Phase phase(std::size_t fusion) const { return node(fusions_[fusion].begin).phase; }
  /// Where a phase begins, or those behind it.
  int first_of(Phase wanted) const {
    const auto it = std::partition_point(fusions_.begin(), fusions_.end(),
                                         [&](const Fusion& f) { return node(f.begin).phase < wanted; });
    return static_cast<int>(it - fusions_.begin());
  }
  NodeId producer(ValueId v) const { return graph_.value(v).producer; }
  bool is_gather(NodeId id) const { return node(id).op->step == StepKind::all_gather; }
  bool is_parameters(NodeId id) const { return parameters_[at(id.index)].is_valid(); }
  bool is_sum(NodeId id) const { return is_parameters(id) && !is_gather(id); }
  bool may_join(NodeId id) const { return is_parameters(id) || is_gather(id); }
  bool is_sent(ValueId v) const {
    return std::find(graph_.sends.begin(), graph_.sends.end(), v) != graph_.sends.end();
  }
  static bool is_leaf(const Node& n) { return n.op->kind != OpKind::compute && n.op->kind != OpKind::step; }

  static bool is_received_in_update(const Node& n) {
    return n.op->kind == OpKind::receive && n.phase == Phase::update;
  }

  /// How many collectives that may join others stand above a fusion, which receive of the update (from 1 on) and which
  /// fusion before the update come last above it.
  void measure(const Fusion& f) {
    int depth = 0, round = is_received_in_update(node(f.begin)) ? ++receives_ : 0, readiness = 0;
    for (NodeId id = f.begin; id < f.end; ++id.index)
      for (ValueId v : node(id).operands) {
        const NodeId from = producer(v);
        if (from >= f.begin) continue;
        depth = std::max(depth, depths_[at(from.index)] + may_join(from));
        round = std::max(round, rounds_[at(from.index)]);
        readiness = std::max(readiness, readiness_behind(from));
      }
    for (NodeId id = f.begin; id < f.end; ++id.index) {
      depths_[at(id.index)] = depth;
      rounds_[at(id.index)] = round;
      readiness_[at(id.index)] = readiness;
    }
  }

  /// An accumulator is ready when the backward has added to it.
  int readiness_behind(NodeId from) const {
    const NodeId made = node(from).op->kind == OpKind::accumulator && made_[at(from.index)].is_valid()
                            ? made_[at(from.index)]
                            : from;
    return node(made).phase != Phase::update ? fusion_of_[at(made.index)] + 1 : readiness_[at(made.index)];
  }

  // ---- buckets ----

  /// The order in which collectives may start.
  std::tuple<Phase, int, NodeId> place(NodeId id) const {
    const Phase phase = node(id).phase;
    return {phase, phase == Phase::update ? readiness_[at(id.index)] : 0, id};
  }

  void fill_buckets() {
    std::vector<NodeId> steps;
    for (const Fusion& f : fusions_)
      if (f.size() == 1 && may_join(f.begin)) steps.push_back(f.begin);
    std::sort(steps.begin(), steps.end(), [this](NodeId a, NodeId b) { return place(a) < place(b); });
    std::vector<Choice> choices;
    for (NodeId id : steps) choices.push_back(choice_of(id));
    std::map<Key, Bucket> open;
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (choices[i].filling != Filling::worthwhile) add(steps[i], choices[i], open);
    for (std::size_t i = steps.size(); i-- > 0;)
      if (choices[i].filling == Filling::worthwhile) add(steps[i], choices[i], open);
    for (const auto& [key, bucket] : open) close(bucket);
  }

  void add(NodeId id, const Choice& choice, std::map<Key, Bucket>& open) {
    const auto [filling, number] = choice;
    if (filling == Filling::alone) return;
    const bool is_update = node(id).phase == Phase::update;
    // Elsewhere the units that a bucket reads stay where they are.
    if (!is_update && may_join(producer(node(id).operands.front()))) return;
    const Step step = step_of(graph_, node(id));
    const double latency = context_.redistributor.latency(step);
    const Bucket one = bucket_of(id, latency);
    if (filling == Filling::small && one.seconds > latency) return;
    const Key key{node(id).op,
                  step.from.mesh,
                  step.axes,
                  node(id).phase,
                  graph_.value(node(id).results.front()).type.dtype,
                  is_update ? depths_[at(id.index)] : 0,
                  rounds_[at(id.index)],
                  filling,
                  number};
    Bucket& bucket = open[key];
    if (fits(bucket, one, filling, latency, limit_of(id))) {
      bucket = joined(bucket, one);
    } else {
      close(bucket);
      const int behind = bucket.behind + 1;
      bucket = one;
      bucket.behind = behind;
    }
  }

  const BucketLimit& limit_of(NodeId id) const {
    if (is_gather(id)) return context_.fusion.all_gather;
    return node(id).op->step == StepKind::all_reduce ? context_.fusion.all_reduce
                                                     : context_.fusion.reduce_scatter;
  }

  /// Also counts gradients, so it is asked once for each, in their order.
  Choice choice_of(NodeId id) {
    const BucketLimit& limit = limit_of(id);
    const std::int64_t index = is_sum(id) && node(id).op->step == StepKind::all_reduce ? gradients_++ : 0;
    if (is_parameters(id)) {
      const auto own = context_.fusion.parameters.find(graph_.value(parameters_[at(id.index)]).name);
      if (own != context_.fusion.parameters.end())
        return own->second == 0 ? Choice{Filling::alone} : Choice{Filling::unlimited, -own->second};
    }
    if (limit.mode == Mode::none || (limit.mode == Mode::size && limit.megabytes == 0))
      return {Filling::alone};
    if (!is_parameters(id)) return {Filling::small, 1};
    if (limit.mode == Mode::size) return {Filling::bytes};
    if (limit.mode == Mode::index) {
      const auto& ends = limit.indices;
      return {Filling::unlimited, std::lower_bound(ends.begin(), ends.end(), index) - ends.begin()};
    }
    if (is_gather(id) && node(id).phase != Phase::update) return {Filling::small};
    return {Filling::worthwhile};
  }

  Bucket bucket_of(NodeId id, double latency) const {
    const Node& n = node(id);
    const ValueId from = n.operands.front(), to = n.results.front();
    return {.nodes = {id},
            .bytes = std::max(graph_.value(from).type.bytes(), graph_.value(to).type.bytes()),
            .seconds = redistribution_of(graph_, n, context_.redistributor).seconds - latency,
            .ready = ready(id),
            .deadline = deadline(id)};
  }

  /// In the update what stands in the way moves; elsewhere a bucket stands behind what it reads, in its phase.
  int ready(NodeId id) const {
    if (node(id).phase == Phase::update) return 0;
    const NodeId from = producer(node(id).operands.front());
    return std::max(is_leaf(node(from)) ? 0 : fusion_of_[at(from.index)] + 1, first_of(node(id).phase));
  }
  /// The first fusion that reads the result, or the end of the phase.
  int deadline(NodeId id) const {
    if (node(id).phase == Phase::update) return std::numeric_limits<int>::max();
    int f = first_of(node(id).phase == Phase::forward ? Phase::backward : Phase::update);
    for (NodeId user : users_[at(node(id).results.front().index)])
      f = std::min(f, fusion_of_[at(user.index)]);
    return f;
  }

  static bool fits(const Bucket& bucket, const Bucket& one, Filling filling, double latency,
                   const BucketLimit& limit) {
    const Bucket both = joined(bucket, one);
    if (both.ready > both.deadline) return false;
    switch (filling) {
      case Filling::alone: return false;
      case Filling::unlimited: return true;
      case Filling::bytes: return both.bytes <= limit.bytes();
      case Filling::small: return both.seconds <= latency;
      case Filling::worthwhile: break;
    }
    return both.bytes <= limit.bytes() && bucket.seconds < full_at(bucket.behind) * latency;
  }

  void close(Bucket bucket) {
    if (bucket.nodes.size() < 2) return;
    std::sort(bucket.nodes.begin(), bucket.nodes.end(),
              [this](NodeId a, NodeId b) { return place(a) < place(b); });
    for (NodeId id : bucket.nodes) bucket_of_[id] = static_cast<int>(buckets_.size());
    buckets_.push_back(std::move(bucket));
  }

  // ---- order ----

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
      unit.round = std::max(unit.round, rounds_[at(id.index)]);
      unit.readiness = std::max(unit.readiness, readiness_[at(id.index)]);
    }
    const bool is_read = std::any_of(unit.nodes.begin(), unit.nodes.end(), [this](NodeId id) {
      const ValueId made = node(id).results.front();
      return !node(id).op->step || !users_[at(made.index)].empty() || is_sent(made);
    });
    if (is_read) return;
    // A new weight, for the next step: waited for behind all else.
    unit.rank = unit.readiness;
    unit.round = receives_;
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
  const PassContext& context_;
  Users users_;  // by value
  std::vector<Fusion> fusions_;
  std::vector<ValueId> parameters_;  // by node
  std::vector<int> fusion_of_;       // by node
  int receives_ = 0;                 // of the update
  std::vector<int> depths_;          // by node
  std::vector<int> rounds_;          // by node
  std::vector<int> readiness_;       // by node: the last fusion before the update that it waits for, and 1
  std::vector<NodeId> made_;         // by node, of leaves that are updated: what makes the new value
  int backward_ = 0;                 // the first fusion behind the forward
  std::int64_t gradients_ = 0;       // that have been counted
  std::vector<Bucket> buckets_;      // of two collectives or more
  std::map<NodeId, int> bucket_of_;
  std::vector<Unit> units_;   // of one phase
  std::vector<int> unit_of_;  // by node; -1 in other phases
  Order order_;
};

}  // namespace

Program fuse_collectives(Program program, const PassContext& context) {
  const Order order = Fuser(program.graph, context).run();
  if (order.nodes.empty()) return program;
  const std::vector<ValueId> same(program.graph.values.size());
  program.graph = rebuild(std::move(program.graph), order.nodes, same);
  for (std::size_t i = 0; i < order.nodes.size(); ++i) program.graph.nodes[i].is_fused = order.is_fused[i];
  return program;
}

}  // namespace shardwright
