#include "shardwright/frontend/fitting_strategies.h"

#include "shardwright/annotations/patterns.h"
#include "shardwright/annotations/strategy_annotations.h"
#include "shardwright/search/planning/stage_cut.h"

namespace shardwright {
namespace {

void check_stages_agree(const Annotated& annotated, const Constraints& of_file, const std::string& called) {
  for (const auto& [name, stage] : of_file.stages)
    if (const auto* other = stage_asked_of(annotated.said.stages, name); other && other->second != stage)
      throw error(
          "{} and {} contradict each other: '{}' is in stage {} in the one and in stage {} in the other",
          annotated.whose, called, name, other->second, stage);
}

}  // namespace

void check_takes_strategies(const std::string& called, const BesideStrategies& beside) {
  for (const Given& whole : beside.whole)
    throw error(
        "{} and {} {} exclude each other: the one fixes single operators, the other how everything is split",
        called, whole.called, whole.text);
  if (!beside.search.empty() && find_search(beside.search).plan)
    throw error("{} fixes single operators, which search {} cannot keep; use {} recursive", called,
                beside.search, beside.search_called);
}

void check_splits(Parallel parallel, const std::string& called, const std::string& parallel_called) {
  if (parallel == Parallel::data_parallel)
    throw error("{} and {} data_parallel exclude each other; use semi_auto_parallel", called,
                parallel_called);
}

void add_strategies(const StrategyFile& file, const std::string& path, const std::string& called,
                    const std::optional<Annotated>& annotated, PlanRequest& request) {
  if (file.turns() > 1)  // who asks may say it, too
    request.constraints.schedule = Schedule::interleaved(file.turns());
  const Constraints own = annotations_of(file, path);
  if (annotated) check_stages_agree(*annotated, own, called);
  request.constraints = merged(std::move(request.constraints), own);
}

FittingStrategies fitting_strategies(const StrategyFile& file, const std::string& path, const Graph& network,
                                     const PlanRequest& request, const std::optional<Annotated>& annotated,
                                     Constraints said) {
  const Pipelining p = settings_of(request).pipelining;
  if (file.stages() > 1 && request.devices % p.stages)
    throw error("{}: its {} stages cannot share {} device{} evenly", path, p.stages, request.devices,
                request.devices == 1 ? "" : "s");
  check_fits(file, path, network, request.devices / p.stages);
  if (annotated) check_agrees(file, path, without_patterns(annotated->said, network), annotated->whose);
  if (file.stages() > 1) try {
      asked_stages(network, said.stages, p.parts());
    } catch (const Error& e) {
      throw with_context(e, path);
    }
  for (const std::string& name : states_in(file, network)) said.tensors.erase(name);
  return {std::move(said), not_heeded(file, network)};
}

}  // namespace shardwright
