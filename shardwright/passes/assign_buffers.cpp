// Every value gets a place in the arena of the device, or in that of the host, whose sizes are thereby known before
// anything runs.
//
// Values that share memory form a buffer: a reshape and its operand; a point-wise result and an operand that dies
// there; the new value of an update and its leaf, when nobody reads the old one later (nor, with micro-batches, the new
// one: autodiff/accumulate.cpp copies it then); what micro-batches have added up and its sum over devices. A buffer lives
// from its first definition to its last use, that of a gather which runs ahead of its use from where it starts; leaves
// live for ever. Buffers are placed largest first at the lowest offset that is free over their whole life (greedy by size;
// within a few per cent of optimal on such intervals: Pisarchyk and Lee, 2020).
//
// Micro-batches that are alive at the same time have a slot each, for the buffers that live from one of their tasks into
// another (plan/lanes.h); all others serve every micro-batch in turn. What is sent stays until its receivers have it
// (lower/step.cpp): of the forward until the backward, of the backward until the next one.
//
// Time is counted in fusions, because nodes that run together take turns block by block: all that one of them
// reads or writes is alive during all of them. What only they use passes from one to the next in the cache and
// gets no place.

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/rewrite.h"
#include "shardwright/lower/kept_leaves.h"
#include "shardwright/passes/buffer_kinds.h"
#include "shardwright/passes/optimize.h"
#include "shardwright/passes/place_buffers.h"

namespace shardwright {
namespace {

constexpr std::int64_t alignment = 64;
constexpr int for_ever = std::numeric_limits<int>::max();

/// What becomes a buffer, unless it is joined to another.
struct Place {
  std::int64_t bytes = 0;
  int begin = for_ever;  // time of the first definition
  int end = -1;          // time of the last use, outside of the program too
  int made = for_ever;   // by a node, or before all of them
  int last_read = -1;    // by a node
  bool is_leaf = false;
  bool is_cleared = false;  // a leaf that is zero again when the next step begins: accumulators
  bool is_sent = false;
  bool is_kept = false;  // in slots, though the backward makes it
  Space space = Space::device;
};

class Assignment {
 public:
  explicit Assignment(const Program& program)
      : program_(program),
        graph_(program.graph),
        starts_(program.starts),
        users_(users_of(graph_)),
        fusions_(fusions_of(graph_)),
        is_seen_later_(graph_.values.size(), false),
        joined_to_(graph_.values.size()),
        places_(graph_.values.size()) {
    const Graph& graph = graph_;
    std::iota(joined_to_.begin(), joined_to_.end(), 0);
    for (std::size_t f = 0; f < fusions_.size(); ++f)
      times_.resize(at(fusions_[f].end.index), static_cast<int>(f));
    for (Phase phase : {Phase::backward, Phase::weights, Phase::update})
      first_time_[phase] = first_time(phase);
    for (std::size_t v = 0; v < graph.values.size(); ++v) measure({static_cast<int>(v)});
    for (ValueId v : graph.sends) keep_until_received(v);
    for (ValueId v : graph.outputs) places_[at(v.index)].end = for_ever;
    for (const Update& u : graph.updates) places_[at(u.value.index)].end = for_ever;
    for (const Node& node : graph.nodes)
      if (node.op->is_alias) is_seen_later_[at(node.operands.front().index)] = true;
    for (ValueId v : graph.outputs) is_seen_later_[at(v.index)] = true;
    for (const Update& u : graph.updates) is_seen_later_[at(u.value.index)] = true;
  }

  void share() {
    for (const Update& u : graph_.updates)
      if (can_replace(u)) join(u.leaf, u.value);
    // Before anything is overwritten: how long a value lies there is said by all its names, of which one may be sent.
    for (const Node& node : graph_.nodes)
      if (node.op->is_alias) join_alias(node);
    for (NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      for (ValueId result : node.results)
        for (ValueId operand : operands_of(fusion_of(id)))
          if (can_overwrite(operand, id, result)) {
            join(operand, result);
            break;
          }
    }
  }

  /// Into the program that was given.
  void place(Program& program) {
    const BufferKinds kinds(graph_);
    std::vector<int> number(places_.size(), -1);  // of its buffer, by place
    program.buffers.clear();
    program.buffer_of.assign(places_.size(), -1);
    for (int v = 0; v < static_cast<int>(places_.size()); ++v) {
      if (!in_memory({v})) continue;
      int& b = number[at(root(v))];
      if (b < 0) {
        b = static_cast<int>(program.buffers.size());
        program.buffers.push_back(buffer_of(places_[at(root(v))]));
      }
      program.buffer_of[at(v)] = b;
      Buffer& buffer = program.buffers[at(b)];
      const BufferKind kind = kinds.of({v});
      if (buffer.value.is_valid() && buffer.kind <= kind) continue;
      buffer.value = {v};
      buffer.kind = kind;
    }
    find_offsets(program);
  }

