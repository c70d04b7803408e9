// A step that was measured elsewhere, by another framework perhaps, as somebody writes it down by hand, beside the step of a
// plan:
//
//   term,seconds            or JSON: {"step": 9.0, "communication": 1.1, "update": "350ms"}
//   step,9.0
//   communication,1.1
//
// Terms are those into which steps are taken apart (simulate/step_parts.h): compute, communication that compute waits for,
// bubble, recompute, other. Within compute there may be update (as well: optimizer) and operators, within communication kinds
// of collectives. Only the step must be there; what its parts leave of it is a row, too.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shardwright/plan/json_text.h"
#include "shardwright/runtime/comparison.h"
#include "shardwright/simulate/estimate.h"

namespace shardwright {

struct MeasuredTerm {
  std::string name;
  double seconds = 0;
};
/// Throws: Error that names `where` and the line, or the term.
std::vector<MeasuredTerm> parse_measured(std::string_view text, const std::string& where);

/// The terms of a table, each beside what is planned: parts, which add up to the step, and what lies within them.
struct MeasuredStep {
  ComparedPart step{.name = "step"};
  std::vector<ComparedPart> parts;
  std::vector<ComparedPart> details;

  double more_seconds() const { return step.measured_seconds - step.predicted_seconds; }
  /// The part that accounts for most of it.
  const ComparedPart& most() const;
};
/// `planned`: the step, and the same by operators and collectives.
/// Throws: Error that names `where` and the term that no step has, is said twice, or takes more than that of which it is a part.
MeasuredStep beside_plan(const std::vector<MeasuredTerm>& measured, const Estimate& planned,
                         const StepComparison& by_operators, const std::string& where);

std::string to_text(const MeasuredStep& step);

/// Rows of a part each: what the step is for, then the same by operators and collectives. What would be zero on both sides
/// is left out, but not the step.
std::string table_of(const StepComparison& comparison);
/// All of it, as `train --compare-plan --json` has it.
Json json_of(const StepComparison& comparison);

/// `the measured step takes 1.3 s more than planned (17.0%): most of it communication, 800 ms more`
std::string most_text(const ComparedPart& step, const ComparedPart& most);
/// Of `parts`, the one that accounts for most of what `step` took more or less than was predicted.
const ComparedPart& most_of(const ComparedPart& step, const std::vector<ComparedPart>& parts);

}  // namespace shardwright
