// A micro-batch is cut into parts: the network of a part stands in the program as often as there are parts, whose nodes take
// turns (passes/part_turns.h), so that the transfers of one are on their way while another computes.
//
// It is what the program is for one part, and of three kinds of nodes. What no part changes, a gathered weight, stands there
// once, where the first needs it. What adds up gradients stands there once, behind the last part, and adds up those of all:
//
//   %w.accumulated = sum %w.accumulator, %dw        %w.accumulated = sum %w.accumulator, %dw, %dw/1
//
// so that the loss and its gradients are those of as many micro-batches as there are parts; where a gradient is reduced
// before it is added up, it is the sum of all parts that is. All else each part does for itself. A state that the forward
// moves on is read by a part as the one before has left it.
//
// It runs behind the passes that choose and join nodes, which see one part, and before memory is shared out: places, early
// starts and all that reads a program know nothing of parts. Only inputs, outputs and what crosses between stages have to
// know whose they are (Program::parts).

#include <algorithm>
#include <map>
#include <unordered_set>

#include "shardwright/autodiff/accumulate.h"
#include "shardwright/base/index.h"
#include "shardwright/cost/kernel_work.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/rewrite.h"
#include "shardwright/lower/kept_leaves.h"
#include "shardwright/ops/calls.h"
#include "shardwright/passes/optimize.h"
#include "shardwright/passes/part_turns.h"

namespace shardwright {
namespace {

/// Who does what a node does.
enum class Doer : std::uint8_t { first, each, last };

class Interleaving {
 public:
  Interleaving(Program program, const PassContext& context)
      : program_(std::move(program)),
        graph_(program_.graph),
        context_(context),
        parts_(program_.interleave),
        next_of_(graph_.values.size()),
        doers_(graph_.nodes.size(), Doer::first),
        is_summed_(graph_.values.size(), false),
        values_(at(parts_), std::vector<ValueId>(graph_.values.size())),
        nodes_(at(parts_), std::vector<NodeId>(graph_.nodes.size())) {
    out_.level = graph_.level;
    out_.meshes = graph_.meshes;
    for (const Value& v : graph_.values) names_.insert(v.name);
  }

  Program run() {
    for (const Update& u : graph_.updates)
      if (is_moved(u)) next_of_[at(u.leaf.index)] = u.value;
    for (NodeId id : graph_.node_ids()) doers_[at(id.index)] = doer_of(graph_.node(id));
    reduce_together();
    const std::vector<Fusion> fusions = fusions_of(graph_);
    for (std::size_t begin = 0, end = 0; begin < fusions.size(); begin = end) {
      while (end < fusions.size() && phase_of(fusions[end]) == phase_of(fusions[begin])) ++end;
      add_phase(std::span(fusions).subspan(begin, end - begin));
    }
    finish();
    program_.graph = std::move(out_);
    return std::move(program_);
  }

 private:
  const Node& producer(ValueId v) const { return graph_.node(graph_.value(v).producer); }
  Doer doer_of(ValueId v) const { return doers_[at(graph_.value(v).producer.index)]; }
  Phase phase_of(const Fusion& f) const { return graph_.node(f.begin).phase; }

  /// A state that goes from part to part; accumulators add up all parts at once.
  bool is_moved(const Update& u) const {
    return producer(u.value).phase != Phase::update && producer(u.leaf).op->kind == OpKind::state;
  }

  Doer doer_of(const Node& node) const {
    const OpKind kind = node.op->kind;
    if (kind == OpKind::input) return Doer::each;
    if (kind == OpKind::receive && !is_kept_leaf(node))
      return node.phase == Phase::update ? Doer::last : Doer::each;
    if (is_leaf(node)) return Doer::first;
    Doer out = node.phase == Phase::update || is_accumulation(graph_, node) ? Doer::last : Doer::first;
    for (ValueId v : node.operands)
      out = std::max(
          out, next_of_[at(v.index)].is_valid() && node.phase != Phase::update ? Doer::each : doer_of(v));
    return out;
  }

  /// Steps that are of nobody but what adds up gradients are done once, of the sum of all parts.
  void reduce_together() {
    const Users users = users_of(graph_);
    const std::vector<bool> is_held = held_values(graph_);
    for (NodeId id{static_cast<int>(graph_.nodes.size()) - 1}; id.is_valid(); --id.index) {
      const Node& node = graph_.node(id);
      if (node.op->kind != OpKind::step || doers_[at(id.index)] != Doer::each || !is_backward(node.phase))
        continue;
      if (node.operands.size() > 1) continue;  // rows of each part go their own way
      const ValueId result = node.results.front();
      const std::span<const NodeId> readers = users[at(result.index)];
      const bool is_added_up = !readers.empty() && std::ranges::all_of(readers, [&](NodeId reader) {
        return doers_[at(reader.index)] == Doer::last;
      });
      if (is_added_up && !is_held[at(result.index)] && may_be_added_up(node.operands.front()))
        doers_[at(id.index)] = Doer::last;
    }
    for (NodeId id : graph_.node_ids())
      if (const Node& node = graph_.node(id);
          node.op->kind == OpKind::step && doers_[at(id.index)] == Doer::last)
        if (const ValueId v = node.operands.front(); doer_of(v) == Doer::each) is_summed_[at(v.index)] = true;
  }

