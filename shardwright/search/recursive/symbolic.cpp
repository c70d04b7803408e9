#include "shardwright/search/recursive/symbolic.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "shardwright/base/index.h"
#include "shardwright/cost/compute.h"
#include "shardwright/graph/op.h"
#include "shardwright/layout/rule_dims.h"

namespace shardwright::recursive {
namespace {

// Constants of the described system.
constexpr double replicate_below = 25;
constexpr double redistribution_weight = 16;
constexpr double impossible = std::numeric_limits<double>::max();
constexpr int least_devices_by_weight = 33;
constexpr std::int64_t most_micro_batch_by_weight = 8;
constexpr std::size_t most_described_dims = 4;

bool has_window(const Rule& rule, int loop) {
  for (const RuleTensor& tensor : rule.operands)
    for (std::size_t d = 0; d < tensor.windows.size(); ++d)
      if (tensor.windows[d].loop > 0 && tensor.dims[d].front() == loop) return true;
  return false;
}

/// Also one whose windows are single elements: its weight has dims for them, which are never cut.
bool is_convolution(const Rule& rule) {
  constexpr std::size_t dims_of_a_matrix = 2;
  if (work_kind(rule) == WorkKind::convolution) return true;
  const std::vector<std::vector<int>>& dims = rule.operands[1].dims;
  return dims.size() > dims_of_a_matrix && !dims.back().empty() &&
         rule.loops[at(dims.back().front())].stays_whole();
}

/// The role of a loop dim in y = a b.
std::string role_of(const Rule& rule, int loop) {
  if (!has_loop(rule.results[0], loop)) return "K";
  if (!has_loop(rule.operands[0], loop)) return "J";
  return has_loop(rule.operands[1], loop) ? "Batch" : "I";
}

bool has_batch(const Rule& rule) {
  for (int l = 0; l < static_cast<int>(rule.loops.size()); ++l)
    if (role_of(rule, l) == "Batch") return true;
  return false;
}

bool has_many_dims(const Graph& graph, const Node& node) {
  const auto is_large = [&](ValueId v) { return graph.value(v).type.shape.size() > most_described_dims; };
  return std::any_of(node.operands.begin(), node.operands.end(), is_large) ||
         std::any_of(node.results.begin(), node.results.end(), is_large);
}

/// Samples in a micro-batch: dim 0 of the first input is the batch.
std::int64_t micro_batch(const Graph& graph, int micro_batches) {
  for (const Node& node : graph.nodes) {
    const Shape& shape = graph.value(node.results.front()).type.shape;
    if (node.op->kind == OpKind::input && !shape.empty()) return shape[0] / std::max(1, micro_batches);
  }
  return 1;
}

/// The tensor is as it was before the first cut.
bool is_uncut(double elements, const Shape& shape) {
  return elements == static_cast<double>(element_count(shape));
}

/// A main operator's result, seen through the operators between.
struct Reached {
  NodeId main;
  std::vector<int> dim_of;  // per dim of the value at hand
};

/// Per dim of `to` the dim of `from` with the same first loop dim.
std::vector<int> dims_between(const RuleTensor& from, const RuleTensor& to) {
  std::vector<int> out(to.dims.size(), -1);
  for (std::size_t d = 0; d < to.dims.size(); ++d)
    for (std::size_t e = 0; e < from.dims.size(); ++e)
      if (!to.dims[d].empty() && !from.dims[e].empty() && to.dims[d].front() == from.dims[e].front())
        out[d] = static_cast<int>(e);
  return out;
}

/// Itself, seen from itself.
Reached whole_value(const Graph& graph, ValueId v) {
  Reached out{graph.value(v).producer, {}};
  for (std::size_t d = 0; d < graph.value(v).type.shape.size(); ++d)
    out.dim_of.push_back(static_cast<int>(d));
  return out;
}

bool is_of_one_main(const Reached& a, const Reached& b) { return a.main == b.main; }

std::vector<int> composed(const std::vector<int>& outer, const std::vector<int>& inner) {
  std::vector<int> out;
  for (int d : outer) out.push_back(d < 0 || d >= static_cast<int>(inner.size()) ? -1 : inner[at(d)]);
  return out;
}

}  // namespace

std::vector<std::string> told(const std::string& node, const std::vector<CutCost>& costs,
                              std::size_t chosen) {
  std::vector<std::string> out{fmt::format("------------Node_name: {} -------------", node)};
  std::string names, values;
  for (const CutCost& c : costs) {
    const bool is_whole = c.loop == no_loop_dim && c.name.empty();
    names += is_whole ? "no_cut" : c.name + "-axis/";
    values +=
        fmt::format("{}{:.6g}", values.empty() ? "" : ", ", c.own >= impossible ? impossible : c.total());
    if (c.own >= impossible) continue;
    const std::string how = is_whole ? "do NOT cut the axis" : fmt::format("the {}-axis is cut", c.name);
    out.push_back(
        fmt::format("If {}, the op-cost is {:.6g}, the rest-cost is {:.6g}, and the total cost is {:.6g}",
                    how, c.own, c.redistribution, c.total()));
  }
  out.push_back(fmt::format("The costs of cutting the {} are : [const vector]{{{}}}", names, values));
  const CutCost& best = costs[chosen];
  out.push_back(best.name.empty() ? "Choose NOT to cut"
                                  : fmt::format("The {}-axis is chosen to cut", best.name));
  return out;
}

SymbolicCosts::SymbolicCosts(const CutProblem& problem, int devices, const SearchOptions& options)
    : options_(options), edges_of_(problem.parts().size()) {
  reads_all_ = options.is_described && options.order != SearchOrder::automatic;
  const bool weighs_ever = !reads_all_ || devices >= least_devices_by_weight;
  is_by_weight_ = (options.order == SearchOrder::weight && weighs_ever) ||
                  (options.order == SearchOrder::automatic && devices >= least_devices_by_weight &&
                   micro_batch(problem.graph(), options.micro_batches) < most_micro_batch_by_weight);
  collect_mains(problem);
  in_order_.assign(mains_.rbegin(), mains_.rend());
  if (reads_all_) {
    data_ = only_data(problem.graph());
    if (data_) data_cuts_.emplace(problem.graph().value(*data_).type.shape);
    in_order_ = reading_order(problem, mains_, data_);
  }
  collect_edges(problem);
}

void SymbolicCosts::collect_mains(const CutProblem& problem) {
  for (int p = 0; p < problem.size(); ++p) {
    const CutPart& part = problem.part(p);
    if (work_kind(*part.rule) == WorkKind::streaming || part.is_elsewhere) continue;
    const Node& node = problem.graph().node(part.example);
    if (options_.is_described && (has_batch(*part.rule) || has_many_dims(problem.graph(), node))) continue;
    mains_.push_back(p);
  }
}

void SymbolicCosts::collect_edges(const CutProblem& problem) {
  const std::size_t most_reached = reads_all_ ? problem.graph().nodes.size() : 2;  // the nearest
  const Graph& graph = problem.graph();
  std::vector<bool> is_main(problem.parts().size(), false);
  for (int p : mains_) is_main[at(p)] = true;
  std::vector<std::vector<Reached>> reached(graph.values.size());
  if (data_) reached[at(data_->index)] = {whole_value(graph, *data_)};
  for (NodeId id : graph.node_ids()) {
    const int p = problem.part_of(id);
    if (p < 0) continue;
    const Node& node = graph.node(id);
    const Rule& rule = *problem.part(p).rule;
    if (is_main[at(p)]) {
      for (std::size_t i = 0; problem.part(p).example == id && i < node.operands.size(); ++i)
        for (const Reached& r : reached[at(node.operands[i].index)])
          add_edge({problem.part_of(r.main), p, static_cast<int>(i), r.dim_of});
      reached[at(node.results[0].index)] = {whole_value(graph, node.results[0])};
      continue;
    }
    std::vector<Reached> all;
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      for (const Reached& r : reached[at(node.operands[i].index)])
        all.push_back({r.main, composed(dims_between(rule.operands[i], rule.results[0]), r.dim_of)});
    std::stable_sort(all.begin(), all.end(),
                     [](const Reached& a, const Reached& b) { return b.main < a.main; });
    if (reads_all_) all.erase(std::unique(all.begin(), all.end(), is_of_one_main), all.end());
    if (all.size() > most_reached) all.resize(most_reached);
    reached[at(node.results[0].index)] = std::move(all);
  }
}

void SymbolicCosts::add_edge(Edge edge) {
  for (int end : {edge.user, edge.producer})
    if (end != data_part) edges_of_[at(end)].push_back(static_cast<int>(edges_.size()));
  edges_.push_back(std::move(edge));
}

std::vector<CutCost> SymbolicCosts::own_costs(const CutProblem& problem, int p, const Halving& halving,
                                              const std::vector<int>& choices) const {
  const CutPart& part = problem.part(p);
  const Rule& rule = *part.rule;
  const Graph& graph = problem.graph();
  const Node& node = graph.node(part.example);
  const double share = (halving.parts - 1.0) / halving.parts;
  const bool slides = is_convolution(rule);
  const auto cost_of = [&](int loop) {
    double cost = 0;
    for (std::size_t i = 0; i < rule.operands.size(); ++i) {
      if (has_loop(rule.operands[i], loop) || !rule.operands[i].is_sharded) continue;
      const bool is_parameter =
          graph.node(graph.value(node.operands[i]).producer).op->kind == OpKind::parameter;
      const bool is_weighed = options_.is_described ? i == 1 && !slides : is_parameter;
      cost +=
          share * problem.operand_elements(p, static_cast<int>(i)) * (is_weighed ? options_.mem_coeff : 1);
    }
    if (!has_loop(rule.results[0], loop)) cost += share * problem.result_elements(p, 0);
    return cost;
  };
  const auto is_forbidden = [&](int loop) {  // the described system never cuts both J and K
    if (!options_.is_described) return false;
    const std::string role = role_of(rule, loop), other = role == "J" ? "K" : role == "K" ? "J" : "";
    for (int l = 0; l < static_cast<int>(rule.loops.size()); ++l)
      if (!other.empty() && role_of(rule, l) == other && part.parts[at(l)] > 1) return true;
    return false;
  };
  const auto is_left_out = [&](int l) {  // a convolution is cut by its batch alone
    const std::vector<int>& batch = rule.operands[0].dims.front();
    return options_.is_described && slides && (batch.empty() || l != batch.front());
  };
  std::vector<CutCost> out;
  double least = impossible;
  for (const char* role : {"Batch", "I", "J", "K"}) {
    CutCost cost{.name = role, .own = impossible};
    bool exists = false;
    for (int l = 0; l < static_cast<int>(rule.loops.size()); ++l) {
      if (role_of(rule, l) != role || has_window(rule, l) || rule.loops[at(l)].stays_whole() ||
          is_left_out(l))
        continue;
      exists = true;
      if (options_.is_described) least = std::min(least, cost_of(l));  // whether or not it can be cut
      const bool can = std::find(choices.begin(), choices.end(), l) != choices.end() && !is_forbidden(l);
      if (!can || cost.own < impossible) continue;  // the first that can be cut stands for the role
      cost.loop = l;
      cost.own = cost_of(l);
    }
    if (exists) out.push_back(cost);
    least = std::min(least, cost.own);
  }
  const bool may_stay = std::find(choices.begin(), choices.end(), no_loop_dim) != choices.end();
  const double whole = least < impossible ? least * least / replicate_below : 0;
  out.push_back({.name = "", .own = may_stay || least == impossible ? whole : impossible});
  return out;
}

bool SymbolicCosts::is_charged(const CutProblem& problem, const Edge& edge, double elements) const {
  if (!options_.is_described) return true;
  const Graph& graph = problem.graph();
  const ValueId value =
      edge.producer == data_part ? *data_ : graph.node(problem.part(edge.producer).example).results[0];
  const Node& user = graph.node(problem.part(edge.user).example);
  const Shape& made = graph.value(value).type.shape;
  const Shape& read = graph.value(user.operands[at(edge.operand)]).type.shape;
  // As the seeds have it, an operator's own part is compared with the neighbour's whole tensor: once one is cut, moving is
  // free.
  return made == read && (reads_all_ || is_uncut(elements, made));
}

Cut SymbolicCosts::made_cut(const CutProblem& problem, const Edge& edge, int loop) const {
  const Cut result = problem.result_cut(edge.producer, 0, loop);
  if (reads_all_) return std::max(result, not_cut);
  for (std::size_t d = 0; d < edge.dim_of.size(); ++d)
    if (result >= 0 && edge.dim_of[d] == result) return static_cast<Cut>(d);
  return not_cut;
}

double SymbolicCosts::redistribution(const CutProblem& problem, int p, int loop,
                                     const Decided& decided) const {
  double cost = 0;
  for (int e : edges_of_[at(p)]) {
    const Edge& edge = edges_[at(e)];
    const int other = edge.producer == p ? edge.user : edge.producer;
    if (other == p || (other == data_part ? !decided.data : !decided.loops[at(other)])) continue;
    const double elements =
        edge.user == p ? problem.operand_elements(p, edge.operand) : problem.result_elements(p, 0);
    if (!is_charged(problem, edge, elements)) continue;
    const Cut has = other == data_part
                        ? *decided.data
                        : made_cut(problem, edge, edge.producer == p ? loop : *decided.loops[at(other)]);
    const int user_loop = edge.user == p ? loop : *decided.loops[at(other)];
    if (has == problem.operand_cut(edge.user, edge.operand, user_loop)) continue;
    cost += redistribution_weight * elements;
  }
  return cost;
}

Cut SymbolicCosts::cut_data(const CutProblem& problem, const Halving& halving, const Decided& decided) {
  std::vector<Cut> readers;
  for (const Edge& edge : edges_)
    if (edge.producer == data_part && decided.loops[at(edge.user)] && is_charged(problem, edge, 0))
      readers.push_back(problem.operand_cut(edge.user, edge.operand, *decided.loops[at(edge.user)]));
  return data_cuts_->cut(readers, halving.parts);
}

std::vector<int> SymbolicCosts::order(const CutProblem& problem, const Halving& halving,
                                      const std::vector<std::vector<int>>& choices) const {
  std::vector<int> out = in_order_;
  if (!is_by_weight_) return out;
  std::vector<double> weight(problem.parts().size(), 0);
  for (int p : mains_)
    for (const CutCost& c : own_costs(problem, p, halving, choices[at(p)]))
      if (c.own < impossible && !c.name.empty()) weight[at(p)] = std::max(weight[at(p)], c.own);
  const auto weight_of = [&](int p) { return p == data_part ? 0 : weight[at(p)]; };
  std::stable_sort(out.begin(), out.end(), [&](int a, int b) { return weight_of(a) > weight_of(b); });
  return out;
}

std::vector<SymbolicCosts::Decision> SymbolicCosts::decide(const CutProblem& problem, const Halving& halving,
                                                           const std::vector<std::vector<int>>& choices) {
  Decided decided{.loops = std::vector<std::optional<int>>(problem.parts().size()), .data = {}};
  if (!options_.is_described)
    for (int p : mains_)
      if (problem.part(p).fixed) decided.loops[at(p)] = choices[at(p)].front();
  std::vector<Decision> out;
  for (int p : order(problem, halving, choices)) {
    if (p == data_part) {
      decided.data = cut_data(problem, halving, decided);
      continue;
    }
    Decision d{.part = p, .costs = own_costs(problem, p, halving, choices[at(p)])};
    for (CutCost& c : d.costs)
      if (c.own < impossible) c.redistribution = redistribution(problem, p, c.loop, decided);
    for (std::size_t i = 0; i < d.costs.size(); ++i) {
      const double least = d.costs[d.chosen].own >= impossible ? impossible : d.costs[d.chosen].total();
      if (d.costs[i].own < impossible && d.costs[i].total() < least) d.chosen = i;
    }
    decided.loops[at(p)] = d.costs[d.chosen].loop;
    out.push_back(std::move(d));
  }
  return out;
}

}  // namespace shardwright::recursive
