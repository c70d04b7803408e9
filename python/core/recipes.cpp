// Files that others train by, as plans of Python's.
#include <pybind11/stl.h>

#include "python/core/asked.h"
#include "shardwright/frontend/advice.h"
#include "shardwright/frontend/memory_limit.h"

namespace shardwright::python {
namespace {

using Planned = std::shared_ptr<PlannedStep>;

Planned step_of(const ImportedPlan& found) {
  const auto out = std::make_shared<PlannedStep>(PlannedNetwork{.graph = found.made.model.graph,
                                                                .plan = found.made.plan,
                                                                .tokens = found.made.model.tokens,
                                                                .formats = device().formats});
  out->evaluation = found.evaluation;
  return out;
}

ImportOptions options_of(const std::string& cluster, const std::string& from, const std::string& model) {
  if (cluster.empty()) throw error("cluster='h100:8' and the like says for which machine");
  return {.cluster = cluster, .from = from, .model = model, .formats = device().formats};
}

Planned imported(const std::string& path, const std::string& cluster, const std::string& from,
                 const std::string& model) {
  const ImportedPlan found = import_plan(path, options_of(cluster, from, model));
  for (const std::string& line : found.notices) tell(line);
  for (const std::string& line : found.not_heeded) tell(fmt::format("{}: {}", path, line));
  std::string memory = memory_notices(found.evaluation, found.made.plan);
  while (memory.ends_with('\n')) memory.pop_back();
  if (!memory.empty()) tell(memory);
  return step_of(found);
}

/// What `advise` prints, its document, the recipe's plan and the better one, if there is one.
std::tuple<std::string, std::string, Planned, std::optional<Planned>> advised(const std::string& path,
                                                                              const std::string& cluster,
                                                                              const std::string& from,
                                                                              const std::string& model) {
  const Advice advice = advise(path, options_of(cluster, from, model));
  for (const std::string& line : advice.recipe.notices) tell(line);
  std::optional<Planned> better;
  if (advice.better) better = step_of(*advice.better);
  return {to_text(advice), to_json(advice).dump(), step_of(advice.recipe), better};
}

}  // namespace

void bind_recipes(py::module_& m) {
  m.def("import_plan", &imported, py::arg("path"), py::arg("cluster"), py::arg("from_format"),
        py::arg("model"), py::call_guard<py::gil_scoped_release>());
  m.def("advise", &advised, py::arg("path"), py::arg("cluster"), py::arg("from_format"), py::arg("model"),
        py::call_guard<py::gil_scoped_release>());
}

}  // namespace shardwright::python
