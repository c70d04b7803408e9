#include "shardwright/passes/buckets.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/rewrite.h"

namespace shardwright {
namespace {

using Mode = BucketLimit::Mode;

/// When a bucket has no room for one more.
enum class Filling : std::uint8_t {
  alone,       // always
  unlimited,   // never
  bytes,       // beyond a number of bytes
  worthwhile,  // once starting it is cheap beside moving it; from the last to the first
  small        // when moving it takes longer than starting it
};

Bucket joined(Bucket a, const Bucket& b) {
  a.nodes.insert(a.nodes.end(), b.nodes.begin(), b.nodes.end());
  a.bytes += b.bytes;
  a.ready = std::max(a.ready, b.ready);
  a.deadline = std::min(a.deadline, b.deadline);
  return a;
}

class Filler {
 public:
  Filler(const Graph& graph, const Dependences& dependences, const PassContext& context)
      : graph_(graph), dependences_(dependences), context_(context), users_(users_of(graph)) {}

  std::vector<Bucket> run() {
    std::vector<NodeId> steps;
    for (const Fusion& f : dependences_.fusions())
      if (f.size() == 1 && dependences_.may_join(f.begin)) steps.push_back(f.begin);
    std::sort(steps.begin(), steps.end(), [this](NodeId a, NodeId b) { return place(a) < place(b); });
    std::vector<Choice> choices;
    for (NodeId id : steps) choices.push_back(choice_of(id));
    std::map<Key, Bucket> open;
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (choices[i].filling != Filling::worthwhile) add(steps[i], choices[i], open);
    for (std::size_t i = steps.size(); i-- > 0;)
      if (choices[i].filling == Filling::worthwhile) add(steps[i], choices[i], open);
    for (const auto& [key, bucket] : open) close(bucket);
    finish_early_ones_in_turn();
    return std::move(buckets_);
  }

 private:
  struct Choice {
    Filling filling;
    std::int64_t number = 0;  // buckets of other numbers are apart
  };
  using Key = std::tuple<const OpDef*, int, Axes, Phase, DType, int, int, Filling, std::int64_t>;

  const Node& node(NodeId id) const { return graph_.node(id); }

  NodeId above(NodeId id) const { return graph_.value(node(id).operands.front()).producer; }

  /// The order in which collectives may start.
  std::tuple<Phase, int, NodeId> place(NodeId id) const {
    const Phase phase = node(id).phase;
    return {phase, phase == Phase::update ? dependences_.readiness(id) : 0, id};
  }

  void add(NodeId id, const Choice& choice, std::map<Key, Bucket>& open) {
    const auto [filling, number] = choice;
    const bool moves = node(id).phase == Phase::update || dependences_.is_reduced_early(id);
    // Elsewhere the units that a bucket reads stay where they are.
    const auto may_move = [&](ValueId v) { return dependences_.may_join(graph_.value(v).producer); };
    if (!moves && (filling == Filling::alone || std::ranges::any_of(node(id).operands, may_move))) return;
    const Step step = step_of(graph_, node(id));
    const Bucket one = bucket_of(id, step);
    if (filling == Filling::alone) return close(one);
    if (filling == Filling::small && one.seconds > price(step, one).starting) return;
    const Key key{node(id).op,
                  step.from.mesh,
                  step.axes,
                  node(id).phase,
                  graph_.value(node(id).results.front()).type.dtype,
                  moves ? dependences_.depth(id) : 0,
                  dependences_.round(id),
                  filling,
                  number};
    Bucket& bucket = open[key];
    Bucket both = joined(bucket, one);
    const JoinedPrice of_both = price(step, both);
    both.seconds = of_both.moving;
    if (fits(both, bucket.seconds, filling, of_both.starting, limit_of(id))) {
      bucket = std::move(both);
    } else {
      close(bucket);
      const int behind = bucket.behind + 1;
      bucket = one;
      bucket.behind = behind;
    }
  }

  JoinedPrice price(const Step& step, const Bucket& bucket) const {
    return joined_price(step, bucket.bytes, context_.redistributor);
  }

  const BucketLimit& limit_of(NodeId id) const {
    if (dependences_.is_gather(id)) return context_.fusion.all_gather;
    return node(id).op->step == StepKind::all_reduce ? context_.fusion.all_reduce
                                                     : context_.fusion.reduce_scatter;
  }

  /// Also counts gradients, so it is asked once for each, in their order.
  Choice choice_of(NodeId id) {
    const BucketLimit& limit = limit_of(id);
    const std::int64_t index =
        dependences_.is_gradients_sum(id) && node(id).op->step == StepKind::all_reduce ? gradients_++ : 0;
    if (dependences_.parameter(id).is_valid()) {
      const auto own = context_.fusion.parameters.find(graph_.value(dependences_.parameter(id)).name);
      if (own != context_.fusion.parameters.end())
        return own->second == 0 ? Choice{Filling::alone} : Choice{Filling::unlimited, -own->second};
    }
    if (limit.mode == Mode::none || (limit.mode == Mode::size && limit.megabytes == 0))
      return {Filling::alone};
    // What the forward has made can be gathered ahead, the rest cannot.
    if (!dependences_.parameter(id).is_valid())
      return {Filling::small, node(id).phase > node(above(id)).phase ? 2 : 1};
    if (limit.mode == Mode::size) return {Filling::bytes};
    if (limit.mode == Mode::index) {
      const auto& ends = limit.indices;
      return {Filling::unlimited, std::lower_bound(ends.begin(), ends.end(), index) - ends.begin()};
    }
    if (dependences_.is_gather(id) && node(id).phase != Phase::update) return {Filling::small};
    return {Filling::worthwhile};
  }

