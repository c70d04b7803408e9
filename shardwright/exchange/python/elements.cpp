#include "shardwright/exchange/python/elements.h"

#include <algorithm>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"

namespace shardwright::python {
namespace {

using OfStage = std::pair<int, ValueId>;

/// Makes elements of the items of sections.
class Builder {
 public:
  Builder(const Pipeline& pipeline, const TaskLists& lists, Steps steps)
      : pipeline_(pipeline), steps_(steps) {
    for (const auto& [key, items] : lists.sections)
      for (const Item& item : items)
        if (item.act == Act::compute)
          for (NodeId n : fusion_at(item.stage, item.what)) listed_.emplace(item.stage, n);
    for (const PlacedCrossing& c : pipeline.crossings)
      if (c.time == CrossingTime::step) there_.emplace(c.to, c.received);
  }

  std::vector<Element> build(Phase phase, const std::vector<Item>& items) {
    phase_ = phase;
    out_.clear();
    made_.clear();
    is_filled_ = phase != Phase::forward || items.empty() || items.front().act != Act::fill;
    for (int stage : stages_in(items)) add_ready_aliases(stage);
    for (const Item& item : items) {
      if (steps_ == Steps::in_functions && item.act == Act::start && !item.is_crossing) continue;
      if (is_of_function(item)) {
        add_nodes(item, fusion_at(item.stage, item.what));
      } else {
        out_.push_back({.item = item});
        Element& e = out_.back();
        e.reads = read_by(item);
        e.makes = made_by(item);
        for (ValueId v : e.makes) made_.emplace(item.stage, v);
        is_filled_ = is_filled_ || item.act == Act::fill;
      }
      add_ready_aliases(item.stage);
    }
    name_functions();
    return std::move(out_);
  }

 private:
  const Graph& graph(int stage) const { return pipeline_.stage(stage).graph; }

  std::vector<NodeId> fusion_at(int stage, int first) const {
    std::vector<NodeId> out{{first}};
    const Graph& g = graph(stage);
    for (int n = first + 1; n < static_cast<int>(g.nodes.size()) && g.nodes[at(n)].is_fused; ++n)
      out.push_back({n});
    return out;
  }

  static std::vector<int> stages_in(const std::vector<Item>& items) {
    std::set<int> out;
    for (const Item& item : items) out.insert(item.stage);
    return {out.begin(), out.end()};
  }

  bool is_of_function(const Item& item) const {
    return item.act == Act::compute ||
           (steps_ == Steps::in_functions && item.act == Act::finish && !item.is_crossing);
  }

  void add_nodes(const Item& item, const std::vector<NodeId>& nodes) {
    const Item of{.act = Act::compute, .stage = item.stage, .is_last = item.is_last};
    const Item* before = out_.empty() ? nullptr : &out_.back().item;
    if (before == nullptr || before->act != of.act || before->stage != of.stage ||
        before->is_last != of.is_last)
      out_.push_back({.item = of});
    for (NodeId n : nodes) {
      out_.back().nodes.push_back(n);
      for (ValueId v : graph(item.stage).node(n).results) made_.emplace(item.stage, v);
    }
  }

  bool is_there(int stage, ValueId v) const {
    const Node& producer = graph(stage).node(graph(stage).value(v).producer);
    if (producer.op->kind == OpKind::input) return is_filled_;
    return python::is_leaf(producer) || producer.phase != phase_ || there_.contains({stage, v}) ||
           made_.contains({stage, v});
  }

  /// What is its operand seen otherwise is in no list.
  void add_ready_aliases(int stage) {
    const Graph& g = graph(stage);
    for (NodeId n : g.node_ids()) {
      const Node& node = g.node(n);
      const bool is_meant = node.op->is_alias && node.phase == phase_ && !listed_.contains({stage, n});
      if (!is_meant || made_.contains({stage, node.results[0]}) || !is_there(stage, node.operands[0]))
        continue;
      add_nodes({.stage = stage}, {n});
    }
  }

  std::vector<ValueId> read_by(const Item& item) const {
    const Graph& g = graph(item.stage);
    std::vector<ValueId> out;
    if (item.act == Act::start && item.is_crossing) {
      const PlacedCrossing& c = pipeline_.crossings[at(item.what)];
      if (c.from == item.stage) out.push_back(c.sent);
    } else if (item.act == Act::start) {
      for (NodeId n : fusion_at(item.stage, item.what)) out.push_back(g.node(n).operands[0]);
    } else if (item.act == Act::replace) {
      for (const Update& u : g.updates)
        if (replaced_in(pipeline_.stage(item.stage), u) == static_cast<Phase>(item.what))
          out.push_back(u.value);
    } else if (item.act == Act::hand_out) {
      for (const auto& [value, name] : scalars_of(pipeline_, item.stage, static_cast<Phase>(item.what)))
        out.push_back(value);
    }
    return out;
  }

