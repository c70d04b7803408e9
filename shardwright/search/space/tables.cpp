#include "shardwright/search/space/tables.h"

#include <algorithm>
#include <map>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"
#include "shardwright/layout/plain_way.h"
#include "shardwright/ops/row_updates.h"
#include "shardwright/search/space/candidates.h"

namespace shardwright::space {
namespace {

/// A redistribution is searched in tenths of a millisecond: of more pairs of strategies the plain way is priced.
constexpr double most_searched = 3e4;

/// Layouts that differ, and which of them each choice has.
struct Ends {
  std::vector<Layout> layouts;
  std::vector<int> of;  // per choice

  void add(const Layout& layout) {
    const auto it = std::ranges::find(layouts, layout);
    of.push_back(static_cast<int>(it - layouts.begin()));
    if (it == layouts.end()) layouts.push_back(layout);
  }
};

/// An operand's gradient as the backward makes it: over axes that split the work but not the operand it is partial.
Layout gradient_layout(const Layout& operand, const Strategy& strategy) {
  Layout out = without_halo(operand);
  out.sum = used_axes(strategy).without(out.used()).sorted();
  if (!out.sum.empty()) out.mesh = strategy.mesh;
  return out;
}

/// What the update of a table reads of its gradient.
struct GradientRows {
  Rule rule;
  RowOperands at;
  Type rows, ids;
};

class Tables {
 public:
  Tables(const Problem& problem, const CutProblem& cuts, const FixedChoices& fixed, const PartCosts& costs,
         const SearchOptions& options)
      : problem_(problem),
        cuts_(cuts),
        fixed_(fixed),
        costs_(costs),
        options_(options),
        redistributor_(redistributor_for(fixed.meshes, *problem.cluster)),
        mesh_cost_(mesh_cost(*problem.cluster, fixed.meshes[0])),
        gradient_types_(problem.graph->values.size()) {}

  ChoiceTables run() {
    out_.accumulates = costs_.accumulates();
    collect_gradient_types();
    collect_rows();
    for (int p = 0; p < cuts_.size(); ++p) add_part(p);
    for (const CutValue& v : cuts_.values()) {
      type_ = problem_.graph->value(v.example).type;
      gradient_type_ = v.has_gradient ? gradient_types_[at(v.example.index)] : type_;
      if (v.producer < 0)
        add_leaf(v);
      else
        add_value(v);
    }
    return std::move(out_);
  }

 private:
  void collect_rows() {
    const Graph& graph = *problem_.graph;
    for (const Node& node : graph.nodes)
      if (updates_rows(node)) {
        const RowOperands read = *row_operands(node);
        const auto type = [&](std::size_t i) { return graph.value(node.operands[i]).type; };
        rows_.emplace(node.operands[0],
                      GradientRows{rule_of(graph, node), read, type(read.rows), type(read.ids)});
      }
  }

  /// The last gradient that the backward makes of a value is the one that moves.
  void collect_gradient_types() {
    for (const Value& v : problem_.graph->values)
      for (ValueId of : v.gradient_of) gradient_types_[at(of.index)] = v.type;
  }

  std::vector<double> compute_of(int p, const std::vector<Strategy>& strategies) {
    std::vector<double> out;
    for (const Strategy& s : strategies) {
      cuts_.set(p, s, fixed_.meshes[at(s.mesh)]);
      out.push_back(costs_.compute(cuts_, p, no_loop_dim, {}));
    }
    return out;
  }

  void add_part(int p) {
    const CutPart part = cuts_.part(p);
    auto& strategies = out_.strategies.emplace_back(
        candidates_of(problem_, fixed_, part.example, *part.rule, options_, whole_strategies));
    if (options_.approximates)
      strategies = approximated(strategies, compute_of(p, strategies), options_.approximation);
    const int variable = out_.seconds.add_variable(static_cast<int>(strategies.size()));
    auto& compute = out_.compute.emplace_back();
    auto& bytes = out_.bytes.emplace_back();
    auto& held = out_.held.emplace_back();
    auto& layouts = layouts_.emplace_back();
    pairs_ += static_cast<double>(strategies.size() * strategies.size());
    for (const Strategy& s : strategies) {
      layouts.push_back(layouts_of(*part.rule, s));
      cuts_.set(p, s, fixed_.meshes[at(s.mesh)]);
      compute.push_back(part.count * costs_.compute(cuts_, p, no_loop_dim, {}));
      PartCosts::Held all;
      all.add(costs_.memory(cuts_, p, no_loop_dim, {}), part.count);
      bytes.push_back(all.all());
      held.push_back(all);
    }
    out_.gradients.emplace_back(strategies.size(), 0);
    std::ranges::copy(compute, out_.seconds.single(variable).begin());
  }

