// What `plan`, `estimate` and `simulate` print: the plan and what a step of it takes, as a table or as one JSON document.
#pragma once

#include <functional>
#include <string>

#include "shardwright/cli/verb.h"
#include "shardwright/explain/binding.h"
#include "shardwright/frontend/model.h"
#include "shardwright/frontend/plan_page.h"
#include "shardwright/frontend/report.h"
#include "shardwright/plan/plan.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {

/// How a report is shown: --wide, or cut to the terminal.
ReportStyle style_of(const Arguments& arguments, const Terminal& terminal);
Flag wide_flag();
Flag html_flag();
/// Before a long search. Throws: Error if the page of --html cannot be written.
void require_page_writable(const Arguments& arguments);
/// The page of `content`, with the command that made it.
void write_page(const Arguments& arguments, const std::string& path, PageContent content);

/// The lines of a report; `bound` are those of what binds.
using TableOf = std::function<std::string(const Evaluation&, const std::string& bound)>;

/// What is told of a step of `plan`, which `pipeline` is made of; `model` has its train step: the document, with `--json`,
/// or else the table that `table` makes; with --html a page, too, behind what `save` writes.
/// Throws: Refusal if the plan takes more memory than the flags allow; io_error if the page cannot be written.
Evaluation report(const Arguments& arguments, const Model& model, const Plan& plan, const Pipeline& pipeline,
                  const TableOf& table, Terminal& terminal, const BoundOf& bound_of = {});

/// The plan as a table.
Evaluation report(const Arguments& arguments, const Model& model, const Plan& plan, const Pipeline& pipeline,
                  Terminal& terminal, const BoundOf& bound_of = {}, const std::function<void()>& save = {});
Evaluation report(const Arguments& arguments, const Model& model, const Plan& plan, Terminal& terminal);

/// What came nearest where a plan is refused for its memory, a line each; of what else cannot be nothing.
std::string nearest_text(const Infeasible& e);

/// The last document of a command that nothing satisfies.
std::string document(const Infeasible& e);

}  // namespace shardwright
