// A plan and what a step of it is expected to take as one JSON document: what `plan --json` prints, and pages show.
#pragma once

#include "shardwright/frontend/report.h"
#include "shardwright/plan/json_text.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {

/// The plan's document with what it is expected to take, with the keys of commands.md.
Json plan_document(const Plan& plan, const Evaluation& evaluation, const BatchSize& batch);

/// Bytes of the fullest device by kind, and of each of several stages.
Json memory_json(const Estimate& estimate);

}  // namespace shardwright