  bool may_be_added_up(ValueId v) const {
    const Value& value = graph_.value(v);
    return value.layout->max.empty() && !value.layout->has_halo() && value.format.is_row_major();
  }

  // ---- the order ----

  void add_phase(std::span<const Fusion> fusions) {
    if (phase_of(fusions.front()) == Phase::update) {
      for (const Fusion& f : fusions) add(f, 0, true);
      return;
    }
    std::vector<PartItem> items;
    std::map<NodeId, int> item_of;  // by first node
    for (const Fusion& f : fusions) {
      items.push_back(item_of_fusion(f, item_of));
      for (NodeId id = f.begin; id < f.end; ++id.index) item_of[id] = static_cast<int>(items.size()) - 1;
    }
    for (const Turn& turn : part_turns(items, parts_))
      add(fusions[at(turn.item)], turn.part, turn.part + 1 == parts_);
  }

  PartItem item_of_fusion(const Fusion& f, const std::map<NodeId, int>& item_of) {
    PartItem out;
    for (NodeId id = f.begin; id < f.end; ++id.index) {
      const Node& node = graph_.node(id);
      const Doer doer = doers_[at(id.index)];
      double& seconds = doer == Doer::each    ? out.seconds
                        : doer == Doer::first ? out.first_seconds
                                              : out.last_seconds;
      if (!is_transfer(node)) seconds += compute_seconds_of(node);
      if (!is_transfer(node) || doer != Doer::each) continue;
      out.transfer_seconds += redistribution_of(graph_, node, context_.redistributor).seconds;
      const auto made = item_of.find(graph_.value(node.operands.front()).producer);
      if (made != item_of.end()) out.operand = std::max(out.operand, made->second);
    }
    return out;
  }

  double compute_seconds_of(const Node& node) const {
    if (context_.cluster) return kernel_seconds(graph_, node, *context_.cluster);
    return node.op->kind == OpKind::compute && !node.op->is_alias ? 1 : 0;
  }

  // ---- the nodes ----

  /// What `part` does of a fusion. Behind the last part's own stands what adds up: it may run together with that.
  void add(const Fusion& f, int part, bool is_last) {
    if (part == 0) add_those_of(f, part, Doer::first, false);
    bool is_behind = phase_of(f) != Phase::update && add_those_of(f, part, Doer::each, false);
    for (NodeId id = f.begin; id < f.end && is_last; ++id.index)
      for (ValueId v : graph_.node(id).results)
        if (is_summed_[at(v.index)]) add_sum(v), is_behind = false;
    if (is_last) add_those_of(f, phase_of(f) == Phase::update ? 0 : part, Doer::last, is_behind);
  }

  /// Whether there are any. `is_behind`: the node above is of the same fusion.
  bool add_those_of(const Fusion& f, int part, Doer of, bool is_behind) {
    bool has_any = false;
    for (NodeId id = f.begin; id < f.end; ++id.index) {
      if (doers_[at(id.index)] != of) continue;
      Node& node = out_.node(add_node(id, part));
      node.is_fused = node.is_fused && is_behind;
      is_behind = has_any = true;
    }
    return has_any;
  }

  ValueId of_part(ValueId v, int part) const {
    const ValueId moved = next_of_[at(v.index)];
    return moved.is_valid() && part > 0 ? values_[at(part - 1)][at(moved.index)]
                                        : values_[at(part)][at(v.index)];
  }

  NodeId add_node(NodeId id, int part) {
    Node node = graph_.node(id);
    const Doer doer = doers_[at(id.index)];
    node.operands.clear();
    for (ValueId v : graph_.node(id).operands) {
      if (doer != Doer::last) {
        node.operands.push_back(of_part(v, part));
        continue;
      }
      if (is_summed_[at(v.index)] && node.op->kind == OpKind::step) {
        node.operands.push_back(sums_.at(v));
        continue;
      }
      const bool is_added_up = is_accumulation(graph_, graph_.node(id)) && v != graph_.node(id).operands[0] &&
                               doer_of(v) != Doer::last;
      require(is_added_up || doer_of(v) != Doer::each, "%{} differs between parts of a micro-batch",
              graph_.value(v).name);
      for (int p = 0; p < (is_added_up ? parts_ : 1); ++p)
        node.operands.push_back(values_[at(p)][at(v.index)]);
    }
    const NodeId fresh{static_cast<int>(out_.nodes.size())};
    if (node.forward.is_valid()) node.forward = nodes_[at(part)][at(node.forward.index)];
    for (ValueId& v : node.results) v = add_value(v, fresh, part, doer);
    for (int p = 0; p < parts_; ++p)
      if (doer != Doer::each || p == part) nodes_[at(p)][at(id.index)] = fresh;
    out_.nodes.push_back(std::move(node));
    return fresh;
  }

