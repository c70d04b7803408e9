// A step as data: what every rank does in it, and in which order, as lists of instructions.
//
// They follow from the pipeline and the rank alone, before anything is allocated or started. The runtime interprets
// them (runtime/executor.h), the simulator times them, the verifier proves them, traces are named by them: nobody else
// knows the order of a step.
//
// A pass of a micro-batch through a section of a stage (its forward, its backward, its update) is one instruction of
// the rank's list, `run`; what stands in the section is the same for every micro-batch and is written once. So a list
// grows with nodes plus micro-batches, not with their product, until it is unrolled.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shardwright/lower/pipeline.h"

namespace shardwright {

/// One tensor of a transfer, as one rank takes part in it.
struct Part {
  ValueId from;  // what it gives; invalid: nothing
  ValueId to;    // what it makes; invalid: nothing
  ValueId ids;   // of rows that are routed (layout/routing.h); invalid: all of them move
  DType dtype = DType::f32;
  std::shared_ptr<const Transfer>
      transfer;  // kind, group, channel, pieces and local shapes; shared by equal steps
};

/// Tensors that a rank's communicator moves as one: a step node with those fused to it, or a crossing between stages.
struct PreparedTransfer {
  int from_stage = 0;  // whose values the parts give
  int to_stage = 0;    // and make; another one of crossings
  NodeId node;         // first step node; invalid: a crossing
  int crossing = -1;   // of the pipeline
  int copies = 1;      // prepared as often: of a step by lane, of what crosses by micro-batch
  std::string over;    // axes of a step
  std::vector<Part> parts;

  const std::vector<int>& group() const { return parts.front().transfer->group; }
  int channel() const { return parts.front().transfer->channel; }
  StepKind kind() const { return parts.front().transfer->kind; }
  bool moves_between_ranks() const { return group().size() > 1; }
  bool gives() const;
  bool takes() const;
};

enum class Act : std::uint8_t {
  start,     // `what`: transfer. Waits for nobody
  finish,    // `what`: transfer. Waits for all to start, and, if it gives, for all that take
  compute,   // `what`: first node of a fusion
  copy,      // `what`: node. Its operand under another name, in another place
  keep,      // `what`: first node. Its results are in place with nothing done
  clear,     // accumulators
  fill,      // the inputs of the micro-batch
  hand_out,  // `what`: phase. The outputs that it makes: of the micro-batch, or in the update of the step
  replace,   // `what`: phase. Leaves take their new values, all at once
  run        // `what`: section
};

/// Which copy of a transfer a micro-batch has.
int copy_of(const PreparedTransfer& transfer, int micro_batch, const Pipeline& pipeline);

/// Behind which of a step's parts an output is there.
Phase handed_out_in(const Graph& graph, ValueId output);

struct Instruction {
  Act act = Act::compute;
  int stage = 0;  // whose program it is about; of a crossing, that of the rank's end that acts
  int what = 0;
  int micro_batch = 0;  // in a section 0: that of its run
  bool operator==(const Instruction&) const = default;
};

/// What a rank does for one micro-batch.
struct Section {
  int stage = 0;
  Phase phase = Phase::forward;
  bool only_last = false;  // of the last micro-batch to run it, with which some of the update begins
  std::vector<Instruction> instructions;
};

struct RankStep {
  int rank = 0;
  std::vector<PreparedTransfer> transfers;  // in the order in which they are prepared
  std::vector<Section> sections;
  std::vector<Instruction> instructions;

  const PreparedTransfer& transfer(const Instruction& i) const {
    return transfers[static_cast<std::size_t>(i.what)];
  }
  const Section& section(const Instruction& run) const {
    return sections[static_cast<std::size_t>(run.what)];
  }
};

/// In which phase of the step a leaf takes its new value.
Phase replaced_in(const Program& program, const Update& update);

/// Of every rank. Cost: linear in instructions and in pieces.
std::vector<RankStep> steps_of(const Pipeline& pipeline);
std::vector<RankStep> steps_of(const Pipeline& pipeline, std::span<const int> ranks);
/// Of one.
RankStep step_of(const Pipeline& pipeline, int rank);
/// Of the first rank of every stage; of an interleaved schedule, of those that share their devices. What the ranks of a stage move
/// is without its pieces.
std::vector<RankStep> steps_of_stages(const Pipeline& pipeline);

/// The same step without sections: what they hold stands where they run.
RankStep unrolled(RankStep step);

/// `all_reduce.sum %y over tp f32[4, 8] of ranks 0,1` or `send %x f32[4, 8] of ranks 0,2 from stage 0 to 1`.
std::string to_text(const PreparedTransfer& transfer, const Pipeline& pipeline);
/// `start all_reduce...`, `run backward`; with its micro-batch if there are several and it has one.
std::string to_text(const RankStep& step, const Instruction& i, const Pipeline& pipeline);
/// The whole list, then each section that it runs.
std::string to_text(const RankStep& step, const Pipeline& pipeline);
/// The step of a rank of `pipeline`, in the order that the text gives. Sections that it does not name are empty.
/// Throws: Error that names the line.
RankStep parse_step(std::string_view text, const Pipeline& pipeline);

}  // namespace shardwright
