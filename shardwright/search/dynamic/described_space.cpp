#include "shardwright/search/dynamic/described_space.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"
#include "shardwright/search/dynamic/described_candidates.h"
#include "shardwright/search/space/axes.h"
#include "shardwright/search/space/candidates.h"
#include "shardwright/search/space/tables.h"

namespace shardwright::dynamic {
namespace {

using space::CutPart;
using space::CutUse;
using space::CutValue;

FixedChoices on_prime_axes(const Problem& problem) {
  const FixedChoices& asked = problem.fixed;
  return space::on_finer_mesh(
      asked, space::names_axes(asked) ? asked.meshes[0] : space::link_mesh(*problem.cluster));
}

/// Each of `spreads` by its place among those that differ.
std::vector<int> numbered(const std::vector<Spread>& spreads, std::vector<const Spread*>& different) {
  std::map<Spread, int> known;
  std::vector<int> out;
  for (const Spread& s : spreads) {
    const auto [it, is_new] = known.try_emplace(s, static_cast<int>(different.size()));
    if (is_new) different.push_back(&s);
    out.push_back(it->second);
  }
  return out;
}

}  // namespace

DescribedSpace::DescribedSpace(const Problem& problem, const SearchOptions& options, const Extent& extent)
    : problem_(&problem),
      options_(&options),
      fixed_(on_prime_axes(problem)),
      cuts_(*problem.graph, *problem.calls, space::fold_of(problem, extent.folds), fixed_),
      weights_(cost_weights(*problem.cluster)) {
  mark_involved();
  const auto is_late = [&] {
    is_complete_ = is_complete_ && !extent.deadline.is_over();
    return !is_complete_;
  };
  const double approximation =
      std::max(options.approximates ? options.approximation : 0, 1.0 / extent.most_strategies);
  for (int p = 0; p < cuts_.size() && !is_late(); ++p) add_part(p, approximation);
  for (const CutValue& v : cuts_.values())
    if (!is_late()) collect_moves(v);
  for (const Move& move : moves_)
    if (!is_late()) add_moves(move);
}

Placed DescribedSpace::placed(int p, int choice) const {
  const CutPart& part = cuts_.part(p);
  const Strategy& strategy = strategies_[at(p)][at(choice)];
  return {.graph = problem_->graph,
          .node = part.example,
          .rule = part.rule,
          .strategy = &strategy,
          .mesh = &fixed_.meshes[at(strategy.mesh)],
          .devices = problem_->cluster->devices()};
}

DescribedCost DescribedSpace::own_cost(int p, int choice) const {
  return dynamic::cost_of(placed(p, choice));
}

// ---- operators ----

void DescribedSpace::add_part(int p, double approximation) {
  const CutPart& part = cuts_.part(p);
  auto& strategies =
      strategies_.emplace_back(described_candidates(*problem_, fixed_, part.example, *part.rule, *options_));
  if (static_cast<double>(strategies.size()) * approximation > 1) {
    std::vector<double> cost;
    for (int i = 0; i < static_cast<int>(strategies.size()); ++i) cost.push_back(weights_.of(own_cost(p, i)));
    auto some = space::approximated(strategies, cost, approximation);
    is_exact_ = is_exact_ && some.size() == strategies.size();
    strategies = std::move(some);
  }
  const int count = static_cast<int>(strategies.size());
  const int variable = cost_.add_variable(count);
  auto& bytes = bytes_.emplace_back();
  for (int i = 0; i < count; ++i) {
    cost_.single(variable)[at(i)] = part.count * weights_.of(own_cost(p, i));
    bytes.push_back(part.count * memory(p, i));
  }
}

/// The backward reads only what a parameter has had a part in, and what it is multiplied with.
void DescribedSpace::mark_involved() {
  const Graph& graph = *problem_->graph;
  is_involved_.assign(graph.values.size(), false);
  first_reader_.resize(graph.values.size());
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    bool is_involved = node.op->kind == OpKind::parameter;
    for (ValueId v : node.operands) {
      is_involved = is_involved || is_involved_[at(v.index)];
      if (!first_reader_[at(v.index)].is_valid()) first_reader_[at(v.index)] = id;
    }
    for (ValueId v : node.results) is_involved_[at(v.index)] = is_involved;
  }
}

/// Leaves that the backward needs, each where it is first read, and results that it keeps.
double DescribedSpace::memory(int p, int choice) const {
  const Placed here = placed(p, choice);
  const Node& node = problem_->graph->node(here.node);
  if (!is_involved_[at(node.results.front().index)]) return 0;
  double out = 0;
  for (std::size_t i = 0; i < node.operands.size(); ++i)
    if (cuts_.part_of(problem_->graph->value(node.operands[i]).producer) < 0 &&
        first_reader_[at(node.operands[i].index)] == here.node)
      out += operand_bytes(here, static_cast<int>(i));
  for (std::size_t i = 0; i < node.results.size(); ++i) out += result_bytes(here, static_cast<int>(i));
  return out;
}

// ---- redistributions ----

