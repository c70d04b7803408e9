// How long ago a kernel's tensors were touched last, which says in which cache they still are.
//
// Kernels run in their order, step after step, over the bytes of one arena. A cache of C bytes holds what was touched
// within the last C bytes of traffic, about: least recently used goes first. So of every range of the arena the traffic
// up to its last touch is kept, and a touch now is as far away as the traffic since then, the tensor's own bytes
// included: its first line was touched that long ago. Two walks: the first is the step before.
// With slots the first one stands for all.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "shardwright/lower/program.h"

namespace shardwright {

struct Touch {
  double bytes = 0;  // read or written
  double since = 0;  // bytes of traffic since all of them were touched; never more than the arena
};

class Reuse {
 public:
  /// Cost: n log n in nodes.
  explicit Reuse(const Program& program);

  /// Of the fusion that begins with node `first`.
  std::span<const Touch> of(int first) const;

 private:
  std::vector<Touch> touches_;
  std::unordered_map<int, std::pair<std::size_t, std::size_t>> ranges_;  // by first node
};

}  // namespace shardwright
