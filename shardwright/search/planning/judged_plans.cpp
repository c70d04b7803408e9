#include "shardwright/search/planning/judged_plans.h"

#include <algorithm>
#include <utility>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/graph/forward_operator.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

/// So many are told, of those that fit and of those that do not.
constexpr std::size_t most_told = 32;

/// `{m: 2, n: 4}`: of how many parts loop dims are, whatever the axes are called.
std::string parts_text(const Rule& rule, const Strategy& s, const std::vector<Mesh>& meshes) {
  const std::vector<Axis>& axes = meshes[at(s.mesh)].axes;
  std::vector<std::string> out;
  const auto say = [&](const std::string& name, const Axes& of) {
    std::int64_t parts = 1;
    for (int a : of) parts *= axes[at(a)].size;
    if (parts > 1) out.push_back(fmt::format("{}: {}", name, parts));
  };
  for (std::size_t l = 0; l < s.loops.size(); ++l) say(rule.loops[l].name, s.loops[l]);
  for (std::size_t g = 0; g < s.linear.size(); ++g) say(fmt::format("+{}", g), s.linear[g]);
  return "{" + join(out, ", ") + "}";
}

std::vector<std::string> parts_texts(const std::vector<Strategy>& strategies, const std::vector<Mesh>& meshes,
                                     const Graph& graph, const Calls& calls) {
  std::vector<std::string> out(graph.nodes.size());
  for (NodeId id : graph.node_ids())
    if (is_forward_operator(graph.node(id)))
      out[at(id.index)] = parts_text(calls.rule(id), strategies[at(id.index)], meshes);
  return out;
}

/// `matmul1={m: 4}, relu1={i0: 4} and 3 more`
std::string difference_text(const std::vector<std::string>& parts, const std::vector<std::string>& taken,
                            const Graph& graph) {
  constexpr std::size_t most_named = 3;
  std::vector<std::string> named;
  std::size_t more = 0;
  for (NodeId id : graph.node_ids()) {
    if (parts[at(id.index)] == taken[at(id.index)]) continue;
    if (named.size() < most_named)
      named.push_back(fmt::format("{}={}", graph.name_of(id), parts[at(id.index)]));
    else
      ++more;
  }
  if (named.empty()) return "the same over other axes";
  return join(named, ", ") + (more > 0 ? fmt::format(" and {} more", more) : "");
}

std::vector<Strategy> strategies_of(const SearchResult& plan) {
  std::vector<Strategy> out;
  for (const Choice& c : plan.choices) out.push_back(c.strategy);
  return out;
}

}  // namespace

/// Some more than are told may wait, so that they are seldom sorted.
void JudgedPlans::keep_best(std::vector<Judged>& some, std::size_t most) {
  std::ranges::stable_sort(some, {}, &Judged::seconds);
  if (some.size() > most) some.resize(most);
}

void JudgedPlans::add(const SearchResult& plan, const Evaluation& e) {
  std::vector<Judged>& some = e.fits() ? fitting_ : misfits_;
  some.push_back({plan.meshes, strategies_of(plan), e.estimate.step_seconds(),
                  static_cast<double>(e.estimate.arena_bytes), e.fits()});
  if (some.size() > 4 * most_told) keep_best(some, 2 * most_told);
}

std::vector<Tried> JudgedPlans::told(const SearchResult& taken, const std::vector<Mesh>& meshes,
                                     const Graph& graph, const Calls& calls) const {
  const auto texts = [&](const std::vector<Strategy>& strategies, const std::vector<Mesh>& own) {
    return parts_texts(strategies, own.empty() ? meshes : own, graph, calls);
  };
  const std::vector<std::string> of_taken = texts(strategies_of(taken), taken.meshes);
  std::vector<Tried> out;
  for (std::vector<Judged> some : {fitting_, misfits_}) {
    keep_best(some, most_told);
    for (const Judged& judged : some) {
      const std::vector<std::string> parts = texts(judged.strategies, judged.meshes);
      Tried& t = out.emplace_back();
      t.by = KnownBy::program;
      t.fate = judged.fits ? Fate::slower : Fate::misfit;
      t.seconds = judged.seconds;
      t.bytes = judged.bytes;
      t.words = difference_text(parts, of_taken, graph);
      if (parts != of_taken) continue;
      const bool is_known = std::ranges::find(out, Fate::taken, &Tried::fate) != out.end();
      if (is_known) continue;
      t.fate = Fate::taken;
      t.words = "the plan";
    }
  }
  return out;
}

}  // namespace shardwright
