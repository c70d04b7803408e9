#include "shardwright/search/space/seeds.h"

#include <algorithm>
#include <optional>

#include "shardwright/base/index.h"
#include "shardwright/cost/compute.h"
#include "shardwright/graph/forward_operator.h"
#include "shardwright/graph/op.h"
#include "shardwright/layout/uneven.h"
#include "shardwright/search/planning/judge.h"

namespace shardwright::space {
namespace {

bool is_behind(const RuleTensor& tensor, int loop) {
  return std::ranges::any_of(tensor.dims,
                             [&](const auto& loops) { return std::ranges::count(loops, loop) > 0; });
}

/// Loop dims of a product of data and a parameter; -1: it has none such.
struct Product {
  int batch = -1;   // behind dim 0 of the data
  int column = -1;  // of the parameter and the result
  int row = -1;     // of both operands, summed
};

std::optional<Product> product_of(const Graph& graph, const Node& node, const Rule& rule) {
  if (work_kind(rule) != WorkKind::contraction || node.operands.size() < 2) return std::nullopt;
  const auto is_parameter = [&](ValueId v) {
    return graph.node(graph.value(v).producer).op->kind == OpKind::parameter;
  };
  const std::size_t weight = is_parameter(node.operands[1]) ? 1 : 0, data = 1 - weight;
  if (!is_parameter(node.operands[weight]) || is_parameter(node.operands[data])) return std::nullopt;
  Product out;
  for (int l = 0; l < static_cast<int>(rule.loops.size()); ++l) {
    const bool in_weight = is_behind(rule.operands[weight], l), in_data = is_behind(rule.operands[data], l);
    const bool in_result = is_behind(rule.results.front(), l);
    if (in_weight && in_result && !in_data && out.column < 0) out.column = l;
    if (in_weight && in_data && !in_result && out.row < 0) out.row = l;
  }
  if (const auto& dims = rule.operands[data].dims; !dims.empty() && !dims.front().empty())
    out.batch = dims.front().front();
  return out;
}

class Seeding {
 public:
  Seeding(const Problem& problem, const SearchOptions& options, const Mesh& mesh)
      : problem_(problem),
        options_(options),
        graph_(*problem.graph),
        mesh_(mesh),
        is_sharded_(graph_.values.size(), false) {}

  std::optional<FixedChoices> run() {
    FixedChoices out{.meshes = {mesh_}, .layouts = problem_.fixed.layouts};
    out.strategies.resize(graph_.nodes.size());
    out.reasons.resize(graph_.nodes.size());
    bool is_any = false;
    for (NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      if (!is_forward_operator(node)) continue;
      const bool reads_sharded =
          std::ranges::any_of(node.operands, [&](ValueId v) { return is_sharded_[at(v.index)]; });
      const Rule& rule = problem_.calls->rule(id);
      const auto product = product_of(graph_, node, rule);
      bool makes_sharded = reads_sharded;
      if (product) {
        const int loop = reads_sharded ? product->row : product->column;
        auto strategy = strategy_of(rule, *product, loop);
        if (strategy && (!options_.fully_use_devices || is_all_or_nothing(*strategy, mesh_))) {
          makes_sharded = !reads_sharded;
          out.strategies[at(id.index)] = std::move(strategy);
          out.reasons[at(id.index)] = reads_sharded ? "a start: rows of the parameter, after columns"
                                                    : "a start: columns of the parameter";
          is_any = true;
        }
      }
      for (ValueId v : node.results) is_sharded_[at(v.index)] = makes_sharded;
    }
    return is_any ? std::optional(std::move(out)) : std::nullopt;
  }

 private:
  /// `loop` over tp, and the batch over dp where that divides; nothing if `loop` cannot be.
  std::optional<Strategy> strategy_of(const Rule& rule, const Product& product, int loop) const {
    if (loop < 0) return std::nullopt;
    const int tensor = mesh_.axis_count() - 1;
    Strategy out = whole(rule);
    out.loops[at(loop)] = {tensor};
    if (violation_if_even(rule, out, mesh_)) return std::nullopt;
    if (tensor == 0 || product.batch < 0 || product.batch == loop) return out;
    Strategy with_batch = out;
    with_batch.loops[at(product.batch)] = {0};
    return violation_if_even(rule, with_batch, mesh_) ? out : with_batch;
  }

  const Problem& problem_;
  const SearchOptions& options_;
  const Graph& graph_;
  const Mesh mesh_;
  std::vector<bool> is_sharded_;  // per value: over tp
};

}  // namespace

bool is_free(const Problem& problem) {
  const FixedChoices& fixed = problem.fixed;
  return std::ranges::all_of(fixed.layouts, [](const auto& l) { return l.second.is_replicated(); }) &&
         std::ranges::none_of(fixed.strategies, [](const auto& s) { return s.has_value(); });
}

SearchResult whole_plan(const Problem& problem) {
  SearchResult out{.status = SearchStatus::feasible};
  out.choices.resize(problem.graph->nodes.size());
  for (NodeId id : problem.graph->node_ids())
    if (is_forward_operator(problem.graph->node(id)))
      out.choices[at(id.index)] = {whole(problem.calls->rule(id)), "nothing is split"};
  return out;
}

std::vector<FixedChoices> column_row_seeds(const Problem& problem, const SearchOptions& options) {
  std::vector<FixedChoices> out;
  const int devices = problem.fixed.meshes.front().size();
  for (int tensor = 2; tensor <= devices; ++tensor) {
    if (devices % tensor) continue;
    Mesh mesh;
    if (tensor < devices) mesh.axes.push_back({"dp", devices / tensor});
    mesh.axes.push_back({"tp", tensor});
    if (auto seed = Seeding(problem, options, mesh).run()) out.push_back(*std::move(seed));
  }
  return out;
}

SearchResult held_against_known(const Problem& problem, const SearchOptions& options, SearchResult found,
                                std::size_t most_of_large,
                                const std::function<SearchResult(const FixedChoices& seed)>& spread) {
  // What follows a point-wise operator is the search's own matter.
  if (!problem.judge || !is_free(problem) || problem.parameters_stay_whole || options.elementwise_follow ||
      problem.fixed.meshes.front().size() == 1 || (is_large(problem) && most_of_large == 0))
    return found;
  Evaluation of_best = problem.judge->evaluate(found);
  std::vector<std::string> log = std::move(found.log);
  const auto consider = [&](SearchResult other, const std::string& what) {
    const Evaluation e = problem.judge->evaluate(other);
    if (!is_better(e, of_best)) return;
    if (options.writes_log)
      log.push_back(fmt::format("{}: {:.4g} s in place of {:.4g} s", what, e.estimate.step_seconds(),
                                of_best.estimate.step_seconds()));
    found = std::move(other);
    of_best = e;
  };
  consider(whole_plan(problem), "nothing split");
  std::vector<FixedChoices> seeds = column_row_seeds(problem, options);
  if (is_large(problem) && seeds.size() > most_of_large) seeds.resize(most_of_large);
  for (const FixedChoices& seed : seeds)
    if (!options.deadline.is_over())
      consider(spread(seed), fmt::format("products split column, row on {}", to_text(seed.meshes.front())));
  found.log = std::move(log);
  return found;
}

}  // namespace shardwright::space
