// Values and numbers for every process of a run: each rank gives what it holds.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "shardwright/lower/pipeline.h"
#include "shardwright/runtime/backend/backend.h"
#include "shardwright/runtime/communicator/communicator.h"

namespace shardwright {

/// Among the ranks that hold the same part of a value, the lowest owns it: it alone gives it to others.
bool owns(const Pipeline& pipeline, int stage, ValueId v, int rank);

/// Takes little memory, however large the values are: what is gathered passes through a window, piece by piece.
class Gather {
 public:
  /// All ranks make theirs at the same time, and use it at the same time.
  Gather(const Pipeline& pipeline, Communicator& communicator, Backend& backend);

  /// Brings the part `where` of value `v` of `stage` to `to`, a row-major tensor. `own`: what this rank holds of it,
  /// row-major; of ranks of other stages nothing.
  void operator()(int stage, ValueId v, const std::byte* own, std::byte* to, const Box& where);

  /// Numbers of which each rank has as many: those of all, by rank, on every one.
  std::vector<std::vector<std::uint64_t>> of_all(std::span<const std::uint64_t> own);

 private:
  void broadcast(int owner, std::span<std::byte> bytes);
  int transfer(int owner, std::int64_t numbers);

  const Pipeline& pipeline_;
  Communicator& communicator_;
  Backend& backend_;
  Memory window_;
  std::map<std::pair<int, std::int64_t>, int> transfers_;  // by owner and size
};

/// That a Gather prepares on each of so many ranks, at most.
std::size_t most_transfers_of_gather(int ranks);

/// Of numbers that each rank has as many of, the sums or the largest over all ranks, on all of them; as often as wanted.
/// All ranks make theirs and use it at the same time.
class Reduced {
 public:
  Reduced(Communicator& communicator, Backend& backend, std::size_t count, Reduction reduction);
  std::vector<std::int64_t> operator()(std::span<const std::int64_t> own);

 private:
  Communicator& communicator_;
  Backend& backend_;
  Memory memory_;
  int transfer_;
};
/// Once.
std::vector<std::int64_t> reduced(Communicator& communicator, Backend& backend,
                                  std::span<const std::int64_t> own, Reduction reduction);
/// The numbers of every rank, by rank, on rank 0; on others nothing. They may be of different lengths. The memory
/// that ranks share for it does not grow with them. All ranks do so at the same time.
std::vector<std::vector<std::int64_t>> gathered(Communicator& communicator, Backend& backend,
                                                std::span<const std::int64_t> own);

}  // namespace shardwright