 private:
  /// The first fusion of a phase or of those behind it.
  int first_time(Phase phase) const {
    const auto it = std::find_if(fusions_.begin(), fusions_.end(),
                                 [&](const Fusion& f) { return graph_.node(f.begin).phase >= phase; });
    return static_cast<int>(it - fusions_.begin());
  }

  void keep_until_received(ValueId v) {
    Place& b = places_[at(v.index)];
    b.is_sent = true;
    const Phase phase = graph_.node(graph_.value(v).producer).phase;
    if (phase == Phase::forward) {
      b.end = std::max(b.end, first_time_[Phase::backward]);
      b.last_read = std::max(b.last_read, first_time_[Phase::backward]);
      return;
    }
    b.end = for_ever;
    if (phase == Phase::update) return;
    b.begin = program_.micro_batches > 1 ? -1 : b.begin;
    b.is_kept = program_.keeps_sends;
  }

  /// From which of a micro-batch's tasks to which it lives: read by a later one than makes it, or kept until another
  /// stage has taken it. Nothing: within one.
  std::optional<Life> life_of(const Place& b) const {
    if (program_.lanes.slots[0] == 1 || b.is_leaf) return std::nullopt;
    if (b.is_kept) return Life::whole;
    const int backward = first_time_[Phase::backward], weights = first_time_[Phase::weights];
    const bool is_cut = weights < first_time_[Phase::update], is_read_last = b.last_read >= weights;
    if (b.made < backward && b.last_read >= backward)
      return is_cut && !is_read_last ? Life::to_inputs : Life::whole;
    if (is_cut && b.made < weights && is_read_last && b.made >= backward) return Life::to_weights;
    return std::nullopt;
  }

  Buffer buffer_of(const Place& place) const {
    const int last = static_cast<int>(fusions_.size()) - 1;
    const std::optional<Life> life = life_of(place);
    return {.value = {},
            .bytes = place.bytes,
            .slots = life ? program_.lanes.slots[static_cast<std::size_t>(*life)] : 1,
            .life = life.value_or(Life::whole),
            .space = place.space,
            .begin = place.begin < 0 ? NodeId() : fusions_[at(place.begin)].begin,
            .end = {fusions_[at(std::min(place.end, last))].end.index - (place.end > last ? 0 : 1)}};
  }

  void find_offsets(Program& program) const {
    std::vector<Buffer*> of_device, of_host;
    for (Buffer& b : program.buffers) (b.space == Space::device ? of_device : of_host).push_back(&b);
    program.arena_bytes = place_buffers(std::move(of_device), graph_.nodes.size(), 0);
    program.host_bytes =
        place_buffers(std::move(of_host), graph_.nodes.size(), program.arena_bytes) - program.arena_bytes;
  }

  int time(NodeId id) const { return times_[at(id.index)]; }
  const Fusion& fusion_of(NodeId id) const { return fusions_[at(time(id))]; }

  void measure(ValueId v) {
    const Value& value = graph_.value(v);
    Place& b = places_[at(v.index)];
    b.bytes = (std::max<std::int64_t>(value.type.bytes(), 1) + alignment - 1) / alignment * alignment;
    b.begin = b.end = b.last_read = time(value.producer);
    b.space = space_of(graph_, v);
    if (!starts_.empty()) b.begin = time(starts_[at(value.producer.index)]);
    for (NodeId user : users_[at(v.index)]) b.end = b.last_read = std::max(b.end, time(user));
    const OpKind kind = graph_.node(value.producer).op->kind;
    b.made = kind == OpKind::input ? -1 : time(value.producer);
    if (kind == OpKind::input) b.begin = -1;  // filled before the first node
    if (is_kept_leaf(graph_.node(value.producer))) {
      b.is_leaf = true;
      b.is_cleared = kind == OpKind::accumulator;
      b.begin = -1;
      b.end = for_ever;
    }
  }

  /// Some value of the program is read beyond the fusion that makes it.
  bool in_memory(ValueId v) const {
    const Place& b = places_[at(v.index)];
    return b.is_leaf || b.end > b.begin || fusions_[at(std::max(b.begin, 0))].size() == 1;
  }

  /// What a fusion reads of values that it does not make.
  std::vector<ValueId> operands_of(const Fusion& fusion) const {
    std::vector<ValueId> out;
    for (NodeId id = fusion.begin; id < fusion.end; id = {id.index + 1})
      for (ValueId v : graph_.node(id).operands)
        if (graph_.value(v).producer < fusion.begin) out.push_back(v);
    return out;
  }

  int root(int b) const {
    while (joined_to_[at(b)] != b) b = joined_to_[at(b)];
    return b;
  }

  Place& place_of(ValueId v) { return places_[at(root(v.index))]; }

