#include "shardwright/simulate/memory.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "shardwright/graph/op.h"
#include "shardwright/graph/rewrite.h"
#include "shardwright/lower/kept_leaves.h"
#include "shardwright/passes/parameter_steps.h"

namespace shardwright {
namespace {

constexpr std::size_t told_consumers = 5;
constexpr int for_ever = std::numeric_limits<int>::max();

std::size_t at(int i) { return static_cast<std::size_t>(i); }

bool is_collective(const Node& node) { return node.op->kind == OpKind::step && !is_local(*node.op->step); }

/// What each value is for.
class Kinds {
 public:
  explicit Kinds(const Graph& graph)
      : graph_(graph),
        users_(users_of(graph)),
        is_parameter_(graph.values.size()),
        is_gradient_(graph.values.size()) {
    for (const Node& node : graph.nodes)
      for (ValueId v : node.results) {
        // Steps and aliases leave a value what it is.
        const bool passes_on = node.op->kind == OpKind::step || node.op->is_alias;
        const std::size_t from = passes_on ? at(node.operands.front().index) : 0;
        is_parameter_[at(v.index)] = node.op->kind == OpKind::parameter || (passes_on && is_parameter_[from]);
        is_gradient_[at(v.index)] = is_parameters_gradient(v) || (passes_on && is_gradient_[from]);
      }
  }

  MemoryKind of(ValueId v) const {
    const Node& producer = graph_.node(graph_.value(v).producer);
    if (producer.op->kind == OpKind::parameter) return MemoryKind::parameters;
    if (producer.op->kind == OpKind::state) return MemoryKind::optimizer_state;
    if (producer.op->kind == OpKind::accumulator) return MemoryKind::gradients;
    if (is_kept_leaf(producer)) return MemoryKind::communication;  // received once
    if (is_gradient_[at(v.index)]) return MemoryKind::gradients;
    if (is_parameter_[at(v.index)]) return MemoryKind::communication;
    if (producer.phase == Phase::forward &&
        has_user(v, [](const Node& n) { return n.phase != Phase::forward; }))
      return MemoryKind::activations;
    if (is_collective(producer) || has_user(v, is_collective)) return MemoryKind::communication;
    return MemoryKind::workspace;
  }

 private:
  bool is_parameters_gradient(ValueId v) const {
    const auto& of = graph_.value(v).gradient_of;
    return std::any_of(of.begin(), of.end(), [this](ValueId x) { return is_parameter_[at(x.index)]; });
  }
  template <class F>
  bool has_user(ValueId v, F is_so) const {
    const auto& users = users_[at(v.index)];
    return std::any_of(users.begin(), users.end(), [&](NodeId u) { return is_so(graph_.node(u)); });
  }

