#include "shardwright/search/recursive/cut_solution.h"

#include <algorithm>
#include <cmath>

#include "shardwright/base/index.h"
#include "shardwright/base/quantity.h"
#include "shardwright/graph/op.h"
#include "shardwright/search/space/told.h"

namespace shardwright::recursive {
namespace {

/// What one part would have paid along one axis for each of its choices, beyond what it pays.
struct Alternative {
  std::string loop;
  double seconds = 0;
  double bytes = 0;  // of a device
};

/// How one part chose along one axis.
struct Note {
  std::string chosen;
  std::vector<Alternative> others;  // cheapest first
};

std::string name_of_loop(const CutPart& part, int loop) {
  return loop == no_loop_dim ? "whole" : part.rule->loops[at(loop)].name;
}

Note note_of(const CutProblem& problem, int p, const Solution::Level& level, const AxisLevel& axis,
             const CutWeights& weights, const CutSeconds& seconds) {
  const CutPart& part = problem.part(p);
  const std::vector<int>& loops = level.tables.choices[at(p)];
  const std::vector<double> sums = level.tables.sum.along(p, level.chosen);
  const int chosen = level.chosen[at(p)];
  const double bytes = seconds.memory(problem, p, loops[at(chosen)], axis).all();
  Note out{.chosen = name_of_loop(part, loops[at(chosen)]), .others = {}};
  std::vector<std::pair<double, Alternative>> others;
  for (std::size_t i = 0; i < loops.size(); ++i) {
    if (static_cast<int>(i) == chosen) continue;
    const double more = (sums[i] - sums[at(chosen)]) / part.count;
    const double more_bytes = seconds.memory(problem, p, loops[i], axis).all() - bytes;
    others.push_back({more, {name_of_loop(part, loops[i]), more - weights.memory * more_bytes, more_bytes}});
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [more, alternative] : others) out.others.push_back(std::move(alternative));
  return out;
}

/// `+1.2 MB`, `-300.0 KB`; nothing of less than a byte, which sums of figures leave.
std::string difference_text(double bytes) {
  const std::int64_t whole = std::llround(std::abs(bytes));
  return whole == 0 ? "" : fmt::format(" {}{}", bytes < 0 ? '-' : '+', bytes_text(whole));
}

/// `m (n +0.12 ms, whole +3.1 ms +200.0 MB)`: what was cut, and what the next best would have cost more.
std::string to_text(const Note& note, const CutWeights& weights) {
  constexpr std::size_t most = 2;
  std::string rest;
  for (std::size_t i = 0; i < note.others.size() && i < most; ++i) {
    const Alternative& a = note.others[i];
    rest += fmt::format("{}{} {:+.2g} ms", i ? ", " : "", a.loop, a.seconds * 1e3);
    if (weights.memory > 0) rest += difference_text(a.bytes);
  }
  return note.chosen + (rest.empty() ? ", the only way" : " (" + rest + ")");
}

/// Per part the reason of its choices; of axes that were joined the first stands for all.
std::vector<Reason> reasons_of(const Solution& s, const JoinedMesh& mesh, const CutSeconds& seconds) {
  std::vector<Reason> out(s.problem.parts().size());
  CutProblem problem = *s.ladder->cuts;
  for (std::size_t a = 0; a < s.levels.size(); ++a) {
    const Solution::Level& level = s.levels[a];
    const bool is_first = a == 0 || mesh.axis_of[a] != mesh.axis_of[a - 1];
    for (int p = 0; is_first && p < problem.size(); ++p) {
      const Note note = note_of(problem, p, level, s.ladder->levels[a], s.weights, seconds);
      out[at(p)].notes.push_back(
          fmt::format("{}: {}", mesh.mesh.axes[at(mesh.axis_of[a])].name, to_text(note, s.weights)));
    }
    for (int p = 0; p < problem.size(); ++p)
      problem.cut(p, level.tables.loop(p, level.chosen), s.ladder->levels[a].halving);
  }
  return out;
}

std::vector<Reason> symbolic_reasons_of(const Solution& s) {
  std::vector<Reason> out(s.problem.parts().size(), "follows what it reads and what reads it");
  if (s.symbolic.empty()) return out;
  for (const SymbolicCosts::Decision& d : s.symbolic.front()) {
    std::string& reason = out[at(d.part)].notes.front() = "symbolic costs of the first halving:";
    for (const CutCost& c : d.costs)
      if (c.name.empty() || c.loop != no_loop_dim)
        reason += fmt::format(" {} {:.4g}", c.name.empty() ? "whole" : c.name, c.total());
  }
  return out;
}

}  // namespace

SearchResult result_of(const Problem& problem, const Solution& s, const CutSeconds& seconds) {
  return told(problem, s.problem, s.ladder->fixed, [&](const JoinedMesh& mesh) {
    return s.symbolic.empty() ? reasons_of(s, mesh, seconds) : symbolic_reasons_of(s);
  });
}

std::vector<std::string> log_of(const Solution& s, const CutSeconds& seconds) {
  std::vector<std::string> out;
  CutProblem problem = *s.ladder->cuts;
  for (std::size_t a = 0; a < s.levels.size(); ++a) {
    const Solution::Level& level = s.levels[a];
    for (int p = problem.size(); p-- > 0;) {
      const CutPart& part = problem.part(p);
      if (work_kind(*part.rule) == WorkKind::streaming) continue;
      const std::vector<double> totals = level.tables.sum.along(p, level.chosen);
      std::vector<CutCost> costs;
      std::vector<int> loops = level.tables.choices[at(p)];
      for (std::size_t i = 0; i < loops.size(); ++i) {
        const double own = seconds.compute(problem, p, loops[i], s.ladder->levels[a]);
        costs.push_back({.name = loops[i] == no_loop_dim ? "" : name_of_loop(part, loops[i]),
                         .loop = loops[i],
                         .own = own,
                         .redistribution = totals[i] / part.count - own});
      }
      std::size_t chosen = at(level.chosen[at(p)]);
      if (loops.front() == no_loop_dim) {  // leaving it whole is told last
        std::rotate(costs.begin(), costs.begin() + 1, costs.end());
        chosen = (chosen + costs.size() - 1) % costs.size();
      }
      for (std::string& line : told(problem.graph().name_of(part.example), costs, chosen))
        out.push_back(std::move(line));
    }
    for (int p = 0; p < problem.size(); ++p)
      problem.cut(p, level.tables.loop(p, level.chosen), s.ladder->levels[a].halving);
  }
  return out;
}

}  // namespace shardwright::recursive
