#include "shardwright/search/recursive/cut_tables.h"

#include "shardwright/base/index.h"

#include <algorithm>

namespace shardwright::recursive {
namespace {

/// Of what must not be.
constexpr double forbidden = 1e6;

Cut reduced(Cut cut) { return cut == partial_cut ? not_cut : cut; }

Cut asked_cut(const CutValue& v, int axis) {
  for (std::size_t d = 0; v.asked->mesh == 0 && d < v.asked->dims.size(); ++d)
    if (v.asked->dims[d].contains(axis)) return static_cast<Cut>(d);
  return not_cut;
}

/// The cut stays in a dim that a more major axis has left or come to.
bool is_disordered(Cut from, Cut to, std::uint32_t moved) {
  return from == to && from >= 0 && (moved >> from & 1U);
}

std::uint32_t dims_of_move(Cut from, Cut to) {
  std::uint32_t out = 0;
  for (Cut cut : {from, to})
    if (from != to && cut >= 0) out |= 1U << cut;
  return out;
}

class Tables {
 public:
  Tables(const CutProblem& problem, std::vector<std::vector<int>> choices, const CutPrices& prices,
         const CutHistory& before)
      : problem_(problem), prices_(prices), before_(before) {
    out_.choices = std::move(choices);
    out_.shared.assign(problem.values().size(), -1);
    out_.forms.resize(problem.values().size());
  }

  CutTables run() {
    for (std::size_t p = 0; p < problem_.parts().size(); ++p) add_part(static_cast<int>(p));
    for (value_ = 0; value_ < problem_.values().size(); ++value_) {
      const CutValue& v = problem_.values()[value_];
      element_bytes_ = static_cast<double>(size_of(problem_.graph().value(v.example).type.dtype));
      if (v.producer < 0)
        add_leaf(v);
      else if (!problem_.part(v.producer).is_elsewhere)
        add_value(v);
    }
    return std::move(out_);
  }

 private:
  /// How one end of an edge may have it, per choice.
  struct End {
    std::vector<Cut> cuts;
    std::vector<Cut> gradients;  // of users
    double bytes = 0;
  };

  const std::vector<int>& loops(int part) const { return out_.choices[at(part)]; }

  void add_part(int p) {
    const int v = out_.sum.add_variable(static_cast<int>(loops(p).size()));
    for (std::size_t i = 0; i < loops(p).size(); ++i)
      out_.sum.single(v)[i] = prices_.own(p, loops(p)[i]) * problem_.part(p).count;
  }

  End user_end(const CutUse& use) const {
    End end;
    for (int l : loops(use.part)) {
      end.cuts.push_back(problem_.operand_cut(use.part, use.operand, l));
      end.gradients.push_back(problem_.gradient_cut(use.part, use.operand, l));
    }
    end.bytes = problem_.operand_elements(use.part, use.operand) * element_bytes_;
    return end;
  }

  End producer_end(const CutValue& v) const {
    End end;
    for (int l : loops(v.producer)) end.cuts.push_back(problem_.result_cut(v.producer, v.result, l));
    end.bytes = problem_.result_elements(v.producer, v.result) * element_bytes_;
    return end;
  }

  Joined joined(std::size_t way, const CutEnds& ends) const {
    return before_[value_][way].last == ends ? Joined::yes : Joined::no;
  }
  Joined forward(std::size_t way, const CutEnds& ends) const {
    return is_disordered(ends.from, ends.to, before_[value_][way].moved) ? Joined::reorders
                                                                         : joined(way, ends);
  }
  Joined backward(std::size_t way, const CutEnds& ends) const {
    return is_disordered(ends.gradient, ends.from, before_[value_][way].moved_gradient) ? Joined::reorders
                                                                                        : joined(way, ends);
  }

  // ---- leaves ----

  /// A leaf lies as asked, or as its first user wants it; other users move it, and their gradients to the first's.
  void add_leaf(const CutValue& v) {
    if (v.uses.empty() || problem_.part(v.uses.front().part).is_elsewhere) return;
    if (v.asked) {
      add_asked(v);
      return;
    }
    const End first = user_end(v.uses.front());
    const auto single = out_.sum.single(v.uses.front().part);
    for (std::size_t i = 0; i < first.cuts.size() && (v.has_gradient || v.gives_rows); ++i) {
      const CutEnds ends{first.cuts[i], first.cuts[i], first.gradients[i]};
      single[i] += prices_.reduce(v, first.gradients[i], joined(1, ends)) * v.uses.front().count;
    }
    for (std::size_t u = 1; u < v.uses.size(); ++u) add_other_user(v, u, first);
  }