  // ---- ends ----

  std::size_t choices(int part) const { return layouts_[at(part)].size(); }

  Ends results(const CutValue& v) const {
    Ends out;
    for (const NodeLayouts& l : layouts_[at(v.producer)]) out.add(l.results[at(v.result)]);
    return out;
  }
  Ends operands(const CutUse& use) const {
    Ends out;
    for (const NodeLayouts& l : layouts_[at(use.part)]) out.add(l.operands[at(use.operand)]);
    return out;
  }
  Ends gradients(const CutUse& use) const {
    Ends out;
    for (std::size_t i = 0; i < choices(use.part); ++i)
      out.add(gradient_layout(layouts_[at(use.part)][i].operands[at(use.operand)],
                              out_.strategies[at(use.part)][i]));
    return out;
  }

  double moved(const Layout& from, const Layout& to) { return moved(from, to, type_); }
  double gradient_moved(const Layout& from, const Layout& to) { return moved(from, to, gradient_type_); }
  double moved(const Layout& from, const Layout& to, const Type& type) {
    if (from == to) return 0;
    const bool is_plain = !from.has_halo() && !to.has_halo() && from.mesh == 0 && to.mesh == 0 &&
                          from.max.empty() && to.max.empty();
    return is_plain && has_many_pairs() ? plain_seconds(from, to, type, fixed_.meshes[0], mesh_cost_)
                                        : redistributor_.find(from, to, type).seconds;
  }
  bool has_many_pairs() const { return pairs_ > most_searched; }

  /// Seconds from each layout of `from` to each of `to`.
  template <class F>
  static std::vector<double> matrix(const Ends& from, const Ends& to, F price) {
    std::vector<double> out;
    for (const Layout& a : from.layouts)
      for (const Layout& b : to.layouts) out.push_back(price(a, b));
    return out;
  }

  // ---- leaves ----

  void add_leaf(const CutValue& v) {
    if (v.uses.empty()) return;
    const CutUse& first = v.uses.front();
    if (const auto it = rows_.find(v.example); it != rows_.end()) add_rows(first, it->second);
    if (v.has_gradient) {
      const Ends gradient = gradients(first), lies = operands(first);
      for (std::size_t i = 0; i < choices(first.part); ++i) {
        const double seconds =
            gradient_moved(gradient.layouts[at(gradient.of[i])],
                           v.asked ? *v.asked : without_halo(lies.layouts[at(lies.of[i])]));
        out_.gradients[at(first.part)][i] += first.count * seconds;
      }
    }
    if (v.asked)
      for (const CutUse& use : v.uses) add_asked(v, use);
    for (std::size_t u = 1; u < v.uses.size(); ++u) add_other_user(v, first, v.uses[u]);
  }

  /// A table that is updated by rows: wherever it lies, each device gets all of the batch's rows that it may have, and their ids.
  void add_rows(const CutUse& use, const GradientRows& rows) {
    for (std::size_t i = 0; i < choices(use.part); ++i) {
      const NodeLayouts& lies = layouts_[at(use.part)][i];
      const auto seconds = [&](Layout from, const RuleTensor& wanted, const Type& type) {
        from = without_halo(reduced(from));
        Layout to = from;
        for (std::size_t d = 0; d < wanted.dims.size() && d < to.dims.size(); ++d)
          if (rows.rule.loops[at(wanted.dims[d][0])].stays_whole()) to.dims[d] = {};
        return moved(from, to, type);
      };
      double all = seconds(lies.results[0], rows.rule.operands[rows.at.rows], rows.rows);
      all += seconds(lies.operands.back(), rows.rule.operands[rows.at.ids], rows.ids);
      out_.gradients[at(use.part)][i] += use.count * all;
    }
  }

