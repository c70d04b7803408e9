// Recorded steps as Chrome's and Perfetto's JSON (chrome://tracing, https://ui.perfetto.dev).
//
// A stage is a process there, and a rank has tracks in it: `compute` is what the rank's thread does, `communication` what
// is on its way meanwhile, from start to finish; what is on its way beside that has tracks of its own. On a track, events
// nest or follow one another. Arrows go from sends to receives. Categories:
//
//   schedule       steps; forward and backward of micro-batches, and updates
//   compute        kernels, by the nodes that they run
//   exposed        the rank waits for a collective, or does its work, instead of computing
//   bubble         it waits for another stage, or for the others to end the step
//   data           inputs, outputs and copies
//   communication  transfers
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shardwright/lower/pipeline.h"
#include "shardwright/runtime/memory_marks.h"
#include "shardwright/simulate/memory_curve.h"
#include "shardwright/simulate/step_trace.h"

namespace shardwright {

/// A stretch of a track.
struct Span {
  std::int64_t begin = 0;  // as events
  std::int64_t end = 0;
  std::string category;
  std::string name;
  int micro_batch = -1;  // or none
  Phase phase = Phase::forward;
  std::vector<std::string> nodes;      // of kernels, copies and collectives
  std::vector<std::string> operators;  // of the nodes
};

struct Track {
  int rank = 0;
  int stage = 0;
  std::string name;         // `rank 3 (stage 1) compute`
  std::vector<Span> spans;  // by their begins; what contains others stands before them
};

/// A value on its way from one stage to another.
struct Arrow {
  std::string name;
  int from = 0, to = 0;  // tracks
  std::int64_t begin = 0, end = 0;
};

struct Tracks {
  std::vector<Track> tracks;  // by rank; of each, compute, communication and further ones
  std::vector<Arrow> arrows;
};
Tracks tracks_of(const Pipeline& pipeline, const StepTrace& trace);

/// Counters of a rank's memory, by rank.
using MemoryCurves = std::map<int, std::vector<MemoryPoint>>;

/// Of the ranks that have events.
MemoryCurves memory_curves(const Pipeline& pipeline, const StepTrace& trace);

/// The text of the file. Times are in microseconds from the first event on.
std::string trace_text(const Pipeline& pipeline, const StepTrace& trace, const MemoryMarks& memory,
                       const MemoryCurves& curves);

}  // namespace shardwright
