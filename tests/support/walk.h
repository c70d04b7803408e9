// The arena of a program, checked by walking through it with the bytes that each value owns, and with those that
// transfers hold which have been started and not yet waited for. Shares no code with the passes.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "shardwright/lower/program.h"

namespace shardwright::testing {

/// Runs the program on paper: each byte of the arena remembers which value was last written there, and every
/// read, also by the outputs and updates at the end, must find the value that it wants.
class Walk {
 public:
  explicit Walk(const Program& p)
      : p_(p), owner_(static_cast<std::size_t>(p.arena_bytes / grain), -1), content_(p.graph.values.size()) {
    for (std::size_t v = 0; v < content_.size(); ++v) content_[v] = static_cast<int>(v);
  }

  /// What is wrong, or nothing.
  std::string run() {
    if (p_.buffer_of.size() != p_.graph.values.size()) return "values without a place";
    for (const Value& v : p_.graph.values)
      if (is_leaf(v)) write(id_of(v));
    for (const Fusion& fusion : fusions_of(p_.graph)) {
      start_in_front_of(fusion.begin);
      for (NodeId id = fusion.begin; id < fusion.end; id = {id.index + 1}) step(id);
      check_sharing(fusion);
    }
    check_without_place();
    for (ValueId v : p_.graph.outputs) read(v, "an output");
    for (const Update& u : p_.graph.updates) {
      read(u.value, "the new value of %" + name(u.leaf));
      // In place of the leaf, or elsewhere and copied later: never across its borders, nor in another leaf.
      if (overlap(u.leaf, u.value) && offset(u.leaf) != offset(u.value))
        note("a new value half over its leaf");
    }
    for (const Value& v : p_.graph.values) {
      if (!is_kept(v) || is_updated(id_of(v))) continue;
      read(id_of(v), "kept for the next step");
    }
    for (const Value& a : p_.graph.values)
      for (const Value& b : p_.graph.values)
        if (&a != &b && is_kept(a) && is_kept(b) && overlap(id_of(a), id_of(b)))
          note(fmt::format("%{} and %{} are kept in one place", a.name, b.name));
    return wrong_;
  }

  /// Node by node.
  void step(NodeId id) {
    const Node& node = p_.graph.node(id);
    if (node.op->kind != OpKind::compute && node.op->kind != OpKind::step) return;
    std::erase(started_, id);
    check_started(node);
    for (ValueId v : node.operands) read(v, "read by " + p_.graph.name_of(id));
    for (ValueId v : node.results) {
      const bool is_same = node.op->is_alias && offset(v) == offset(node.operands[0]);
      if (is_same) content_[at(v)] = content_[at(node.operands[0])];
      if (!is_same) write(v);
    }
  }

  /// What is never in memory is read only by the nodes that run with its producer.
  void check_without_place() {
    for (const Fusion& fusion : fusions_of(p_.graph))
      for (NodeId id = fusion.begin; id < fusion.end; id = {id.index + 1})
        for (ValueId v : p_.graph.node(id).operands)
          if (offset(v) == no_place && p_.graph.value(v).producer < fusion.begin)
            note(fmt::format("%{} has no place and is read by {}", name(v), p_.graph.name_of(id)));
    for (ValueId v : p_.graph.outputs)
      if (offset(v) == no_place) note("%" + name(v) + " is an output and has no place");
    for (const Update& u : p_.graph.updates)
      if (offset(u.leaf) == no_place || offset(u.value) == no_place)
        note("%" + name(u.leaf) + " or its new value has no place");
  }

  /// While nodes that run together write results they still read operands: these may lie in one place only
  /// where every element is read before it is written.
  void check_sharing(const Fusion& fusion) {
    for (NodeId w = fusion.begin; w < fusion.end; w = {w.index + 1})
      for (std::size_t r = 0; r < p_.graph.node(w).results.size(); ++r)
        for (NodeId id = fusion.begin; id < fusion.end; id = {id.index + 1})
          for (std::size_t o = 0; o < p_.graph.node(id).operands.size(); ++o) {
            const ValueId result = p_.graph.node(w).results[r], operand = p_.graph.node(id).operands[o];
            if (result != operand && overlap(result, operand) && !may_share(w, r, id, o))
              note(fmt::format("%{} is written over operand %{}", name(result), name(operand)));
          }
  }

  /// Largest sum of the bytes of values that are alive at one node, aliases and values in place counted once.
  std::int64_t peak() const {
    std::vector<int> time;  // by node: the number of its fusion
    int number = 0;
    for (const Fusion& f : fusions_of(p_.graph)) time.resize(static_cast<std::size_t>(f.end.index), number++);
    const auto time_of = [&](NodeId id) { return time[static_cast<std::size_t>(id.index)]; };
    const int n = time.empty() ? 0 : time.back() + 1;
    std::vector<int> last(p_.graph.values.size(), -1);
    for (NodeId id : p_.graph.node_ids())
      for (ValueId v : p_.graph.node(id).operands) last[at(v)] = std::max(last[at(v)], time_of(id));
    for (ValueId v : p_.graph.outputs) last[at(v)] = n;
    for (const Update& u : p_.graph.updates) last[at(u.value)] = n;
    std::int64_t most = 0;
    for (int i = 0; i < n; ++i) {
      std::map<std::int64_t, std::int64_t> by_offset;
      for (const Value& v : p_.graph.values) {
        const NodeId from = v.producer;
        const bool starts_ahead = !p_.starts.empty() && is_ahead(p_.graph.node(from));
        const int born = time_of(starts_ahead ? p_.starts[static_cast<std::size_t>(from.index)] : from),
                  dies = last[at(id_of(v))];
        const bool is_alive =
            is_kept(v) || (born <= i && dies >= i) || born == i || (is_leaf(v) && dies >= i);
        if (!is_alive || offset(id_of(v)) == no_place) continue;
        auto& bytes = by_offset[offset(id_of(v))];
        bytes = std::max(bytes, rounded(v));
      }
      std::int64_t sum = 0;
      for (const auto& [o, bytes] : by_offset) sum += bytes;
      most = std::max(most, sum);
    }
    return most;
  }