  const Graph& graph_;
  Users users_;
  std::vector<bool> is_parameter_;  // or a copy of one
  std::vector<bool> is_gradient_;   // of a parameter
};

bool is_numbered(const Value& value) {
  return value.name.find_first_not_of("0123456789") == std::string::npos;
}

/// The name that a user knows: a numbered copy is called after what it is a copy of, or what it is reduced to.
std::string told_name(const Graph& graph, const Users& users, ValueId v) {
  ValueId known = v;
  while (is_numbered(graph.value(known))) {
    const Node& producer = graph.node(graph.value(known).producer);
    if (producer.op->kind != OpKind::step && !producer.op->is_alias) break;
    known = producer.operands.front();
  }
  for (NodeId user : users[at(v.index)])
    if (is_numbered(graph.value(known)) && graph.node(user).op->kind == OpKind::step)
      known = graph.node(user).results.front();
  const Value& value = graph.value(known);
  if (is_numbered(value) && !value.gradient_of.empty())
    return fmt::format("the gradient of {}", graph.value(value.gradient_of.front()).name);
  return value.name;
}

/// From the first to the last fusion, by number, that a value is there for; -1: before the first.
struct Life {
  int begin = -1;
  int end = -1;
  bool is_alive(int time) const { return begin <= time && time <= end; }
};

std::vector<Life> lives_of(const Program& program) {
  const Graph& graph = program.graph;
  const std::vector<bool> is_ahead = gathers_of_weights(graph);
  std::vector<int> times;  // by node
  const std::vector<Fusion> fusions = fusions_of(graph);
  for (std::size_t f = 0; f < fusions.size(); ++f)
    times.resize(at(fusions[f].end.index), static_cast<int>(f));
  std::vector<Life> lives(graph.values.size());
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    const int time = times[at(id.index)];
    const bool starts_ahead = is_ahead[at(id.index)] && !program.starts.empty();
    const int begin = starts_ahead ? times[at(program.starts[at(id.index)].index)] : time;
    const bool is_kept = is_kept_leaf(node);
    for (ValueId v : node.operands) lives[at(v.index)].end = std::max(lives[at(v.index)].end, time);
    for (ValueId v : node.results)
      lives[at(v.index)] = {is_kept || node.op->kind == OpKind::input ? -1 : begin,
                            is_kept ? for_ever : time};
  }
  for (ValueId v : graph.outputs) lives[at(v.index)].end = for_ever;
  for (const Update& u : graph.updates) lives[at(u.value.index)].end = for_ever;
  return lives;
}

/// In all slots that it has.
std::int64_t place_bytes(const Program& program, int v) {
  constexpr std::int64_t alignment = 64;
  const std::int64_t bytes = std::max<std::int64_t>(program.graph.values[at(v)].type.bytes(), 1);
  const bool is_in_slot = !program.in_slot.empty() && program.in_slot[at(v)];
  return (bytes + alignment - 1) / alignment * alignment * (is_in_slot ? program.slots : 1);
}

/// The fusion at which most bytes are alive.
int peak_of(const Program& program, const std::vector<Life>& lives) {
  int last = 0;
  for (const Life& life : lives) last = std::max(last, life.begin);
  std::vector<std::vector<int>> begin(at(last + 2)), end(at(last + 3));  // by time + 1
  for (std::size_t v = 0; v < lives.size(); ++v) {
    if (program.offsets[v] == no_place) continue;
    begin[at(lives[v].begin + 1)].push_back(static_cast<int>(v));
    if (lives[v].end <= last) end[at(lives[v].end + 2)].push_back(static_cast<int>(v));
  }
  std::unordered_map<std::int64_t, int> holders;  // by offset: values that are alive there
  std::int64_t bytes = 0, most = -1;
  int peak = -1;
  for (int time = -1; time <= last; ++time) {
    const auto size = [&](int v) { return place_bytes(program, v); };
    for (int v : end[at(time + 1)])
      if (--holders[program.offsets[at(v)]] == 0) bytes -= size(v);
    for (int v : begin[at(time + 1)])
      if (++holders[program.offsets[at(v)]] == 1) bytes += size(v);
    if (bytes <= most) continue;
    most = bytes;
    peak = time;
  }
  return peak;
}

}  // namespace

std::string_view name_of(MemoryKind kind) {
  constexpr std::array<std::string_view, memory_kinds> names{"parameters",  "optimizer_state", "gradients",
                                                             "activations", "communication",   "workspace"};
  return names[static_cast<std::size_t>(kind)];
}

MemoryUse memory_use(const Program& program) {
  const Graph& graph = program.graph;
  const Kinds kinds(graph);
  const std::vector<Life> lives = lives_of(program);
  const int peak = peak_of(program, lives);

  struct Place {
    ValueId value;
    MemoryKind kind;
    std::int64_t bytes;
  };
  std::unordered_map<std::int64_t, Place> places;  // by offset
  for (std::size_t v = 0; v < lives.size(); ++v) {
    if (!lives[v].is_alive(peak) || program.offsets[v] == no_place) continue;
    const ValueId id{static_cast<int>(v)};
    const Place here{id, kinds.of(id), place_bytes(program, id.index)};
    const auto [known, is_new] = places.emplace(program.offsets[v], here);
    if (!is_new && here.kind < known->second.kind) known->second = here;
  }
  MemoryUse out;
  std::vector<Place> largest;
  out.bytes[static_cast<std::size_t>(MemoryKind::workspace)] = program.arena_bytes;
  for (const auto& [offset, place] : places) {
    out.bytes[static_cast<std::size_t>(MemoryKind::workspace)] -= place.bytes;
    out.bytes[static_cast<std::size_t>(place.kind)] += place.bytes;
    largest.push_back(place);
  }
  std::sort(largest.begin(), largest.end(), [](const Place& a, const Place& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.value < b.value;
  });
  largest.resize(std::min(largest.size(), told_consumers));
  const auto users = users_of(graph);
  for (const Place& p : largest) out.largest.push_back({told_name(graph, users, p.value), p.kind, p.bytes});
  return out;
}

}  // namespace shardwright