  Bucket bucket_of(NodeId id, const Step& step) const {
    Bucket out{.nodes = {id},
               .bytes = joined_bytes(graph_, node(id), context_.redistributor),
               .ready = ready(id),
               .deadline = deadline(id)};
    out.seconds = price(step, out).moving;
    return out;
  }

  /// In the update what stands in the way moves; elsewhere a bucket stands behind what it reads, in its phase.
  int ready(NodeId id) const {
    if (node(id).phase == Phase::update) return 0;
    int out = dependences_.first_of(node(id).phase);
    for (const ValueId v : node(id).operands)
      if (const NodeId from = graph_.value(v).producer; !is_leaf(node(from)))
        out = std::max(out, dependences_.fusion_of(from) + 1);
    return out;
  }
  /// The first fusion that reads the result, or the end of the phase. Who reads a gradient moves with it.
  int deadline(NodeId id) const {
    if (node(id).phase == Phase::update) return std::numeric_limits<int>::max();
    int f = dependences_.first_of(static_cast<Phase>(static_cast<int>(node(id).phase) + 1));
    if (dependences_.is_reduced_early(id)) return f;
    for (NodeId user : users_[static_cast<std::size_t>(node(id).results.front().index)])
      f = std::min(f, dependences_.fusion_of(user));
    return f;
  }

  /// `before`: seconds of it without the one that joins; `latency`: of starting all.
  bool fits(const Bucket& both, double before, Filling filling, double latency,
            const BucketLimit& limit) const {
    const std::int64_t held = both.bytes.held;
    if (both.ready > both.deadline) return false;
    switch (filling) {
      case Filling::alone: return false;
      case Filling::unlimited: return true;
      case Filling::bytes: return held <= limit.bytes();
      case Filling::small: return both.seconds <= latency && held <= std::max(limit.bytes(), most_held());
      case Filling::worthwhile: break;
    }
    // Where many ranks make starting dear, more than the limit may go together.
    const bool is_cheap =
        held <= limit.bytes() || (both.seconds <= most_times_starting * latency && held <= most_held());
    return is_cheap && before < full_at(both.behind) * latency;
  }

  /// Several lie in memory at a time.
  std::int64_t most_held() const {
    return most_bucket_bytes(context_.cluster ? context_.cluster->memory_bytes : 0);
  }

  void close(Bucket bucket) {
    if (bucket.nodes.size() < 2 && !is_early(bucket)) return;
    std::sort(bucket.nodes.begin(), bucket.nodes.end(),
              [this](NodeId a, NodeId b) { return place(a) < place(b); });
    buckets_.push_back(std::move(bucket));
  }

  bool is_early(const Bucket& bucket) const {
    return !bucket.nodes.empty() && dependences_.is_reduced_early(bucket.nodes.front());
  }

  /// An early bucket is waited for where the one after the next is ready, so that what the backward computes in between
  /// hides it, and three at most lie whole in memory; or one later where one of the two before is larger, for which it
  /// waits on their link. With one micro-batch the last ones are waited for in the update. More hides hardly more. One that
  /// reads another's results is ready when that is there.
  void finish_early_ones_in_turn() {
    std::vector<Bucket*> early;
    for (Bucket& b : buckets_)
      if (is_early(b)) early.push_back(&b);
    const auto depth = [&](const Bucket* b) { return dependences_.depth(b->nodes.front()); };
    std::ranges::stable_sort(early, {}, [&](const Bucket* b) { return std::pair(depth(b), b->ready); });
    std::map<NodeId, int> there;  // from which fusion on, by reduction
    std::map<int, double> ready;  // seconds of those that read no other, by where
    for (const Bucket* b : early)
      if (depth(b) == 0) ready[b->ready] += b->seconds;
    for (Bucket* b : early) {
      for (NodeId id : b->nodes)
        if (const auto it = there.find(above(id)); it != there.end())
          b->ready = std::max(b->ready, it->second);
      b->deadline = std::min(b->deadline, in_turn(ready, b->ready));
      for (NodeId id : b->nodes) there[id] = b->deadline;
    }
  }

  /// Where what is ready at `place` is waited for.
  static int in_turn(const std::map<int, double>& ready, int place) {
    constexpr double larger = 1.25;
    int behind = 1;
    if (const auto own = ready.find(place); own != ready.end()) {
      auto before = own;
      for (int i = 0; i < 2 && before != ready.begin(); ++i)
        if ((--before)->second > larger * own->second) behind = 2;
    }
    auto next = ready.upper_bound(place);
    for (int i = 0; i < behind && next != ready.end(); ++i) ++next;
    return next == ready.end() ? std::numeric_limits<int>::max() : next->first;
  }

  const Graph& graph_;
  const Dependences& dependences_;
  const PassContext& context_;
  Users users_;                 // by value
  std::int64_t gradients_ = 0;  // that have been counted
  std::vector<Bucket> buckets_;
};

}  // namespace

std::vector<Bucket> buckets_of(const Graph& graph, const Dependences& dependences,
                               const PassContext& context) {
  return Filler(graph, dependences, context).run();
}

}  // namespace shardwright