Spread DescribedSpace::spread(const Layout& layout, const Strategy* strategy) const {
  return spread_of(reduced(without_halo(layout)), fixed_.meshes[at(strategy ? strategy->mesh : layout.mesh)],
                   strategy ? used_axes(*strategy) : Axes());
}

std::vector<Spread> DescribedSpace::operand_spreads(const CutUse& use) const {
  std::vector<Spread> out;
  for (const Strategy& s : strategies_[at(use.part)])
    out.push_back(spread(layouts_of(*cuts_.part(use.part).rule, s).operands[at(use.operand)], &s));
  return out;
}

std::vector<Spread> DescribedSpace::result_spreads(const CutValue& v) const {
  std::vector<Spread> out;
  for (const Strategy& s : strategies_[at(v.producer)])
    out.push_back(spread(layouts_of(*cuts_.part(v.producer).rule, s).results[at(v.result)], &s));
  return out;
}

void DescribedSpace::collect_moves(const CutValue& v) {
  if (v.producer < 0) return add_leaf_moves(v);
  const Type& type = problem_->graph->value(v.example).type;
  const std::vector<Spread> has = result_spreads(v);
  if (v.asked) {
    // Read and lie as asked: from there on the value is like a leaf.
    const std::vector<Spread> asked{spread(*v.asked, nullptr)};
    moves_.push_back({v.producer, -1, has, asked, type, v.count});
    for (const CutUse& use : v.uses)
      moves_.push_back({-1, use.part, asked, operand_spreads(use), type, use.count});
    return;
  }
  for (const CutUse& use : v.uses)
    moves_.push_back({v.producer, use.part, has, operand_spreads(use), type, use.count,
                      space::is_followed(*problem_, *options_, v)});
}

void DescribedSpace::add_leaf_moves(const CutValue& v) {
  const Type& type = problem_->graph->value(v.example).type;
  if (v.is_parameter && !v.asked) return add_parameter(v);
  if (!v.asked && problem_->graph->node(problem_->graph->value(v.example).producer).op->kind != OpKind::input)
    return;
  const Layout lies = v.asked ? *v.asked : replicated(type.shape.size());
  for (const CutUse& use : v.uses)
    moves_.push_back({-1, use.part, {spread(lies, nullptr)}, operand_spreads(use), type, use.count});
}

/// One reader takes it as it wants; of several each moves it from where it lies, which is as one of them wants it.
void DescribedSpace::add_parameter(const CutValue& v) {
  if (v.uses.size() < 2) return;
  std::vector<Spread> ways;
  for (const CutUse& use : v.uses)
    for (const Spread& s : operand_spreads(use)) ways.push_back(s);
  std::ranges::sort(ways);
  const auto same = std::ranges::unique(ways);
  ways.erase(same.begin(), same.end());
  const int variable = cost_.add_variable(static_cast<int>(ways.size()));
  for (const CutUse& use : v.uses)
    moves_.push_back(
        {variable, use.part, ways, operand_spreads(use), problem_->graph->value(v.example).type, use.count});
}

DescribedCost DescribedSpace::cost_of(const Move& move, const Spread& has, const Spread& wants) const {
  if (move.is_followed && has.dims != wants.dims) return {.computation = forbidden_cost};
  DescribedCost out = cost_of_moving(has, wants, move.type);
  out.computation *= move.count;
  out.forward *= move.count;
  return out;
}

void DescribedSpace::add_moves(const Move& move) {
  std::vector<const Spread*> from, to;
  const std::vector<int> has = numbered(move.has, from), wants = numbered(move.wants, to);
  std::vector<double> prices;
  for (const Spread* a : from)
    for (const Spread* b : to) prices.push_back(weights_.of(cost_of(move, *a, *b)));
  std::vector<double> table;
  for (int i : has)
    for (int j : wants) table.push_back(prices[at(i) * to.size() + at(j)]);
  if (move.from >= 0 && move.to >= 0) return cost_.add(move.from, move.to, table);
  const std::span<double> single = cost_.single(std::max(move.from, move.to));
  for (std::size_t j = 0; j < table.size(); ++j) single[j] += table[j];
}

// ---- sums ----

DescribedCost DescribedSpace::total(std::span<const int> chosen) const {
  DescribedCost out;
  const auto add = [&out](const DescribedCost& c, double count) {
    out.computation += count * c.computation;
    out.forward += count * c.forward;
    out.backward += count * c.backward;
  };
  for (int p = 0; p < cuts_.size(); ++p) add(own_cost(p, chosen[at(p)]), cuts_.part(p).count);
  const auto choice = [&](int variable) { return variable < 0 ? 0 : at(chosen[at(variable)]); };
  for (const Move& move : moves_)
    add(cost_of(move, move.has[choice(move.from)], move.wants[choice(move.to)]), 1);
  return out;
}

double DescribedSpace::total_bytes(std::span<const int> chosen) const {
  double out = 0;
  for (std::size_t p = 0; p < bytes_.size(); ++p) out += bytes_[p][at(chosen[p])];
  return out;
}

}  // namespace shardwright::dynamic
