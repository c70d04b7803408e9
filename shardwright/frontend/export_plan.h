// Plans in the words of what others train with (exchange/plan_format.h), of a graph and its plan.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "shardwright/exchange/plan_format.h"
#include "shardwright/graph/graph.h"
#include "shardwright/lower/pipeline.h"

namespace shardwright {

struct ExportOptions {
  std::string path =
      {};  // of the file that it becomes: of some formats its ending says which kind is written
  /// The programs of the plan, for who has them; asked for by formats that say what is in them. Empty: they are made.
  std::function<Pipeline()> programs = {};
};

/// `plan` of the step `graph`, in the words of `format`. Throws: Error that lists the formats there are, or says why this one
/// cannot say the plan.
Exported export_plan(const Graph& graph, const Plan& plan, std::string_view format,
                     const ExportOptions& options = {});

}  // namespace shardwright
