// A pipeline of programs running on virtual devices in this process: one thread, arena and communicator per rank; or one
// of its ranks, the others being in other processes.
//
// Users speak of whole tensors or of parts; each rank takes and gives its own part, by the layout that the program says.
// The threads live as long as the session and are woken for each step. When a rank fails all of them stop,
// and the step throws that rank's error; a session that failed runs nothing any more. If it failed before any rank began to
// update, what it keeps is as before the step, and another one can take it over.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/lower/pipeline.h"
#include "shardwright/runtime/boxes.h"
#include "shardwright/runtime/communicator/communicator.h"
#include "shardwright/runtime/communicator/vigil.h"
#include "shardwright/runtime/kept.h"
#include "shardwright/runtime/memory_marks.h"
#include "shardwright/runtime/trace.h"

namespace shardwright {

struct SessionOptions {
  std::uint64_t seed = 0;     // of the initial values
  bool only_scalars = false;  // other outputs stay on the devices; `step` returns no elements for them
  const std::atomic<bool>* stop = nullptr;  // once it is true, a step fails between two of its nodes
  DeviceKind devices = default_devices();   // a backend for each rank
  TraceClock clock = TraceClock::machine;   // of what is recorded
  /// Of waiting for a rank that does not come (communicator/vigil.h). A communicator that is passed in has its own.
  std::chrono::nanoseconds timeout = usual_timeout;
  /// By rank of this process: that of another session (`Session::memory`), which lives longer; what it keeps is this one's, too. Their
  /// programs share memory (passes/share_memory.h), and run in turn. Empty: its own, with initial values.
  std::vector<std::span<std::byte>> memory = {};
  std::string failures = {};  // folder for what each rank did last, if any fails; empty: it is not written
};

/// Per rank; of the rank that has most.
struct SessionStatistics {
  std::int64_t arena_bytes = 0;
  std::map<std::string, int> collectives_per_step;  // all_reduce, all_gather, ...: what moves between ranks
  std::int64_t bytes_communicated_per_step = 0;     // received
};

/// How many transfers a session of `pipeline` prepares on a rank, at most.
std::size_t most_transfers(const Pipeline& pipeline);

/// Of a program that is prepared: start_threads, start_rank (runtime/start.h).
class Session {
 public:
  /// Starts the ranks, prepares its program on each and fills parameters and states with their initial
  /// values. Throws: Error if a node cannot be prepared; `rank R: ` says where; or, of kind memory and before anything is
  /// made, if the machine has less than all devices' arenas.
  explicit Session(Pipeline pipeline, SessionOptions options = {});
  /// Runs only the rank of `communicator`, on the calling thread, from which all other calls come, too. All processes make the same calls with the
  /// same arguments, and each gets whole tensors. After a failure, the errors of all ranks but the first that
  /// failed are of kind peer.
  Session(Pipeline pipeline, std::unique_ptr<Communicator> communicator, SessionOptions options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  const Pipeline& pipeline() const;
  /// The only stage's, or the first's.
  const Program& program() const;
  const SessionStatistics& statistics() const;
  const DeviceKind& device() const;
  /// All that its ranks hold on their devices, for sessions that share it.
  std::vector<std::span<std::byte>> memory() const;

  /// Of experts that devices share: how many times the mean of what routers give them the busiest had in the last step. On all
  /// processes at the same time; on others than the first, and without such experts, nothing.
  std::optional<double> routing_imbalance() const;

  /// Those that this process runs.
  std::vector<int> ranks() const;
  /// Parameters and states by name: which parts of them a rank holds, and which it alone gives.
  const KeptValues& kept() const;

  /// Sets a parameter or state to a whole tensor; or its part `where`, as far as ranks of this process hold it.
  /// Throws: Error if there is none of this name, or if its type is another.
  void set(std::string_view name, const Tensor& whole);
  void set(std::string_view name, const Box& where, const Tensor& part);
  /// The whole of a parameter or state; or its part `where`, which no process then has more of.
  Tensor get(std::string_view name) const;
  Tensor get(std::string_view name, const Box& where) const;
  /// Likewise, from ranks of this process alone: others need not ask.
  /// Throws: Error if some of it is elsewhere.
  Tensor get_own(std::string_view name, const Box& where) const;

  /// A step has failed.
  bool has_stopped() const;
  /// Takes all that `before` keeps, a session of the same pipeline and the same ranks, bit for bit; it may have stopped.
  /// Throws: Error if its values are lost.
  void take_over(const Session& before);

  /// Brings what ranks of this process hold of parameters and states out, each on its own thread: part `i` of
  /// `parts[rank]`, in users' precision and row-major, to `to(rank, i)`, as `place_of` has it.
  void copy_out(const std::vector<std::vector<NamedBox>>& parts,
                const std::function<std::byte*(int rank, std::size_t i)>& to) const;
  /// Brings all that they hold in, likewise, in blocks of some MiB: `from` fills `to` with a part of what is called
  /// `name`; what it has nothing of (false) stays. It is called by several threads at the same time.
  using PartSource = std::function<bool(const std::string& name, const Box& where, std::span<std::byte> to)>;
  void copy_in(const PartSource& from);

  /// All that ranks of this process keep, bit for bit, in memory of the host; and back.
  using Snapshot = std::vector<std::vector<Tensor>>;  // by rank here, and by what it keeps
  Snapshot snapshot() const;
  void restore(const Snapshot& before);

  /// Checksums of all that ranks of this process keep: by rank here, and by what any rank keeps, 0 where another does.
  std::vector<std::vector<std::uint64_t>> checksums() const;
  /// What each of them is a checksum of.
  std::vector<std::string> checksum_names() const;
  /// Of what several ranks hold, how many values there are, and how copies differ; empty: they do not. All processes ask at
  /// the same time, and all are told.
  struct Replicas {
    std::int64_t values = 0;
    std::string difference = {};
  };
  Replicas compare_replicas() const;

  /// Of the first step whose loss was NaN or infinite, which rank made the first such number, and where: by what was still
  /// in memory when the loss was handed out. Nothing if none is found. All processes ask at the same time.
  struct Odd {
    int rank = 0;
    int micro_batch = 0;
    std::string text = {};  // `%y = exp on rank 2, micro-batch 1`
    std::string node = {};  // `%y`
  };
  std::optional<Odd> odd_value() const;

  /// Runs one step on `batch`: a whole tensor per input, by name. Returns the whole outputs, in the order of
  /// the graph's outputs. With several micro-batches an input is the whole batch, or, if it has the size of one,
  /// goes to each; scalar outputs are means over them, others stand side by side along dim 0. Parameters and states
  /// hold their new values afterwards.
  /// Throws: Error before anything runs if an input is missing, unknown or of another type; an Error that
  /// starts with `rank R: ` if a rank failed, or, where others are in other processes, for either reason. An Error of kind
  /// timeout, from this and all others, if a rank was waited for that has not come.
  std::vector<Tensor> step(const std::map<std::string, Tensor>& batch);
  /// Likewise, on what ranks of this process take of the batch (`input_parts`), or more; parts may overlap. Nothing
  /// whole is made. Throws: Error before anything runs if some of it is missing, too.
  std::vector<Tensor> step_on_parts(const BatchParts& batch);

  /// The number that the next step has in records and in what is told, 0 at first; it is counted on from there.
  int next_step() const;
  void set_next_step(std::int64_t number);

  /// Whether `own` is true in any of the processes. All of them ask at the same time.
  bool any(bool own);

  /// Whether steps from now on are recorded.
  void record(bool is_on);
  /// The steps that have been recorded, on one clock. All processes ask at the same time, and that of rank 0 gets them.
  StepTrace trace() const;
  /// Likewise; what is planned all processes get.
  MemoryMarks memory_marks() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardwright
