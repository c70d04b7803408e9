// Whole values for every process of a run: each rank gives the part that it holds.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "shardwright/lower/pipeline.h"
#include "shardwright/runtime/backend/backend.h"
#include "shardwright/runtime/communicator/communicator.h"

namespace shardwright {

class Gather {
 public:
  /// `largest`: bytes of the largest whole value. All ranks make theirs at the same time.
  Gather(const Pipeline& pipeline, Communicator& communicator, Backend& backend, std::int64_t largest);

  /// Brings the whole of value `v` of `stage` to `whole`. `part`: what this rank holds of it, row-major; of ranks of
  /// other stages nothing. All ranks do so at the same time.
  void operator()(int stage, ValueId v, const std::byte* part, std::byte* whole);

 private:
  const Pipeline& pipeline_;
  Communicator& communicator_;
  Mesh everyone_;
  Memory part_;
  Memory whole_;
  std::map<std::pair<int, int>, int> transfers_;  // by stage and value
};

/// Of numbers that each rank has as many of, the sums or the largest over all ranks, on all of them; as often as wanted.
/// All ranks make theirs and use it at the same time.
class Reduced {
 public:
  Reduced(Communicator& communicator, Backend& backend, std::size_t count, Reduction reduction);
  std::vector<std::int64_t> operator()(std::span<const std::int64_t> own);

 private:
  Communicator& communicator_;
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
