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
//
// Kernels and collectives tell their work, and the file tells the cluster that the step was planned for: what it takes to
// price them again (calibrate --from).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardwright/cost/cluster.h"
#include "shardwright/lower/pipeline.h"
#include "shardwright/runtime/memory_marks.h"
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
  std::vector<std::string> nodes;               // of kernels, copies and collectives
  std::vector<std::string> operators;           // of the nodes
  std::optional<Instruction> instruction = {};  // that it is about, of compute and communication
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

/// What was recorded, and what it was planned for.
struct RecordedStep {
  const Pipeline& pipeline;
  const Cluster& cluster;
  const StepTrace& trace;
  const MemoryMarks& memory;
};
/// The text of the file. Times are in microseconds from the first event on.
std::string trace_text(const RecordedStep& recorded);

/// Throws: Error of kind io.
void write_trace(const std::string& path, const RecordedStep& recorded);

}  // namespace shardwright