  /// Moves a leaf from where its first user has it, unless it lies as asked, and the gradient to where that one's is.
  void add_other_user(const CutValue& v, const CutUse& first, const CutUse& other) {
    const Ends lies = operands(first), wants = operands(other);
    const Ends summed = gradients(first), gradient = gradients(other);
    const auto there =
        matrix(lies, wants, [&](const Layout& a, const Layout& b) { return moved(without_halo(a), b); });
    std::vector<double> back;
    if (v.has_gradient)
      back = matrix(gradient, summed, [&](const Layout& a, const Layout& b) { return gradient_moved(a, b); });
    std::vector<double> table;
    for (std::size_t i = 0; i < choices(first.part); ++i)
      for (std::size_t j = 0; j < choices(other.part); ++j) {
        double seconds = v.asked ? 0 : there[at(lies.of[i]) * wants.layouts.size() + at(wants.of[j])];
        if (v.has_gradient) seconds += back[at(gradient.of[j]) * summed.layouts.size() + at(summed.of[i])];
        table.push_back(seconds * other.count);
      }
    out_.seconds.add(first.part, other.part, table);
  }

  void add_asked(const CutValue& v, const CutUse& use) {
    const Ends wants = operands(use);
    for (std::size_t i = 0; i < choices(use.part); ++i)
      out_.seconds.single(use.part)[i] += use.count * moved(*v.asked, wants.layouts[at(wants.of[i])]);
  }

  // ---- values between parts ----

  void add_value(const CutValue& v) {
    double reads = 0;
    for (const CutUse& use : v.uses) reads += use.count;
    if (v.uses.empty() && !v.asked)
      add_unread(v);
    else if (v.asked || reads > v.count)
      add_shared(v);
    else
      for (const CutUse& use : v.uses) add_read_once(v, use);
  }

  void add_unread(const CutValue& v) {
    const Ends has = results(v);
    for (std::size_t i = 0; i < has.of.size(); ++i) {
      const Layout& layout = has.layouts[at(has.of[i])];
      out_.seconds.single(v.producer)[i] += v.count * moved(layout, reduced(layout));
    }
  }

  void add_read_once(const CutValue& v, const CutUse& use) {
    const Ends has = results(v), wants = operands(use), gradient = gradients(use);
    const auto there = matrix(has, wants, [&](const Layout& a, const Layout& b) {
      return moved(a, b) +
             (is_followed(problem_, options_, v) && without_halo(b) != reduced(a) ? forbidden_seconds : 0);
    });
    std::vector<double> back;
    if (v.has_gradient)
      back = matrix(gradient, has,
                    [&](const Layout& a, const Layout& b) { return gradient_moved(a, reduced(b)); });
    std::vector<double> table;
    for (int i : has.of)
      for (std::size_t j = 0; j < wants.of.size(); ++j) {
        double seconds = there[at(i) * wants.layouts.size() + at(wants.of[j])];
        if (v.has_gradient) seconds += back[at(gradient.of[j]) * has.layouts.size() + at(i)];
        table.push_back(seconds * use.count);
      }
    out_.seconds.add(v.producer, use.part, table);
  }

  /// How all find a value, and what its gradients are when they are added.
  struct Form {
    Layout lies, gradient;
    bool operator==(const Form&) const = default;
  };

  std::vector<Form> forms_of(const CutValue& v, const Ends& has) const {
    if (v.asked) return {{*v.asked, *v.asked}};
    std::vector<Form> out;
    const auto offer = [&](Form form) {
      if (std::ranges::find(out, form) == out.end()) out.push_back(std::move(form));
    };
    for (const Layout& layout : has.layouts) offer({reduced(layout), reduced(layout)});
    for (const CutUse& use : v.uses) {
      for (const Layout& layout : operands(use).layouts) offer({without_halo(layout), without_halo(layout)});
      if (!v.has_gradient) continue;
      for (const Layout& layout : gradients(use).layouts)
        if (layout.is_partial()) offer({reduced(layout), layout});
    }
    return out;
  }

