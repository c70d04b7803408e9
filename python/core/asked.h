// What Python asks to be planned: a network that was traced, or one that has a name, and what options say of its plan.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "python/core/trace.h"
#include "shardwright/frontend/graph_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright::python {

/// Settings by the names of the command's flags: `micro_batches=4` as --micro-batches 4.
using PlanOptions = std::map<std::string, std::string>;

/// A traced function.
struct TracedStep {
  std::shared_ptr<Tracing> tracing;
  std::vector<ArrayPtr> outputs;
  std::optional<OptimizerChoice> optimizer = {};  // of the first output
  /// (micro-batches) -> (trace, outputs): the same traced again, for searches that look at other numbers; None: it cannot be.
  py::object retrace = py::none();
};

struct Asked {
  TracedGraph traced;
  PlanRequest request;
  std::optional<Plan> saved;  // that is given, in the stead of one to be made
  PlanOptions options;
  std::vector<std::string> inputs = {};  // those that are given, then those that are captured
  std::vector<Tensor> captured = {};
  std::vector<LeafPtr> leaves = {};
  std::map<std::string, InitialValue> initial = {};
  Assumed assumed = {};
  std::int64_t tokens = 0;  // of a micro-batch, where its inputs are sequences
  StepOf step = {};         // of other numbers of micro-batches, if it can be had
};

/// What runs programs of Python's.
DeviceKind device();

/// On standard error; also while others run without Python's lock.
void tell(const std::string& line);

/// Throw: Error as reading options and building a network do.
Asked asked_of(const TracedStep& traced, const PlanOptions& options);
/// Without an optimizer that which is usual on such machines.
Asked asked_of(const std::string& model, const std::optional<OptimizerChoice>& optimizer,
               const PlanOptions& options);
/// The model's network outside of training: its prediction, and before it with `has_loss` the loss.
Asked inference_asked(const std::string& model, bool has_loss, const PlanOptions& options);

/// For who shows no report: what is assumed as on accelerators.
void tell_assumed(const Asked& asked);

/// As TrainOptions says what to run with.
TrainOptions run_options_of(const Asked& asked, std::uint64_t seed);

/// Plans it; without Python's lock. Throws: Error as planning does.
PlannedNetwork planned(Asked& asked);
/// The same of one function for batches of several sizes, the largest and `others`, over the same weights.
std::vector<PlannedNetwork> planned_sizes(Asked& asked, std::vector<Asked>& others);

/// How a step is split, and what it takes.
void bind_planned_step(py::module_& m);

/// Files that others train by, as such steps.
void bind_recipes(py::module_& m);

/// A step's outputs and its optimizer, as Python says them.
TracedStep traced_step(const std::shared_ptr<Tracing>& tracing, const std::vector<ArrayPtr>& outputs,
                       const std::optional<std::string>& optimizer, const py::dict& settings,
                       double clip_norm, bool has_set_rate, const py::object& retrace);

}  // namespace shardwright::python
