// One rank's step, ready to run: an arena, and what each instruction of the rank (lower/step.h) needs to be done.
//
// The executor has no order of its own: it does what the list says. Shapes come from layouts and boxes, never from
// local types, so unequal shards need nothing special. Kernels, transfers and copies are prepared by the constructor,
// once per slot; a step walks over flat lists and allocates nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "shardwright/lower/step.h"
#include "shardwright/runtime/backend/backend.h"
#include "shardwright/runtime/communicator/communicator.h"
#include "shardwright/runtime/communicator/vigil.h"
#include "shardwright/runtime/flight_record.h"
#include "shardwright/runtime/routed_counts.h"
#include "shardwright/runtime/trace.h"

namespace shardwright {

/// Who brings the inputs of a stage's micro-batch to the arena, and takes its outputs from there.
struct Ports {
  /// Nobody: inputs are where they should be.
  std::function<void(int stage, int micro_batch)> fill;
  /// Of those that `phase` makes. Nobody: outputs stay where they are.
  std::function<void(int stage, Phase phase, int micro_batch)> hand_out;
};

class Executor {
 public:
  /// Prepares the step of the rank of `communicator`. All ranks do so at the same time. Everything passed in must
  /// outlive the executor.
  /// `memory`: another's arena, of a program that shares it (passes/share_memory.h); empty: its own is made.
  /// Throws: Error, prefixed with the name of the node.
  Executor(const Pipeline& pipeline, Backend& backend, Communicator& communicator, Ports ports = {},
           std::span<std::byte> memory = {});
  Executor(Pipeline&&, Backend&, Communicator&, Ports = {},
           std::span<std::byte> = {}) = delete;  // it would not outlive this

  /// Step `number`; returns when all of it is done.
  /// Throws: what a kernel throws, prefixed with the name of the node; Error of kind peer if a rank failed; TimedOut, of
  /// the instruction that has waited.
  void run(int number = 0);
  /// The step is over, with all that belongs to it.
  void end_step() { is_within_step_ = false; }
  /// Of a step that has failed: puts states back. Whether all that is kept is as before it.
  bool restore();
  /// What runs from now on is recorded there; null: nowhere. Room for a step is made.
  void record(Recorder* recorder);
  /// Once `stop` is true, what runs ends between two instructions with an Error.
  void stop_when(const std::atomic<bool>* stop) { stop_ = stop; }

  /// What this rank holds of a value of one of its stages, and which part of the whole that is.
  TensorView view(int stage, ValueId v, int micro_batch = 0) const;
  const Box& box(int stage, ValueId v) const;
  const RankStep& step() const { return step_; }
  const FlightRecord& flight_record() const { return flight_record_; }
  /// Of the last step; zeros where devices have memory of their own.
  const RoutedCounts& routed() const { return routed_; }
  /// All that this rank holds in memory of its device.
  std::span<std::byte> arena() const { return memory_; }

 private:
  /// A stage of this rank.
  struct Held {
    const Program* program = nullptr;
    int rank = 0;                   // among those of the stage
    PlacedArena arena = {};         // in the rank's
    std::vector<TensorView> views;  // by value
    std::vector<Box> boxes;         // by value
  };
  /// Between device and host.
  struct HostCopy {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::size_t bytes = 0;
  };
  struct HostCopies {
    std::vector<HostCopy> copies;
    DeviceStream way = DeviceStream::fetch;
    DeviceEvent last = {};  // of those that were started
  };
  struct Copy {
    const std::byte* from = nullptr;  // null: zeros
    TensorView to;
  };
  /// An instruction with what it needs.
  struct Action {
    Instruction instruction;
    PreparedKernel kernel;       // compute
    std::size_t first_copy = 0;  // copy, clear and replace: of `copies_`
    std::size_t copies_end = 0;
    const Node* node = nullptr;  // for messages
    Phase phase = Phase::forward;
    bool is_hiding = false;   // transfers have been started and not finished
    bool is_on_host = false;  // and not on the device that is waited for
    bool is_update = false;   // from here on kept values may be new ones
  };
  using Actions = std::vector<Action>;