  ValueId add_value(ValueId of, NodeId producer, int part, Doer doer) {
    Value v = graph_.value(of);
    v.producer = producer;
    if (doer == Doer::each && part > 0) v.name = free_name(fmt::format("{}/{}", v.name, part));
    for (ValueId& forward : v.gradient_of) forward = values_[at(part)][at(forward.index)];
    const ValueId fresh{static_cast<int>(out_.values.size())};
    out_.values.push_back(std::move(v));
    for (int p = 0; p < parts_; ++p)
      if (doer != Doer::each || p == part) values_[at(p)][at(of.index)] = fresh;
    return fresh;
  }

  /// Of `v` of all parts, as it lies.
  void add_sum(ValueId v) {
    const Layout layout = *graph_.value(v).layout;
    Node node{.op = &sum_op(), .operands = {}, .results = {v}, .attributes = {}, .phase = producer(v).phase};
    node.owner = producer(v).owner;
    for (int part = 0; part < parts_; ++part) node.operands.push_back(values_[at(part)][at(v.index)]);
    Value sum = graph_.value(v);
    sum.name = free_name(sum.name + "/all");
    sum.producer = {static_cast<int>(out_.nodes.size())};
    sum.result = 0;
    for (ValueId& forward : sum.gradient_of) forward = values_[0][at(forward.index)];
    node.results = {{static_cast<int>(out_.values.size())}};
    out_.values.push_back(std::move(sum));
    const Rule rule = rule_of(out_, node);
    Strategy strategy = whole(rule);
    for (std::size_t d = 0; d < layout.dims.size(); ++d)
      strategy.loops[at(rule.results[0].dims[d][0])] = layout.dims[d];
    strategy.linear[0] = layout.sum;
    strategy.mesh = layout.mesh;
    require(layouts_of(rule, strategy).results[0] == layout, "%{} cannot be added up as it lies",
            graph_.value(v).name);
    node.strategy = std::move(strategy);
    sums_.emplace(v, node.results.front());
    out_.nodes.push_back(std::move(node));
  }

  std::string free_name(std::string name) {
    while (!names_.insert(name).second) name += '_';
    return name;
  }

  // ---- what is seen outside ----

  void finish() {
    const auto add_all = [&](const std::vector<ValueId>& from, std::vector<ValueId>& to) {
      for (int part = 0; part < parts_; ++part)
        for (ValueId v : from) {
          const ValueId own = values_[at(part)][at(v.index)];
          if (part == 0 || own != values_[0][at(v.index)]) to.push_back(own);
          note_part(v, part);
        }
    };
    for (NodeId id : graph_.node_ids())
      if (const OpKind kind = graph_.node(id).op->kind; kind == OpKind::input || kind == OpKind::receive)
        for (int part = 1; part < parts_; ++part) note_part(graph_.node(id).results.front(), part);
    add_all(graph_.outputs, out_.outputs);
    add_all(graph_.sends, out_.sends);
    for (const Update& u : graph_.updates)
      out_.updates.push_back({values_[0][at(u.leaf.index)], values_[at(parts_ - 1)][at(u.value.index)]});
  }

  /// If it is not shared by all.
  void note_part(ValueId v, int part) {
    const PartValue p{values_[0][at(v.index)], part, values_[at(part)][at(v.index)]};
    if (p.of != p.value && !program_.is_of_further_part(p.value)) program_.parts.push_back(p);
  }

  Program program_;
  const Graph graph_;  // of one part
  const PassContext& context_;
  int parts_;
  std::vector<ValueId> next_of_;  // by value: of a state what it holds for the next part
  std::vector<Doer> doers_;       // by node
  std::vector<bool> is_summed_;   // by value: steps take the sum of all parts
  Graph out_;
  std::vector<std::vector<ValueId>> values_;  // by part and value
  std::vector<std::vector<NodeId>> nodes_;    // by part and node
  std::map<ValueId, ValueId> sums_;           // of a value of all parts
  std::unordered_set<std::string> names_;
};

}  // namespace

Program interleave_parts(Program program, const PassContext& context) {
  if (program.interleave == 1) return program;
  return Interleaving(std::move(program), context).run();
}

}  // namespace shardwright