 private:
  static std::size_t at(ValueId v) { return static_cast<std::size_t>(v.index); }
  static constexpr std::int64_t grain = 8;

  ValueId id_of(const Value& v) const { return {static_cast<int>(&v - p_.graph.values.data())}; }
  const std::string& name(ValueId v) const { return p_.graph.value(v).name; }
  std::int64_t offset(ValueId v) const { return p_.offset(v); }
  std::int64_t rounded(const Value& v) const { return (v.type.bytes() + 63) / 64 * 64; }
  OpKind kind(const Value& v) const { return p_.graph.node(v.producer).op->kind; }
  bool is_leaf(const Value& v) const { return is_kept(v) || kind(v) == OpKind::input; }
  bool is_kept(const Value& v) const { return kind(v) == OpKind::parameter || kind(v) == OpKind::state; }
  bool is_updated(ValueId v) const {
    return std::any_of(p_.graph.updates.begin(), p_.graph.updates.end(),
                       [&](const Update& u) { return u.leaf == v; });
  }

  bool overlap(ValueId a, ValueId b) const {
    if (offset(a) == no_place || offset(b) == no_place) return false;
    return offset(a) < offset(b) + p_.graph.value(b).type.bytes() &&
           offset(b) < offset(a) + p_.graph.value(a).type.bytes();
  }

  bool may_share(NodeId writer, std::size_t r, NodeId reader, std::size_t o) const {
    const Node &to = p_.graph.node(writer), &from = p_.graph.node(reader);
    const ValueId result = to.results[r], operand = from.operands[o];
    if (offset(result) != offset(operand) || reader > writer) return false;
    if (from.op->is_alias) return o == 0;
    if (p_.graph.value(result).type != p_.graph.value(operand).type) return false;
    if (from.op->block) return true;
    return reader == writer && r < to.op->overwrites.size() && to.op->overwrites[r] == static_cast<int>(o) &&
           std::count(to.operands.begin(), to.operands.end(), operand) == 1;
  }

  template <class F>
  void for_each_grain(ValueId v, F use) {
    if (offset(v) == no_place) return;
    const std::int64_t end = offset(v) + p_.graph.value(v).type.bytes();
    if (offset(v) < 0 || end > p_.arena_bytes) return note("%" + name(v) + " lies outside the arena");
    for (std::int64_t b = offset(v); b < end; b += grain) use(owner_[static_cast<std::size_t>(b / grain)]);
  }

  /// Transfers that start here find their operands, and hold them from here on.
  void start_in_front_of(NodeId id) {
    for (NodeId step : p_.graph.node_ids()) {
      if (step < id || p_.starts.empty() || p_.starts[static_cast<std::size_t>(step.index)] != id) continue;
      if (step == id) continue;
      // What an alias in place will be is there before it.
      ValueId v = p_.graph.node(step).operands[0];
      for (const Node* from = &p_.graph.node(p_.graph.value(v).producer);
           p_.graph.value(v).producer >= id && from->op->is_alias && offset(v) == offset(from->operands[0]);
           from = &p_.graph.node(p_.graph.value(v).producer))
        v = from->operands[0];
      read(v, "wanted when " + p_.graph.name_of(step) + " starts");
      started_.push_back(step);
    }
  }

  /// A gather of a parameter in front of the update, or of the forward in the backward: it writes its result while it runs.
  bool is_ahead(const Node& step) const {
    if (step.op->step != StepKind::all_gather || step.phase == Phase::update) return false;
    if (step.phase > p_.graph.node(p_.graph.value(step.operands[0]).producer).phase) return true;
    const Node* from = &step;
    while (from->op->kind == OpKind::step || from->op->is_alias)
      from = &p_.graph.node(p_.graph.value(from->operands[0]).producer);
    return from->op->kind == OpKind::parameter;
  }

  /// While a transfer runs nobody writes its operand, and peers write the result of an all_reduce.
  void check_started(const Node& node) {
    if (node.op->is_alias && offset(node.results[0]) == offset(node.operands[0])) return;
    for (NodeId step : started_) {
      const Node& running = p_.graph.node(step);
      const bool is_sum = running.op->step == StepKind::all_reduce || is_ahead(running);
      for (ValueId v : node.results)
        if (overlap(v, running.operands[0]) || (is_sum && overlap(v, running.results[0])))
          note(fmt::format("%{} is written while %{} is on its way", name(v), name(running.results[0])));
      for (ValueId v : node.operands)
        if (is_sum && overlap(v, running.results[0]))
          note(fmt::format("%{} is read while %{} is on its way", name(v), name(running.results[0])));
    }
  }

  void write(ValueId v) {
    for_each_grain(v, [&](int& owner) { owner = content_[at(v)]; });
  }

  void read(ValueId v, const std::string& what) {
    for_each_grain(v, [&](int& owner) {
      if (owner != content_[at(v)])
        note(fmt::format("%{}, {}, was overwritten by %{}", name(v), what,
                         owner < 0 ? "nothing" : name(ValueId{owner})));
    });
  }

  void note(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
  }

  const Program& p_;
  std::vector<int> owner_;  // per grain of the arena the value written last
  std::vector<NodeId> started_;
  std::vector<int> content_;  // per value the one whose content it is: its own, or of what it is an alias
  std::string wrong_;
};

}  // namespace shardwright::testing
