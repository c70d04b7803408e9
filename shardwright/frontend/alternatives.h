// What a search has looked at beside its plan, for people: what binds the plan, and the best that lost.
#pragma once

#include <string>
#include <vector>

#include "shardwright/explain/binding.h"
#include "shardwright/explain/remedies.h"

namespace shardwright {

/// As a user asks for it; `flag` is empty where none says it.
struct Wording {
  std::string flag, text;
};
Wording wording_of(const Tried& tried);

/// `--set dp=8,..`, or in words.
std::string asked_text(const Tried& tried);
/// `about 1.2 s and 30.1 GB`; of a bound `at least`
std::string price_text(const Tried& tried);

/// `2.1% slower`, of a step that takes `to` beside one of `from`.
std::string against_text(double to, double from);

/// Those that lost, the best first: what fits before what does not, then what programs say, then the fastest.
std::vector<Tried> that_lost(std::vector<Tried> tried);

/// The command that prices what else could be fixed, for a plan in the file `plan`.
std::string command_of(const Binding& binding, std::string_view plan = "PLAN");

/// `memory: --set dp=8,.. takes 7.5 s but 91.2 GB, 7.3 GB more than there is`
std::string binding_text(const Bound& bound, const Evaluation& evaluation);

/// `binding: memory: --set dp=8,.. takes 7.5 s but 91.2 GB, 7.3 GB more than there is`, and the best three that lost with their prices, a line each.
std::string text_of(const Bound& bound, const Evaluation& evaluation);

/// `margin: --set dp=8,..: 7.5 s and 82.3 GB (4.6% faster) with --memory-margin 0`: the fastest of what was priced that the
/// margin alone keeps from being the plan; empty if there is none, or another cap than the margin's counts.
std::string margin_text(const Bound& bound, const Evaluation& evaluation, const Cluster& cluster);

/// `--recompute full takes 1.2 s and 30.1 GB`
std::string text_of(const Remedy& remedy);

/// It has a price, or does not fit for what it takes at least.
bool is_near(const Tried& tried);
/// Such, where nothing fits, the plan itself among them: those with a price before others, what takes least memory first.
std::vector<Tried> nearest(std::vector<Tried> tried);
/// `nearest: --set dp=8,..: 7.5 s and 91.2 GB`: the first three, a line each.
std::string nearest_text(const std::vector<Tried>& tried);

}  // namespace shardwright
