// How the ranks of a running program talk: whole collectives, one object per rank.
//
// A communicator executes transfers (layout/transfer.h); it knows nothing of layouts or programs. Everything
// that needs looking up is done by `prepare`, so that running only waits and moves bytes. Sums are taken in the
// order of the ranks in the group, host by host if there are several: results are the same bits on every rank
// and in every run.
//
// A transfer is started when its operand is ready and finished when its result is wanted; what lies between
// hides it. All members of a group prepare, start and finish the same transfers, each in one order (those of different
// channels of a group in any). One
// implementation per engine: threads of one process, and processes under MPI; later NCCL.
//
// A communicator belongs to a kind of memory, because it reads operands and writes results itself. `threads` and `mpi`
// do so on the host: theirs is memory of which `Backend::is_host` is true. A device with other memory has a communicator
// of its own, or `staged` (staged.h), which brings operands to the host and results back.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "shardwright/layout/transfer.h"
#include "shardwright/runtime/backend/backend.h"
#include "shardwright/runtime/communicator/vigil.h"

namespace shardwright {

/// A transfer, and where this rank holds its operand and its result. They do not overlap, except that an
/// all_reduce or a mask may work in place (`from == to`). A rank that gives or takes nothing has no operand or result:
/// who only gives need not be waited for, and who only takes does not wait for others that take.
struct BoundTransfer {
  Transfer transfer;
  DType dtype = DType::f32;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  // Where rows are routed: `choices` ids for each row of the side on which they are together.
  const std::byte* ids = nullptr;
  DType ids_dtype = DType::i32;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Memory in which operands and results of transfers may lie: the backend's, unless the peers must be able
  /// to read it from their processes. Holds zeros, and goes before the communicator and the backend. All ranks allocate
  /// in the same order. Throws: Error of kind memory.
  virtual Memory allocate(std::int64_t bytes, Backend& backend) { return backend.allocate(bytes); }

  /// Transfers of one group that run as one: its members meet once for all of them. Returns a number by which
  /// the other functions know them.
  virtual int prepare(std::span<const BoundTransfer> transfers) = 0;

  /// Says that the operands are ready; waits for nobody. Until `finish` returns the operands are not written,
  /// and results of an all_reduce neither read nor written: peers may be at work on them.
  /// Throws: Error of kind peer if a rank is known to have failed; InternalError if a peer has started another
  /// transfer instead; where operands have to be brought to the host first, a later call does.
  virtual void start(int prepared) = 0;
  /// Moves on what has been started, as far as that needs no waiting. Where nothing moves by itself (MPI
  /// between hosts), only as much is hidden as there are calls of this. Looks for no failure.
  virtual void progress() = 0;
  /// Returns when the results are there and nobody reads this rank's operands any more. Neither locks nor
  /// allocates. Throws: Error of kind peer if a rank has failed; TimedOut if one that must come is given up (vigil.h).
  virtual void finish(int prepared) = 0;

  void run(int prepared) {
    start(prepared);
    finish(prepared);
  }

  /// Says that this rank goes on, where it does so for long without its peers: who waits for it will wait.
  virtual void act() {}
  /// Likewise, with this, which others can say of it.
  virtual void enter(const StepPlace&) { act(); }
  /// How places of the session that has this communicator are put into words, by any thread; null: not any more.
  virtual void describe_by(StepPlaceWords) {}

  /// Returns when every rank has called it. Throws: as `finish`.
  virtual void barrier() = 0;

  /// Tells all ranks that this one stops. From now on every waiting and every later call on any rank throws
  /// an Error of kind peer that names this rank and `message`. Only the first failure counts: returns whether
  /// this was it.
  virtual bool fail(std::string message) = 0;
};

}  // namespace shardwright