  void add_other_user(const CutValue& v, std::size_t u, const End& first) {
    if (problem_.part(v.uses[u].part).is_elsewhere) return;
    const End other = user_end(v.uses[u]);
    const MovePrices moves = prices_.moves(std::max(first.bytes, other.bytes));
    table_.clear();
    for (std::size_t i = 0; i < first.cuts.size(); ++i)
      for (std::size_t j = 0; j < other.cuts.size(); ++j) {
        const Joined join = joined(1 + u, {first.cuts[i], other.cuts[j], other.gradients[j]});
        double price = moves.of(first.cuts[i], other.cuts[j], join);
        if (v.has_gradient && other.gradients[j] != first.gradients[i])
          price += moves.of(other.gradients[j], first.cuts[i], join);
        table_.push_back(price * v.uses[u].count);
      }
    out_.sum.add(v.uses.front().part, v.uses[u].part, table_);
  }

  void add_asked(const CutValue& v) {
    const Cut from = asked_cut(v, prices_.axis);
    for (std::size_t u = 0; u < v.uses.size(); ++u) {
      const End end = user_end(v.uses[u]);
      const MovePrices moves = prices_.moves(end.bytes);
      const auto single = out_.sum.single(v.uses[u].part);
      for (std::size_t i = 0; i < end.cuts.size(); ++i)
        single[i] += way_price(1 + u, {from, end.cuts[i], end.gradients[i]}, moves) * v.uses[u].count;
    }
  }

  // ---- values between parts ----

  /// Of one way, forward and, where there is a gradient, back.
  double way_price(std::size_t way, const CutEnds& ends, const MovePrices& moves) const {
    double price = moves.of(ends.from, ends.to, forward(way, ends));
    if (has_gradient()) price += moves.of(ends.gradient, reduced(ends.from), backward(way, ends));
    return price;
  }
  bool has_gradient() const { return problem_.values()[value_].has_gradient; }

  void add_value(const CutValue& v) {
    const End from = producer_end(v);
    if (v.uses.empty() && !v.asked) {
      const MovePrices moves = prices_.moves(from.bytes);
      const auto single = out_.sum.single(v.producer);
      for (std::size_t i = 0; i < from.cuts.size(); ++i) {
        const CutEnds ends{from.cuts[i], reduced(from.cuts[i]), not_cut};
        single[i] += moves.of(ends.from, ends.to, joined(0, ends)) * v.count;
      }
      return;
    }
    double reads = 0;
    for (const CutUse& use : v.uses) reads += use.count;
    if (v.asked || reads > v.count)
      add_shared(v, from);
    else
      add_read_once(v, from);
  }

  void add_read_once(const CutValue& v, const End& from) {
    for (std::size_t u = 0; u < v.uses.size(); ++u) {
      const CutUse& use = v.uses[u];
      if (problem_.part(use.part).is_elsewhere) continue;
      const End to = user_end(use);
      const MovePrices moves = prices_.moves(std::max(from.bytes, to.bytes));
      const bool is_followed = prices_.is_followed(v);
      table_.clear();
      for (Cut has : from.cuts)
        for (std::size_t j = 0; j < to.cuts.size(); ++j) {
          double price = way_price(1 + u, {has, to.cuts[j], to.gradients[j]}, moves);
          if (is_followed && to.cuts[j] != reduced(has)) price += forbidden;
          table_.push_back(price * use.count);
        }
      out_.sum.add(v.producer, use.part, table_);
    }
  }

  std::vector<SharedForm> shared_forms(const CutValue& v, const End& from,
                                       const std::vector<End>& ends) const {
    if (v.asked) return {{asked_cut(v, prices_.axis), false}};
    std::vector<SharedForm> out{{not_cut, false}};
    if (v.has_gradient) out.push_back({not_cut, true});
    const auto offer = [&](Cut cut) {
      const bool is_known =
          std::any_of(out.begin(), out.end(), [&](const SharedForm& s) { return s.cut == cut; });
      if (cut >= 0 && !is_known) out.push_back({cut, false});
    };
    for (Cut cut : from.cuts) offer(cut);
    for (const End& end : ends)
      for (Cut cut : end.cuts) offer(cut);
    return out;
  }

