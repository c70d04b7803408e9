// What a rank does in a step, as an explicit list: every start and finish of a transfer, and the computing between them.
//
// The list follows from the pipeline and the rank alone, before anything is allocated or started, and is what the
// executor does (runtime/executor.cpp, session.cpp), instruction for instruction: tests/runtime/instructions_test.cpp
// records what executors ask of their communicators and compares. The proofs of this folder read these lists and
// nothing else of the runtime.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/lower/pipeline.h"

namespace shardwright {

/// One tensor of a transfer, as one rank takes part in it.
struct Part {
  ValueId from;  // what it gives; invalid: nothing
  ValueId to;    // what it makes; invalid: nothing
  DType dtype = DType::f32;
  Transfer transfer;  // kind, group, channel, pieces and local shapes
};

/// Tensors that a rank's communicator moves as one: a step node with those fused to it, or a crossing between stages.
struct PreparedTransfer {
  NodeId node;        // first step node of the rank's stage; invalid: a crossing
  int crossing = -1;  // of the pipeline
  int copies = 1;     // prepared as often: per slot, or per micro-batch
  std::string over;   // axes of a step
  std::vector<Part> parts;

  const std::vector<int>& group() const { return parts.front().transfer.group; }
  int channel() const { return parts.front().transfer.channel; }
  StepKind kind() const { return parts.front().transfer.kind; }
  bool moves_between_ranks() const { return group().size() > 1; }
  bool gives() const;
  bool takes() const;
};

enum class Act : std::uint8_t {
  start,     // `what`: transfer. Waits for nobody
  finish,    // `what`: transfer. Waits for all to start, and, if it gives, for all that take
  compute,   // `what`: first node of a fusion
  clear,     // accumulators
  fill,      // the inputs of the micro-batch
  hand_out,  // the outputs of the micro-batch
  replace    // `what`: phase. Leaves take their new values
};

struct Instruction {
  Act act = Act::compute;
  int what = 0;
  int micro_batch = 0;
  bool operator==(const Instruction&) const = default;
};

struct RankInstructions {
  int rank = 0;
  int stage = 0;
  std::vector<PreparedTransfer> transfers;  // in the order in which they are prepared
  std::vector<Instruction> instructions;    // of one step

  const PreparedTransfer& transfer(const Instruction& i) const {
    return transfers[static_cast<std::size_t>(i.what)];
  }
};

/// Of every rank. Cost: linear in instructions and in pieces.
std::vector<RankInstructions> instructions_of(const Pipeline& pipeline);

/// `all_reduce.sum %y over tp f32[4, 8] of ranks 0,1` or `send %x f32[4, 8] of ranks 0,2 from stage 0 to 1`.
std::string to_text(const PreparedTransfer& transfer, const Pipeline& pipeline, int stage);
/// The same as an instruction, with its micro-batch if there are several: `start all_reduce...`.
std::string to_text(const RankInstructions& rank, const Instruction& i, const Pipeline& pipeline);

}  // namespace shardwright
