// How the ranks of a running program talk: whole collectives, one object per rank.
//
// A communicator executes transfers (layout/transfer.h); it knows nothing of layouts or programs. Everything
// that needs looking up is done by `prepare`, so that `run` only waits and moves bytes. Sums are taken in the
// order of the ranks in the group, host by host if there are several: results are the same bits on every rank
// and in every run.
//
// All members of a group prepare and run the same transfers in the same order. One implementation per engine:
// threads of one process, and processes under MPI; later NCCL.
#pragma once

#include <cstddef>
#include <string>

#include "shardwright/layout/transfer.h"
#include "shardwright/runtime/backend/backend.h"

namespace shardwright {

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Memory in which operands and results of transfers may lie: the backend's, unless the peers must be able
  /// to read it from their processes. Holds zeros, and goes before the communicator. All ranks allocate in
  /// the same order. Throws: Error of kind memory.
  virtual Memory allocate(std::int64_t bytes, Backend& backend) { return backend.allocate(bytes); }

  /// A number by which `run` knows this transfer.
  virtual int prepare(const Transfer& transfer, DType dtype) = 0;

  /// Executes a prepared transfer: `from` is this rank's operand, `to` takes its result. They do not overlap,
  /// except that an all_reduce or a mask may work in place (`from == to`). On return nobody reads
  /// `from` any more. Neither locks nor allocates.
  /// Throws: Error of kind peer if a rank has failed.
  virtual void run(int prepared, const std::byte* from, std::byte* to) = 0;

  /// Returns when every rank has called it. Throws: as `run`.
  virtual void barrier() = 0;

  /// Tells all ranks that this one stops. From now on every waiting and every later call on any rank throws
  /// an Error of kind peer that names this rank and `message`. Only the first failure counts: returns whether
  /// this was it.
  virtual bool fail(std::string message) = 0;
};

}  // namespace shardwright