  std::vector<ValueId> made_by(const Item& item) const {
    const Graph& g = graph(item.stage);
    std::vector<ValueId> out;
    if (item.act == Act::fill) {
      for (const Node& node : g.nodes)
        if (node.op->kind == OpKind::input) out.push_back(node.results[0]);
    }
    if (item.act != Act::finish) return out;
    if (!item.is_crossing) {
      for (NodeId n : fusion_at(item.stage, item.what)) out.push_back(g.node(n).results[0]);
    } else if (const PlacedCrossing& c = pipeline_.crossings[at(item.what)]; c.to == item.stage) {
      out.push_back(c.received);
    }
    return out;
  }

  void name_functions() {
    std::map<int, int> count;
    for (Element& e : out_)
      if (e.item.act == Act::compute) e.name = fmt::format("{}_{}", name_of(phase_), count[e.item.stage]++);
  }

  const Pipeline& pipeline_;
  Steps steps_;
  std::set<std::pair<int, NodeId>> listed_;
  std::set<OfStage> there_;  // from before the first section
  Phase phase_ = Phase::forward;
  std::vector<Element> out_;
  std::set<OfStage> made_;
  bool is_filled_ = true;
};

/// What a function reads and makes, whoever reads it.
void set_reads_and_makes(const Graph& graph, Element& function) {
  std::set<ValueId> own, read;
  for (NodeId n : function.nodes) {
    for (ValueId v : graph.node(n).operands)
      if (!own.contains(v) && read.insert(v).second) function.reads.push_back(v);
    for (ValueId v : graph.node(n).results) {
      own.insert(v);
      function.makes.push_back(v);
    }
  }
}

/// Who reads which value of a stage, in the order of phases.
class Readers {
 public:
  Readers(const Pipeline& pipeline, int stage, Elements& elements)
      : pipeline_(pipeline),
        graph_(pipeline.stage(stage).graph),
        is_of_step_(elements.is_of_step[at(stage)]) {
    is_of_step_.assign(graph_.values.size(), false);
    for (auto& [key, list] : elements.sections)
      for (Element& e : list)
        if (e.item.stage == stage) of_[key.second].push_back(&e);
  }

  void settle() {
    for (std::size_t phase = 0; phase < phases; ++phase)
      for (Element* e : of_[static_cast<Phase>(phase)]) {
        if (e->item.act == Act::compute) set_reads_and_makes(graph_, *e);
        for (ValueId v : e->reads) last_[v] = e;
      }
    for (std::size_t phase = 0; phase < phases; ++phase)
      for (Element* e : of_[static_cast<Phase>(phase)]) settle(*e, static_cast<Phase>(phase));
    for (const PlacedCrossing& c : pipeline_.crossings)
      if (c.time == CrossingTime::step && &pipeline_.stage(c.to).graph == &graph_)
        is_of_step_[at(c.received.index)] = true;
  }

 private:
  void settle(Element& e, Phase phase) {
    std::erase_if(e.makes, [&](ValueId v) { return e.item.act == Act::compute && !last_.contains(v); });
    for (ValueId v : e.makes)
      if (phase == Phase::update) is_of_step_[at(v.index)] = true;
    for (ValueId v : e.reads) {
      const Node& producer = graph_.node(graph_.value(v).producer);
      if (python::is_leaf(producer)) continue;
      if (phase == Phase::update || e.item.is_last) is_of_step_[at(v.index)] = true;
      const bool can_drop = e.item.act == Act::compute || e.item.act == Act::start;
      if (can_drop && last_[v] == &e && !crosses_once(v)) e.dropped.push_back(v);
    }
  }

  bool crosses_once(ValueId v) const {
    return std::ranges::any_of(pipeline_.crossings, [&](const PlacedCrossing& c) {
      return c.time == CrossingTime::step && &pipeline_.stage(c.to).graph == &graph_ && c.received == v;
    });
  }

  const Pipeline& pipeline_;
  const Graph& graph_;
  std::vector<bool>& is_of_step_;
  OfPhases<std::vector<Element*>> of_;
  std::map<ValueId, Element*> last_;
};

}  // namespace

bool is_leaf(const Node& node) {
  return node.op->kind == OpKind::parameter || node.op->kind == OpKind::state ||
         node.op->kind == OpKind::accumulator;
}

std::vector<std::pair<ValueId, std::string>> scalars_of(const Pipeline& pipeline, int stage, Phase phase) {
  std::vector<std::pair<ValueId, std::string>> out;
  const Graph& graph = pipeline.stage(stage).graph;
  for (std::size_t o = 0; o < pipeline.outputs.size(); ++o) {
    if (pipeline.outputs[o].stage != stage) continue;
    const ValueId v = graph.outputs[at(pipeline.outputs[o].index)];
    if (handed_out_in(graph, v) == phase && graph.value(v).global_type().shape.empty())
      out.emplace_back(v, pipeline.output_name(o));
  }
  return out;
}

Elements elements_of(const Pipeline& pipeline, const TaskLists& lists, Steps steps) {
  Elements out;
  Builder builder(pipeline, lists, steps);
  for (const auto& [key, items] : lists.sections) out.sections[key] = builder.build(key.second, items);
  out.is_of_step.resize(pipeline.stages.size());
  for (int s = 0; s < pipeline.stage_count(); ++s) Readers(pipeline, s, out).settle();
  return out;
}

}  // namespace shardwright::python