  void add_shared(const CutValue& v) {
    const Ends has = results(v);
    const std::vector<Form> forms = forms_of(v, has);
    const int hub = out_.seconds.add_variable(static_cast<int>(forms.size()));
    const auto from_producer = [&](const Layout& layout, const Form& form) {
      double seconds = moved(layout, form.lies);
      if (v.has_gradient) seconds += gradient_moved(form.gradient, reduced(layout));
      return v.count * seconds +
             (is_followed(problem_, options_, v) && form.lies != reduced(layout) ? forbidden_seconds : 0);
    };
    const auto to_user = [&](const Form& form, const Layout& wants, const Layout& gradient) {
      double seconds = moved(form.lies, wants);
      if (v.has_gradient) seconds += gradient_moved(gradient, form.gradient);
      return seconds +
             (is_followed(problem_, options_, v) && without_halo(wants) != form.lies ? forbidden_seconds : 0);
    };
    add_table(v.producer, hub, has.of, forms.size(),
              [&](int i, std::size_t f) { return from_producer(has.layouts[at(i)], forms[f]); });
    for (const CutUse& use : v.uses) {
      // Choices that lie alike and whose gradients do cost alike.
      const Ends wants = operands(use), gradient = gradients(use);
      std::vector<int> pair_of;
      for (std::size_t j = 0; j < wants.of.size(); ++j)
        pair_of.push_back(wants.of[j] * static_cast<int>(gradient.layouts.size()) + gradient.of[j]);
      add_table(use.part, hub, pair_of, forms.size(), [&](int pair, std::size_t f) {
        const int n = static_cast<int>(gradient.layouts.size());
        return use.count * to_user(forms[f], wants.layouts[at(pair / n)], gradient.layouts[at(pair % n)]);
      });
    }
  }

  /// Adds a table over a part, whose choices are of kinds `kind_of`, and a shared value.
  template <class F>
  void add_table(int part, int hub, const std::vector<int>& kind_of, std::size_t forms, F price) {
    std::vector<std::vector<double>> rows(at(*std::ranges::max_element(kind_of) + 1));
    std::vector<double> table;
    for (int kind : kind_of) {
      if (rows[at(kind)].empty())
        for (std::size_t f = 0; f < forms; ++f) rows[at(kind)].push_back(price(kind, f));
      table.insert(table.end(), rows[at(kind)].begin(), rows[at(kind)].end());
    }
    out_.seconds.add(part, hub, table);
  }

  const Problem& problem_;
  CutProblem cuts_;
  const FixedChoices& fixed_;
  const PartCosts& costs_;
  const SearchOptions& options_;
  Redistributor redistributor_;
  const MeshCost mesh_cost_;
  double pairs_ = 0;                               // of each part its strategies squared
  std::vector<Type> gradient_types_;               // by value
  std::map<ValueId, GradientRows> rows_;           // by table
  std::vector<std::vector<NodeLayouts>> layouts_;  // per part and choice
  Type type_, gradient_type_;                      // of the value at hand
  ChoiceTables out_;
};

}  // namespace

TableSum ChoiceTables::weighted(const CutWeights& weights) const {
  TableSum out = seconds;
  for (std::size_t p = 0; p < strategies.size(); ++p)
    for (std::size_t i = 0; i < strategies[p].size(); ++i)
      out.single(static_cast<int>(p))[i] +=
          weights.gradients * gradients[p][i] + weights.memory * bytes[p][i];
  return out;
}

std::vector<int> ChoiceTables::with_best_shared(std::vector<int> chosen) const {
  for (int v = static_cast<int>(strategies.size()); v < seconds.size(); ++v) {
    const std::vector<double> along = seconds.along(v, chosen);
    chosen[at(v)] = static_cast<int>(std::ranges::min_element(along) - along.begin());
  }
  return chosen;
}

CutTotals ChoiceTables::totals(std::span<const int> chosen) const {
  CutTotals out;
  PartCosts::Held all;
  for (std::size_t p = 0; p < strategies.size(); ++p) {
    out.compute += compute[p][at(chosen[p])];
    out.gradients += gradients[p][at(chosen[p])];
    all.add(held[p][at(chosen[p])], 1);
  }
  PartCosts::set_memory(out, all, accumulates);
  out.activations = seconds.value(chosen) - out.compute;
  return out;
}

ChoiceTables choice_tables(const Problem& problem, const CutProblem& cuts, const FixedChoices& fixed,
                           const PartCosts& costs, const SearchOptions& options) {
  return Tables(problem, cuts, fixed, costs, options).run();
}

CutProblem decided(const CutProblem& cuts, const ChoiceTables& tables, std::span<const int> chosen,
                   const FixedChoices& fixed) {
  CutProblem out = cuts;
  for (int p = 0; p < cuts.size(); ++p) {
    const Strategy& s = tables.strategies[at(p)][at(chosen[at(p)])];
    out.set(p, s, fixed.meshes[at(s.mesh)]);
  }
  return out;
}

}  // namespace shardwright::space
