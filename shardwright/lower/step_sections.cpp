#include "shardwright/lower/step_sections.h"

#include <algorithm>
#include <map>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

/// What crosses from update to update, by the value of a stage.
using UpdateCrossings = std::multimap<std::pair<int, ValueId>, int>;

}  // namespace

std::vector<std::vector<int>> update_rounds(const Pipeline& pipeline) {
  UpdateCrossings sends, receives;
  for (int i = 0; i < static_cast<int>(pipeline.crossings.size()); ++i) {
    const PlacedCrossing& c = pipeline.crossings[at(i)];
    if (c.time != CrossingTime::update) continue;
    sends.emplace(std::pair(c.from, c.sent), i);
    receives.emplace(std::pair(c.to, c.received), i);
  }
  std::vector<std::vector<int>> out;
  for (const Program& program : pipeline.stages) out.emplace_back(program.graph.nodes.size(), 0);
  std::vector<int> sent(pipeline.crossings.size(), -1);  // in the round before the first: with the backward
  // Rounds only grow, and by one for each crossing at most.
  for (bool goes_on = !sends.empty(); std::exchange(goes_on, false);)
    for (int s = 0; s < pipeline.stage_count(); ++s) {
      const Graph& graph = pipeline.stage(s).graph;
      int round = 0;
      for (NodeId id : graph.node_ids()) {
        const Node& node = graph.node(id);
        if (node.phase != Phase::update) continue;
        for (ValueId v : node.results) {
          const auto [r, r_end] = receives.equal_range({s, v});
          for (auto c = r; c != r_end; ++c) round = std::max(round, sent[at(c->second)] + 1);
          const auto [first, last] = sends.equal_range({s, v});
          for (auto c = first; c != last; ++c) {
            if (sent[at(c->second)] >= round) continue;
            sent[at(c->second)] = round;
            goes_on = true;
          }
        }
        require(round <= static_cast<int>(sent.size()), "updates of stages wait for one another");
        out[at(s)][at(id.index)] = round;
      }
    }
  return out;
}

SectionsOfStage::SectionsOfStage(const Pipeline& pipeline, int stage, int rank, const std::vector<End>& ends,
                                 TransfersOfRanks& transfers, RankStep& out)
    : program_(pipeline.stage(stage)),
      graph_(program_.graph),
      stage_(stage),
      ends_(ends),
      transfers_(transfers),
      out_(out) {
  for (const Fusion& fusion : fusions_of(graph_)) {
    prepare(fusion, rank);
    prepare_sends(fusion);
  }
  start_early();
}

std::vector<Instruction> SectionsOfStage::of(Phase phase, bool is_last) const {
  std::vector<Instruction> out;
  for (const Action& a : actions_)
    if (a.place == phase && (is_last || !a.only_last)) out.push_back({a.act, stage_, a.what, 0});
  return out;
}

bool SectionsOfStage::differs_in_last(Phase phase) const {
  return std::any_of(actions_.begin(), actions_.end(),
                     [phase](const Action& a) { return a.place == phase && a.only_last; });
}

std::vector<Instruction> SectionsOfStage::of_round(int round, const std::vector<int>& rounds) const {
  std::vector<Instruction> out;
  for (const Action& a : actions_)
    if (a.place == Phase::update && rounds[at(a.node.index)] == round)
      out.push_back({a.act, stage_, a.what, 0});
  return out;
}

SectionsOfStage::Action& SectionsOfStage::add(Act act, int what, NodeId node) {
  actions_.push_back({.act = act, .what = what, .node = node, .place = graph_.node(node).phase});
  return actions_.back();
}

void SectionsOfStage::prepare(const Fusion& fusion, int rank) {
  const Node& node = graph_.node(fusion.begin);
  const int first = fusion.begin.index;
  switch (node.op->kind) {
    case OpKind::compute:
      if (!node.op->is_alias)
        add(Act::compute, first, fusion.begin);
      else if (program_.offset(node.operands.front()) != program_.offset(node.results.front()))
        add(Act::copy, first, fusion.begin);
      return;
    case OpKind::step: return prepare_steps(fusion, rank);
    case OpKind::receive: return prepare_receive(node, fusion.begin);
    default: return;  // leaves stand in the arena
  }
}

void SectionsOfStage::prepare_receive(const Node& node, NodeId id) {
  const auto end = std::find_if(ends_.begin(), ends_.end(), [&](const End& e) {
    return !e.is_send && e.stage == stage_ && e.value == node.results.front();
  });
  if (end == ends_.end())
    add(Act::keep, id.index, id);  // this rank holds nothing of it
  else if (end->time != CrossingTime::step)
    add(Act::finish, end->transfer, id).crosses = true;
}

void SectionsOfStage::prepare_sends(const Fusion& fusion) {
  for (const End& end : ends_) {
    const bool is_of_stage = end.is_send && end.stage == stage_ && end.time != CrossingTime::step;
    if (!is_of_stage) continue;
    const NodeId producer = graph_.value(end.value).producer;
    if (producer < fusion.begin || producer >= fusion.end) continue;
    Action& a = add(Act::start, end.transfer, fusion.begin);
    a.crosses = true;
    a.only_last = end.time == CrossingTime::update && program_.micro_batches > 1 && a.place != Phase::update;
  }
}

void SectionsOfStage::prepare_steps(const Fusion& fusion, int rank) {
  PreparedTransfer transfer = transfers_.of_steps(stage_, fusion, rank);
  if (is_there(transfer, program_)) {
    add(Act::keep, fusion.begin.index, fusion.begin);
    return;
  }
  add(Act::finish, static_cast<int>(out_.transfers.size()), fusion.begin);
  out_.transfers.push_back(std::move(transfer));
}

NodeId SectionsOfStage::start_of(const Action& finish) const {
  return program_.starts.empty() ? finish.node : program_.starts[at(finish.node.index)];
}

void SectionsOfStage::start_early() {
  std::vector<std::vector<Action>> starts(graph_.nodes.size());
  for (const Action& a : actions_) {
    if (a.act != Act::finish || a.crosses) continue;
    const NodeId start = start_of(a);
    if (start == a.node) continue;
    Action early = a;
    early.act = Act::start;
    early.node = start;
    early.place = graph_.node(start).phase;
    early.only_last = early.place != a.place && program_.micro_batches > 1;
    starts[at(start.index)].push_back(early);
  }
  std::vector<Action> all;
  std::size_t next = 0;
  for (const Action& a : actions_) {
    for (; next <= at(a.node.index); ++next) all.insert(all.end(), starts[next].begin(), starts[next].end());
    if (a.act == Act::finish && !a.crosses && start_of(a) == a.node) {
      all.push_back(a);
      all.back().act = Act::start;
    }
    all.push_back(a);
  }
  actions_ = std::move(all);
}

}  // namespace shardwright