  void add_shared(const CutValue& v, const End& from) {
    std::vector<End> ends;
    double bytes = from.bytes;
    for (const CutUse& use : v.uses) {
      ends.push_back(user_end(use));
      bytes = std::max(bytes, ends.back().bytes);
    }
    const std::vector<SharedForm> forms = out_.forms[value_] = shared_forms(v, from, ends);
    const MovePrices moves = prices_.moves(bytes);
    const bool is_followed = prices_.is_followed(v) && !v.asked;
    const int hub = out_.shared[value_] = out_.sum.add_variable(static_cast<int>(forms.size()));
    table_.clear();
    for (Cut has : from.cuts)
      for (const SharedForm& s : forms)
        table_.push_back((is_followed && s.cut != reduced(has) ? forbidden : 0) +
                         v.count *
                             way_price(0, {has, s.cut, s.is_gradient_partial ? partial_cut : s.cut}, moves));
    out_.sum.add(v.producer, hub, table_);
    for (std::size_t u = 0; u < v.uses.size(); ++u) {
      if (problem_.part(v.uses[u].part).is_elsewhere) continue;
      table_.clear();
      for (const SharedForm& s : forms)
        for (std::size_t j = 0; j < ends[u].cuts.size(); ++j) {
          double price = from_shared(1 + u, s, ends[u].cuts[j], ends[u].gradients[j], moves);
          if (is_followed && ends[u].cuts[j] != s.cut) price += forbidden;
          table_.push_back(price * v.uses[u].count);
        }
      out_.sum.add(hub, v.uses[u].part, table_);
    }
  }

  /// Of taking it as one user wants it, and of bringing that user's gradient into the form in which all are added.
  double from_shared(std::size_t way, const SharedForm& s, Cut to, Cut gradient,
                     const MovePrices& moves) const {
    const CutEnds ends{s.cut, to, gradient};
    const double price = moves.of(s.cut, to, forward(way, ends));
    if (!has_gradient()) return price;
    if (!s.is_gradient_partial) return price + moves.of(gradient, s.cut, backward(way, ends));
    return price + (gradient >= 0 ? moves.of(gradient, not_cut, joined(way, ends)) : 0);
  }

  const CutProblem& problem_;
  const CutPrices& prices_;
  const CutHistory& before_;
  CutTables out_;
  std::size_t value_ = 0;  // at hand
  double element_bytes_ = 4;
  std::vector<double> table_;
};

}  // namespace

CutHistory no_history(const CutProblem& problem) {
  CutHistory out;
  for (const CutValue& v : problem.values()) out.emplace_back(v.uses.size() + 1);
  return out;
}

CutTables tables_of(const CutProblem& problem, std::vector<std::vector<int>> choices, const CutPrices& prices,
                    const CutHistory& before) {
  return Tables(problem, std::move(choices), prices, before).run();
}

CutHistory history_of(const CutProblem& problem, const CutTables& tables, const std::vector<int>& chosen,
                      const CutHistory& before, int axis) {
  CutHistory out = before;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const CutValue& v = problem.values()[i];
    const auto pass = [&](std::size_t way, const CutEnds& ends) {
      out[i][way].last = ends;
      out[i][way].moved |= dims_of_move(ends.from, ends.to);
      out[i][way].moved_gradient |= dims_of_move(ends.gradient, ends.from);
    };
    Cut from = not_cut;
    if (v.producer >= 0) from = problem.result_cut(v.producer, v.result, tables.loop(v.producer, chosen));
    const auto ends = [&](const CutUse& use) {
      const int loop = tables.loop(use.part, chosen);
      return CutEnds{from, problem.operand_cut(use.part, use.operand, loop),
                     problem.gradient_cut(use.part, use.operand, loop)};
    };
    if (v.producer < 0 && v.asked)
      from = asked_cut(v, axis);
    else if (v.producer < 0 && !v.uses.empty())
      from = ends(v.uses.front()).to;
    if (v.producer >= 0 && tables.shared[i] < 0) pass(0, {from, reduced(from), not_cut});
    if (tables.shared[i] >= 0) {
      const SharedForm& s = tables.forms[i][at(chosen[at(tables.shared[i])])];
      pass(0, {from, s.cut, s.is_gradient_partial ? partial_cut : s.cut});
      from = s.cut;
    }
    for (std::size_t u = 0; u < v.uses.size(); ++u) pass(1 + u, ends(v.uses[u]));
  }
  return out;
}

}  // namespace shardwright::recursive
