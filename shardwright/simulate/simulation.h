// The step of a cluster in time: the lists of its ranks (lower/step.h), run by events.
//
// A device computes one thing after the other. Beside that its transfers are on their way: those of one group of ranks one
// after the other, in the order in which they start; different groups, and what crosses between stages, at the same time,
// sharing the links that they use (simulate/flows.h). Where nothing overlaps, because it is the device that moves them, all
// of its collectives go one after the other. While a device computes, its collectives go on at its overlap
// (Cluster::overlap); what crosses between stages, and what goes to the host or comes from it, does not slow down. A receive and its send begin when both have
// started. Ranks of a stage do the same, so that one of them stands for all.
//
// Where a stretch of a section uses links that nothing else may use meanwhile, it takes as long every time, and is run
// once.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "shardwright/lower/step.h"
#include "shardwright/simulate/flows.h"

namespace shardwright {

/// A transfer of a rank, timed.
struct TimedTransfer {
  std::vector<FlowPart> parts;  // of a collective; none: nothing moves
};

/// What an instruction of a section takes while it computes.
struct TimedSection {
  std::vector<double> seconds;  // by instruction; 0 of transfers
};

/// A rank's step, with what it takes.
struct TimedStep {
  RankStep step;
  std::vector<TimedTransfer> transfers;
  std::vector<TimedSection> sections;
  double overlap = 0;
};

/// What goes from one group to another.
struct TimedCrossing {
  int from = 0, to = 0;  // groups; equal: it is there at once
  std::vector<FlowPart> parts;
};

/// An instruction of a list or of a section, as it ran.
struct SimulatedEvent {
  double begin = 0;
  double end = 0;
  Instruction instruction;
  Phase phase = Phase::forward;
};

/// A transfer on its way: from when it sets out, behind others of its ranks, until it is there.
struct SimulatedTransfer {
  double begin = 0;
  double end = 0;
  int transfer = -1;     // of the rank's step; -1: it crosses
  int crossing = -1;     // of the pipeline
  bool is_sent = false;  // of a crossing; else it is received
};

struct SimulatedRank {
  int rank = 0;
  double end = 0;
  double bubble_seconds = 0;                 // it waits for other stages
  std::map<int, OfPhases<double>> waited;    // by transfer of its step, of collectives
  std::vector<SimulatedEvent> events;        // in the order in which they ended, where they are asked for
  std::vector<SimulatedTransfer> transfers;  // likewise
};

struct SimulateOptions {
  int levels = 1;  // of links
  bool with_events = false;
};

/// One rank of each group, by group.
/// Throws: InternalError if they wait for one another.
/// Cost: O(events log ranks), where a stretch that takes as long every time is one event.
std::vector<SimulatedRank> simulate(std::span<const TimedStep* const> ranks,
                                    const std::vector<TimedCrossing>& crossings,
                                    const SimulateOptions& options = {});

}  // namespace shardwright