  /// The first micro-batch that works in a lane.
  static int first_in_lane(const Program& program, int lane);
  static std::int64_t bytes_of(const TensorView& view) {
    return view.size() * static_cast<std::int64_t>(size_of(view.dtype));
  }

  void hold_stages();
  /// Of a place in the arena of a stage.
  std::byte* address(const Held& held, std::int64_t offset) const {
    const std::int64_t place = held.arena.place(*held.program, offset, arena_bytes_);
    return place < arena_bytes_ ? memory_.data() + place : host_.data() + (place - arena_bytes_);
  }
  void place_values(Held& held);
  /// An event of the recorder, whose times the device knows.
  struct Timed {
    std::size_t event = 0;
    DeviceEvent begin, end;
  };
  void prepare_transfers();
  int prepare_host_copies(const PreparedTransfer& transfer, int micro_batch);
  void start_transfer(const Instruction& i, int micro_batch);
  void finish_transfer(const Instruction& i, int micro_batch);
  /// Of a step that has failed: memory may go when nothing is under way.
  void end_copies();
  void find_kept();
  bool is_kept(const TensorView& made) const;
  Backend& backend_of(const Node& node);
  void prepare_sections();
  /// Without a phase: the whole list.
  Actions prepare(const std::vector<Instruction>& instructions, std::optional<Phase> phase, int micro_batch);
  void prepare(Action& action, int micro_batch);
  PreparedKernel prepare_kernel(const Instruction& i, int micro_batch);
  FusedCall bind(int stage, const Node& node, int micro_batch);
  void mark_hiding(Actions& actions) const;
  void add_copy(const TensorView& from, const TensorView& to);
  void add_replacements(int stage, Phase phase);
  bool is_update(const Action& action) const;
  void set_aside_states();

  void begin(const Instruction& i, int micro_batch);
  void run(const Actions& actions, int of_section);
  void run(const Action& action, int micro_batch);
  void run_recorded(const Action& action, int micro_batch);
  int number_of(const Instruction& transfer, int micro_batch) const {
    const auto t = static_cast<std::size_t>(transfer.what);
    return numbers_[first_numbers_[t] +
                    static_cast<std::size_t>(copy_of(step_.transfers[t], micro_batch, pipeline_))];
  }
  const Held& held(int stage) const { return held_[static_cast<std::size_t>(stage)]; }
  Phase phase_of(const Instruction& i) const;
  const Node* node_of(const Instruction& i) const;
  Error with_node(const Error& e, const Action& action, int micro_batch) const;
  TimedOut with_transfer(const TimedOut& e, const Action& action, int micro_batch) const;

  const Pipeline& pipeline_;
  Backend& backend_;
  Communicator& communicator_;
  Ports ports_;
  RankStep step_;
  std::int64_t arena_bytes_ = 0;
  Memory arena_;                        // none where it is another's
  std::span<std::byte> memory_;         // the arena, whosever it is
  Memory host_;                         // none where nothing is on the host
  std::unique_ptr<Backend> of_host_;    // runs what runs there, where the device is not the host itself
  std::deque<HostCopies> host_copies_;  // by number
  std::map<const std::byte*, const std::byte*> kept_;  // what the update changes: ends, by begins
  std::vector<Held> held_;                             // by stage; empty of those that others run
  std::deque<LocalCall> calls_;                        // a deque, because kernels refer to its elements
  RoutedCounts routed_;
  std::vector<std::size_t> first_numbers_;  // by transfer: where those of its copies begin
  std::vector<int> numbers_;                // the communicator's, or of host_copies_
  std::vector<Copy> copies_;
  std::deque<Memory> staging_;
  std::vector<Copy> before_;  // of states that do not wait for the gradients of all
  bool is_within_step_ = false;
  bool has_updated_ = false;  // in this step
  Actions actions_;
  std::vector<std::vector<Actions>> sections_;  // by lane, or one
  Recorder* recorder_ = nullptr;
  std::vector<Timed> timed_;
  FlightRecord flight_record_;
  const std::atomic<bool>* stop_ = nullptr;
};

}  // namespace shardwright
