// What crosses between stages, as one rank takes part in it.
//
// A flow is a crossing, with a transfer prepared for each micro-batch. A send starts where its value is made and is
// finished when its memory is wanted again, so that no stage waits for a later one to take it: what the forward sends
// lies there until the backward of the same micro-batch, what the backward sends until the next backward. A receive
// starts one task ahead and is finished where its value is read.
#pragma once

#include <functional>
#include <vector>

#include "shardwright/lower/pipeline.h"
#include "shardwright/runtime/communicator/communicator.h"
#include "shardwright/runtime/trace.h"

namespace shardwright {

struct Flow {
  ValueId value;  // of the rank's stage
  bool is_send = false;
  CrossingTime time = CrossingTime::micro_batch;
  Phase phase = Phase::forward;
  DType dtype = DType::f32;
  Transfer transfer;
};

/// A rank's place in a pipeline.
struct StageRank {
  int first_rank = 0;  // of its stage
  std::vector<Flow> flows;
};
StageRank stage_rank(const Pipeline& pipeline, int rank);

class Flows {
 public:
  Flows(std::vector<Flow> flows, Communicator& communicator, int slots);

  /// Prepares all transfers, in an order that is the same on all ranks. `data` says where a value lies for a
  /// micro-batch. Everybody does so at the same time.
  void prepare(int micro_batches, const std::function<std::byte*(ValueId, int micro_batch)>& data);

  bool empty() const { return flows_.empty(); }
  const std::vector<Flow>& all() const { return flows_; }

  /// The value of flow `f` has been made; it is on its way.
  void send(int f, int micro_batch);
  /// Returns when the value is there.
  void receive(int f, int micro_batch);
  /// Lets the receives of a task, of the step's begin or of the update, begin.
  void expect(CrossingTime time, Phase phase, int micro_batch);
  /// Sends whose memory the task is going to write are over.
  void make_room_for(const Task& task);
  /// The same at the end of a phase of the step.
  void finish_sends(CrossingTime time);

  /// Where receives that begin and sends that end are recorded; null: nowhere.
  void record(Recorder* recorder) { recorder_ = recorder; }

 private:
  /// Begins or ends the transfer of flow `f`, and records that.
  void run(Activity activity, std::size_t f, int micro_batch);
  void finish_sends_until(std::size_t f, int micro_batch);

  std::vector<Flow> flows_;
  Communicator& communicator_;
  int slots_;
  std::vector<std::vector<int>> transfers_;  // by flow and micro-batch; of others one
  std::vector<int> started_, finished_;      // by flow: sends in this step
  Recorder* recorder_ = nullptr;
};

}  // namespace shardwright
