#include "shardwright/frontend/export_plan.h"

#include "shardwright/exchange/written_plan.h"
#include "shardwright/frontend/model_sizes.h"
#include "shardwright/frontend/planned_model.h"
#include "shardwright/frontend/planned_strategies.h"
#include "shardwright/passes/compile.h"

namespace shardwright {

Exported export_plan(const Graph& graph, const Plan& plan, std::string_view format,
                     const ExportOptions& options) {
  const PlanFormat& found = written_format(format);
  const auto strategies = [&] {
    PlannedStrategies saved =
        strategies_of(graph, plan, options.programs ? options.programs() : compile_pipeline(graph, plan));
    return SavedStrategies{std::move(saved.file), std::move(saved.left_out)};
  };
  return found.write(written_plan(plan, graph,
                                  {.model = plan.model,
                                   .sizes = sizes_of_model(plan.model),
                                   .samples = batch_of(graph).value_or(0),
                                   .path = options.path,
                                   .strategies = strategies}));
}

}  // namespace shardwright
