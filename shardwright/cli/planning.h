// What the verbs that plan share: the PLANNING flags, and the way from them to a graph and its plan.
#pragma once

#include <string>
#include <vector>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/cli/asked.h"
#include "shardwright/cli/verb.h"
#include "shardwright/explain/binding.h"
#include "shardwright/explain/remedies.h"
#include "shardwright/frontend/model.h"
#include "shardwright/frontend/planned_model.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {

/// The PLANNING flags of commands.md that there are so far, those of the optimizer, then `more`.
std::vector<Flag> planning_flags(std::vector<Flag> more = {});

/// The model with the flags that change it (batch, precision, loss), of one micro-batch. `-` is read from the terminal.
/// `asks`: for one who only asks it (ModelOptions::asks).
Model model_of(const Arguments& arguments, Terminal& terminal, bool asks = false);

/// The same of as many micro-batches as its plan will have: a search may choose them, and then has made the plan. The plan
/// is of the train step, or of the network alone. What the search looks at goes to `stock`, if that is not null.
Model model_to_plan(const Arguments& arguments, bool is_trained, Terminal& terminal,
                    automatic::Stock* stock = nullptr);

/// A search, and the network that it is for: of as many micro-batches as are asked for, or whole where they are searched.
struct SearchAsked {
  StepOf step;
  PlanRequest request;
  Model network;
  std::string input;  // of a graph on standard input
};
/// For the train step of MODEL. Throws: Error if it says itself how it is split.
SearchAsked search_asked(const Arguments& arguments, Terminal& terminal);
/// The model with as many micro-batches as `found` has, which is the plan from here on.
Model model_of(const Arguments& arguments, const SearchAsked& search, Plan found);

/// How many devices the plan will be for.
int devices_of(const Arguments& arguments);

/// The first positional, PLAN|MODEL: such a file (.json), or a model with its train step, planned as the flags say. A
/// file has decided everything but `open` flags. Throws: Error on others.
PlannedModel planned_positional(const Arguments& arguments, const std::vector<std::string>& open,
                                Terminal& terminal);

/// A plan that was loaded or made, for `graph`; what its search has to tell goes to the terminal's `err`.
Plan plan_of(const Arguments& arguments, const Model& model, const Graph& graph, Terminal& terminal);
/// A plan that was made, with the strategies of all nodes of the model's graph; `stock` as above.
Planned planned_of(const Arguments& arguments, const Model& model, Terminal& terminal,
                   automatic::Stock* stock = nullptr);

/// What a step of `program` takes, judged by the memory of a device: the cluster's, and --memory-cap or --device-memory;
/// as `framework` has it.
/// Throws: Refusal if that is more than the flags allow, saying by how much, what takes most, and the fastest of `remedies`.
Evaluation evaluation_of(const Arguments& arguments, const Pipeline& pipeline, const Cluster& cluster,
                         std::string_view framework, const RemediesOf& remedies = {});

/// What would fit where `plan`, which the flags have made for `model`'s train step, does not.
Remedies remedies_of(const Arguments& arguments, const Model& model, const Plan& plan,
                     const Evaluation& evaluation);
/// What was asked of the plan of `model`, for others that are made beside it.
PlanRequest planning_request(const Arguments& arguments, const Model& model);
/// What binds such a plan, whose search has looked at `tried`; for a page also what it costs that something is fixed.
Bound bound_of(const Arguments& arguments, const Model& model, const Plan& plan, const Evaluation& evaluation,
               std::vector<Tried> tried);
/// `not looked at, as --search-time 3 was over: --search auto, --devices`
std::string unasked_text(const Arguments& arguments, const Remedies& remedies);

/// The same of what runs here, whatever is said of --framework; that is told.
Evaluation own_evaluation_of(const Arguments& arguments, const Pipeline& pipeline, const Cluster& cluster);

/// A line on the terminal's `err` where what comes takes minutes: `many` of `what`, each of which `costs`.
void tell_if_long(std::int64_t many, std::string_view what, std::string_view costs, Terminal& terminal);

/// The graph itself says how it is planned: it has mesh lines.
bool is_planned(const Graph& graph);

}  // namespace shardwright