  void join(ValueId into, ValueId v) {
    const int a = root(into.index), b = root(v.index);
    if (a == b) return;
    Place& to = places_[at(a)];
    const Place& from = places_[at(b)];
    to.begin = std::min(to.begin, from.begin);
    to.end = std::max(to.end, from.end);
    to.made = std::min(to.made, from.made);
    to.last_read = std::max(to.last_read, from.last_read);
    to.bytes = std::max(to.bytes, from.bytes);
    to.is_cleared = (to.is_cleared || !to.is_leaf) && (from.is_cleared || !from.is_leaf);
    to.is_leaf = to.is_leaf || from.is_leaf;
    to.is_sent = to.is_sent || from.is_sent;
    to.is_kept = to.is_kept || from.is_kept;
    joined_to_[at(b)] = a;
  }

  /// The new value may be written where the old one stands: nobody reads the old one after that.
  bool can_replace(const Update& u) const {
    if (places_[at(root(u.value.index))].is_leaf) return false;  // it lies in another leaf's place
    const NodeId writer = graph_.value(u.value).producer;
    const Node& node = graph_.node(writer);
    if (node.op->kind != OpKind::compute && node.op->kind != OpKind::step) return false;
    if (graph_.value(u.leaf).type != graph_.value(u.value).type || node.op->is_alias ||
        is_seen_later_[at(u.leaf.index)])
      return false;
    return std::all_of(users_[at(u.leaf.index)].begin(), users_[at(u.leaf.index)].end(), [&](NodeId reader) {
      return time(reader) < time(writer) ||
             (time(reader) == time(writer) && reads_before_write(reader, u.leaf, writer, u.value));
    });
  }

  /// Within one fusion: every element of `operand` that `reader` reads has been read before `writer` writes
  /// that element of `result` in its place.
  bool reads_before_write(NodeId reader, ValueId operand, NodeId writer, ValueId result) const {
    const Node& node = graph_.node(reader);
    if (reader > writer) return false;
    if (node.op->block) return graph_.value(operand).type.shape == graph_.value(result).type.shape;
    // Not point-wise: only the operator itself can say so.
    const std::size_t r = at(graph_.value(result).result);
    return reader == writer && r < node.op->overwrites.size() &&
           at(node.op->overwrites[r]) < node.operands.size() &&
           node.operands[at(node.op->overwrites[r])] == operand &&
           std::count(node.operands.begin(), node.operands.end(), operand) == 1;
  }

  void join_alias(const Node& node) {
    const ValueId from = node.operands.front(), to = node.results.front();
    if (graph_.value(from).type.bytes() != graph_.value(to).type.bytes()) return;
    if (place_of(to).is_leaf) return;  // the alias is a leaf's new value: it has its own place
    join(from, to);
  }

  /// Nobody reads it behind the fusion of `reader`. What micro-batches have added up is over with its last reader in the update,
  /// so that its sum over devices is made in its place, beside the last backward.
  bool is_over(const Place& place, NodeId reader) const {
    if (!place.is_leaf) return place.end == time(reader);
    return place.is_cleared && !place.is_sent && graph_.node(reader).phase == Phase::update &&
           place.last_read == time(reader);
  }

  /// `result` of `writer` may take the place of `operand`, which dies in the same fusion.
  bool can_overwrite(ValueId operand, NodeId writer, ValueId result) {
    if (graph_.value(operand).type != graph_.value(result).type || !in_memory(result)) return false;
    const Place& dying = place_of(operand);
    if (place_of(result).is_leaf || !is_over(dying, writer)) return false;
    if (place_of(result).begin < time(writer)) return false;  // it is there or on its way before
    // All values in that buffer that the fusion reads must have been read by then, and none may be written.
    const Fusion& fusion = fusion_of(writer);
    for (NodeId reader = fusion.begin; reader < fusion.end; reader = {reader.index + 1}) {
      for (ValueId v : graph_.node(reader).results)
        if (root(v.index) == root(operand.index)) return false;
      for (ValueId v : graph_.node(reader).operands)
        if (root(v.index) == root(operand.index) && !reads_before_write(reader, v, writer, result))
          return false;
    }
    return true;
  }

  const Program& program_;
  const Graph& graph_;
  const std::vector<NodeId>& starts_;  // of gathers that run ahead of their use
  Users users_;                        // by value
  std::vector<Fusion> fusions_;
  // By value: by another name, or when the step is over, as an output or what another leaf then takes.
  std::vector<bool> is_seen_later_;
  OfPhases<int> first_time_;    // when each begins
  std::vector<int> times_;      // by node: the number of its fusion
  std::vector<int> joined_to_;  // union-find over values
  std::vector<Place> places_;
};

}  // namespace

Program assign_buffers(Program program, const PassContext&) {
  Assignment assignment(program);
  assignment.share();
  assignment.place(program);
  return program;
}

}  // namespace shardwright
