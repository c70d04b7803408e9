// Plans as pages for people: HTML that needs nothing beside itself.
//
// What can be read is HTML (verdicts, summary, tables). What is drawn (layers, the step over time, memory over time) is
// data in the page, which its script draws (page/*.js). All of its numbers are those of the document that `--json` prints,
// and say in `data-json` which; nothing is computed for the page alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardwright/explain/binding.h"
#include "shardwright/explain/remedies.h"
#include "shardwright/frontend/report.h"
#include "shardwright/runtime/comparison.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {

/// What a training has told.
struct TrainedRun {
  std::vector<std::int64_t> steps;
  std::vector<double> losses;  // of these
  double median_step_seconds = 0;
  std::vector<std::int64_t> planned_bytes;  // by rank: the arena
  std::vector<std::int64_t> measured_bytes;
  bool is_interrupted = false;
  int cores = 0;          // of the host, if all ranks are threads of one process; 0: they are not
  double used_cores = 0;  // that the process had on average while steps ran; 0: not known
  std::optional<StepComparison> comparison = {};  // of a recorded step with the plan
};

/// What is shown, whoever asks for it.
struct PageContent {
  const Plan& plan;
  const Pipeline& pipeline;  // that is made of it
  const Evaluation& evaluation;
  const StepReport& report;
  BatchSize batch;
  std::optional<Bound> bound = {};  // what binds it, where that is known
  Remedies remedies = {};           // of what does not fit
  std::string call;                 // that made it: a command line, or Python
  std::string version;              // `shardwright 0.1.0`
  std::string plan_path = {};       // where it is saved; empty: nowhere
  std::optional<TrainedRun> run = {};
  std::string search_call = {};  // the same command where nothing is fixed; empty: there is none
};

std::string plan_page(const PageContent& content);

/// The same as a part of a notebook: in a frame of its own, so that several do not meet.
std::string framed(const std::string& page, const std::string& title);

}  // namespace shardwright
