// What strategy files say as annotations, so that they enter planning by the same door.
#pragma once

#include <string>
#include <vector>

#include "shardwright/annotations/annotations.h"
#include "shardwright/annotations/strategy_file.h"
#include "shardwright/graph/graph.h"

namespace shardwright {

/// Splits of operators, by axes where the file has them; how parameters lie; and of several stages which operators each has.
/// `path` stands in front of errors, then and later. Throws: Error where parts and layouts of an operator disagree.
Constraints annotations_of(const StrategyFile& file, const std::string& path);

/// Parameters of the file that are none of `graph`: states of its optimizer.
std::vector<std::string> states_in(const StrategyFile& file, const Graph& graph);

/// What a file says that planning leaves as it is: a line each.
std::vector<std::string> not_heeded(const StrategyFile& file, const Graph& graph);

/// Throws: Error that begins with the path, with near names, unless all operators and parameters of the file are in `graph`,
/// but for states of the optimizer, and lie on as many devices as a stage has.
void check_fits(const StrategyFile& file, const std::string& path, const Graph& graph, int devices_of_stage);

/// Throws: Error where `said` (annotations of operators and stages, by name) and the file speak of one operator and say
/// different things. `whose`: `--annotate a.json`.
void check_agrees(const StrategyFile& file, const std::string& path, const Constraints& said,
                  const std::string& whose);

}  // namespace shardwright
