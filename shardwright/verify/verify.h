// Proof before launch: that a step of a pipeline cannot hang, mix up its transfers or lose what it has computed.
//
// The instructions of every rank are written down (lower/step.h) and checked against each other (violation.h), on one
// machine, before any rank is started or any memory allocated. The order: transfers match, nobody waits for ever,
// layouts are complete and those of the rules, the arena holds what is read from it. That it is not too large is
// seen in its size (frontend/memory_limit.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "shardwright/verify/violation.h"

namespace shardwright {

/// What was proven, in numbers.
struct Proof {
  int ranks = 0;
  int stages = 0;
  int micro_batches = 0;
  int groups = 0;                 // of ranks that communicate, each channel for itself
  std::int64_t transfers = 0;     // between ranks, prepared by all of them
  std::int64_t instructions = 0;  // of all ranks in a step
  std::int64_t values = 0;        // of all stages
  std::int64_t arena_bytes = 0;   // the largest
};

/// Of every rank, without sections.
std::vector<RankStep> unrolled_steps(const Pipeline& pipeline);

/// All that the first kind of proof that fails finds; nothing if all hold. `ranks` are unrolled_steps(pipeline), or
/// what is to be judged instead.
Violations violations(const std::vector<RankStep>& ranks, const Pipeline& pipeline);
/// The same of classes of ranks (meetings.h).
Violations violations(const std::vector<RankClass>& classes, const Pipeline& pipeline);

/// Hears what is being proven next.
using Tell = std::function<void(std::string_view)>;

/// Of classes of ranks, each once.
/// Throws: Error if it is no pipeline; InternalError with the first violation, as we have compiled it.
Proof prove(
    const Pipeline& pipeline, const Tell& tell = [](std::string_view) {});

}  // namespace shardwright
