#include "shardwright/frontend/explanation.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/report.h"
#include "shardwright/frontend/table.h"

namespace shardwright {
namespace {

std::string strategy_text(const Explanation& e, const Candidate& c) {
  Mesh mesh = e.meshes[at(c.strategy.mesh)];
  for (Axis& axis : mesh.axes) std::ranges::replace(axis.name, '/', '.');  // of joined axes the plan's own
  return to_text(c.strategy, e.rule, mesh);
}

/// One of the parts of a candidate's time, and the tensor that has most of it.
struct Term {
  std::string_view name;
  double seconds = 0;
  std::string most;
};

std::array<Term, 3> parts_of(const Candidate& c) {
  return {{{"compute", c.cost.compute_seconds, {}},
           {"communication", c.cost.communication_seconds, c.most_reduced},
           {"redistribution", c.cost.redistribution_seconds, c.most_moved}}};
}

/// `communication 12 us instead of 340 us (mostly of w1)`: the part in which `better` gains most over `worse`.
std::string deciding_part(const Candidate& better, const Candidate& worse) {
  const std::array<Term, 3> good = parts_of(better), bad = parts_of(worse);
  std::size_t best = 0;
  for (std::size_t i = 1; i < good.size(); ++i)
    if (bad[i].seconds - good[i].seconds > bad[best].seconds - good[best].seconds) best = i;
  return fmt::format("{} {} instead of {}{}", good[best].name, seconds_text(good[best].seconds),
                     seconds_text(bad[best].seconds),
                     bad[best].most.empty() ? "" : fmt::format(" (most for {})", bad[best].most));
}

bool takes_as_long(const Candidate& a, const Candidate& b) {
  return std::abs(a.cost.seconds() - b.cost.seconds()) <= 1e-3 * a.cost.seconds();
}

std::string against(const Explanation& e, const Candidate& other, std::string_view what) {
  const Candidate& chosen = e.candidates[e.choice];
  if (takes_as_long(chosen, other)) {
    const std::int64_t more = other.cost.bytes() - chosen.cost.bytes();
    const std::string memory = more == 0 ? ""
                                         : fmt::format(", with {} {}", bytes_text(std::abs(more)),
                                                       more > 0 ? "more memory" : "less memory");
    return fmt::format("{} {}, takes as long{}", what, strategy_text(e, other), memory);
  }
  return fmt::format("{} {}, takes {} more: {}", what, strategy_text(e, other),
                     seconds_text(other.cost.seconds() - chosen.cost.seconds()),
                     deciding_part(chosen, other));
}

/// The plan has it though another one takes less time here.
std::string not_the_fastest(const Explanation& e) {
  const Candidate &chosen = e.candidates[e.choice], &best = e.candidates.front();
  std::string out =
      fmt::format("with its neighbours as planned, {} would take {} less: {}", strategy_text(e, best),
                  seconds_text(chosen.cost.seconds() - best.cost.seconds()), deciding_part(best, chosen));
  const std::int64_t more = best.cost.bytes() - chosen.cost.bytes();
  if (more > 0) out += fmt::format("; but {} more memory", bytes_text(more));
  return out;
}

std::string who_chose(const Explanation& e, const Plan& plan) {
  if (e.planned.is_fixed) return fmt::format("fixed: {}", to_text(e.planned.reason));
  return fmt::format("{} chose it: {}", plan.search.empty() ? plan.parallel : plan.search,
                     compact_reason(e.planned));
}

}  // namespace

std::vector<std::string> why(const Explanation& e, const Plan& plan) {
  const Candidate& chosen = e.candidates[e.choice];
  if (e.candidates.size() == 1) return {"there is no other way: none of its dims can be split on this mesh"};
  const bool is_fastest = takes_as_long(chosen, e.candidates.front());
  std::vector<std::string> out;
  if (e.planned.is_fixed || !is_fastest) out.push_back(who_chose(e, plan));
  if (!is_fastest) {
    out.push_back(not_the_fastest(e));
    return out;
  }
  out.emplace_back("the fastest here");
  const Candidate& next = e.candidates[e.choice == 0 ? 1 : 0];
  out.push_back(against(e, next, "the next best,"));
  if (e.data_parallel && *e.data_parallel != e.choice && &e.candidates[*e.data_parallel] != &next)
    out.push_back(against(e, e.candidates[*e.data_parallel], "data parallel,"));
  return out;
}

std::string explanation_table(const Explanation& e, const Explainer& explainer) {
  std::string out = fmt::format("{}: {}", e.planned.name, e.planned.kind);
  for (const LoopDim& dim : e.rule.loops) out += fmt::format(" {}={}", dim.name, dim.size);
  for (const Mesh& mesh : explainer.stage().meshes) out += fmt::format(", {}", to_text(mesh));
  out += "\n";
  Rows rows{{"strategy", "parts of inputs", "compute", "communication", "redistribution", "memory", "total"}};
  for (std::size_t i = 0; i < e.candidates.size(); ++i) {
    const Candidate& c = e.candidates[i];
    std::vector<std::vector<std::int64_t>> in;
    for (const RuleTensor& tensor : e.rule.operands)
      in.push_back(integers_of(tensor, c.strategy, e.meshes[at(c.strategy.mesh)]));
    rows.push_back({(i == e.choice ? "* " : "  ") + strategy_text(e, c), integers_text(in),
                    seconds_text(c.cost.compute_seconds), seconds_text(c.cost.communication_seconds),
                    seconds_text(c.cost.redistribution_seconds), bytes_text(c.cost.bytes()),
                    seconds_text(c.cost.seconds())});
  }
  rows.front().front() = "  strategy";
  out += aligned(rows, {.begin = 2, .end = 7});
  if (e.left_out > 0) out += fmt::format("  and {} more that are slower or split alike\n", e.left_out);
  if (e.overlap > 0)
    out += fmt::format("  communication counts in full; up to {:.0f}% of it may run beside compute\n",
                       100 * e.overlap);
  return out + fmt::format("* {}\n", join(why(e, explainer.plan()), ";\n  "));
}

namespace {

/// The rows in which most goes, by `part`, added to `out` unless they are there.
template <class Share>
void add_heaviest(std::vector<Heavy>& out, std::vector<Heavy> rows, std::size_t count, Share part) {
  std::ranges::stable_sort(rows, std::ranges::greater(), part);
  for (std::size_t i = 0; i < std::min(count, rows.size()); ++i) {
    const bool is_there = std::ranges::any_of(
        out, [&](const Heavy& h) { return h.row.members.front() == rows[i].row.members.front(); });
    if (!is_there && part(rows[i]) >= 0.01) out.push_back(rows[i]);
  }
}

}  // namespace

std::vector<Heavy> heaviest(Explainer& explainer, const std::vector<OperatorShare>& shares) {
  const StagePlan& stage = explainer.stage();
  double seconds = 0, bytes = 0;
  for (const OperatorShare& s : shares) {
    seconds += s.cost.seconds();
    bytes += static_cast<double>(s.cost.bytes());
  }
  std::vector<Heavy> rows;
  for (FoldedName& row : table_rows(stage, shares)) {
    Heavy h{.row = std::move(row), .explanation = {}};
    for (std::size_t i : h.row.members) {
      h.time_share += shares[i].cost.seconds() / seconds;
      h.memory_share += bytes > 0 ? static_cast<double>(shares[i].cost.bytes()) / bytes : 0;
    }
    rows.push_back(std::move(h));
  }
  std::vector<Heavy> out;
  add_heaviest(out, rows, 5, [](const Heavy& h) { return h.time_share; });
  add_heaviest(out, rows, 3, [](const Heavy& h) { return h.memory_share; });
  for (Heavy& h : out) {
    h.explanation = explainer.explain(stage.operators[h.row.members[h.row.members.size() / 2]].name);
    if (h.explanation.candidates.size() > 1) h.other = h.explanation.choice == 0 ? 1 : 0;
  }
  return out;
}

std::string heaviest_table(const std::vector<Heavy>& heavy) {
  Rows rows{{"most time or memory", "time", "memory", "would take", "and keep", "if it were"}};
  const auto change = [](double now, double then, const std::string& text) {
    return now == then ? "the same" : (then > now ? "+" : "-") + text;
  };
  for (const Heavy& h : heavy) {
    rows.push_back({h.row.name, percent_text(h.time_share, 1), percent_text(h.memory_share, 1), "-", "-",
                    "cannot be split otherwise"});
    if (!h.other) continue;
    const Explanation& e = h.explanation;
    const Candidate &now = e.candidates[e.choice], &then = e.candidates[*h.other];
    rows.back()[3] = change(now.cost.seconds(), then.cost.seconds(),
                            seconds_text(std::abs(then.cost.seconds() - now.cost.seconds())));
    rows.back()[4] = change(static_cast<double>(now.cost.bytes()), static_cast<double>(then.cost.bytes()),
                            bytes_text(std::abs(then.cost.bytes() - now.cost.bytes())));
    rows.back()[5] = strategy_text(e, then) + (h.row.members.size() > 1 ? ", each" : "");
  }
  return aligned(rows, {.begin = 1, .end = 5});
}

}  // namespace shardwright
