// Programs as data in Python, for whatever engine: literals, and what a stage holds.
#pragma once

#include <string>
#include <vector>

#include "shardwright/exchange/python/elements.h"
#include "shardwright/exchange/python/text.h"
#include "shardwright/plan/json_text.h"

namespace shardwright {

/// A value that is brought in or kept: where it lies.
Json placed_json(const Graph& graph, ValueId v);

/// A leaf: where it lies, and how it begins.
Json leaf_json(const Graph& graph, const Node& node);

/// What stage `s` holds: ranks, leaves and inputs where they lie, scalars that come out, which leaf takes which value
/// when, values that there are once a step, its functions. `names` are those of its values in Python.
Json stage_data(const Pipeline& pipeline, int s, const python::Elements& elements,
                const std::vector<std::string>& names);

/// `forward`, of several stages `forward 1`
std::string section_name(const Pipeline& pipeline, int stage, Phase phase);

}  // namespace shardwright
