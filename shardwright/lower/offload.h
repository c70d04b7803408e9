// Memory of the host: what of a program lies there and what runs there, and the copies between it and the device.
//
// Parameters, states and activations that a plan keeps on the host are brought to the device for those who read them, by a
// `fetch` for each phase, and back by an `evict`. What runs on the host (Node::space) gets its operands by an evict and
// gives its results by a fetch. Both are steps as others are: they start early and are waited for late, so that what lies
// between hides them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "shardwright/lower/offloaded_values.h"
#include "shardwright/lower/program.h"
#include "shardwright/plan/offload.h"

namespace shardwright {

/// A planned graph whose nodes of the operators that `offload` names run on the host, with the backward, the parameters and
/// the updates that belong to them (Node::owner). Operators of other stages are passed over.
Graph with_hosted(Graph graph, const Offload& offload);

/// Times what two neighbours hold at most, what is copied each way may hold of the device's memory. With one of fetches a layer's
/// activations were waited for a sixth of the step, with three no less than with two.
constexpr int evicts_held = 1, fetches_held = 2;
/// And one of so many shares of what lies on the device or the host of all micro-batches that are alive: what goes to the host
/// is to leave the device.
constexpr int shares_of_copies = 16;
/// Bytes of it, in a phase that copies `of_all` or lets it stay. Where that is less than `of_two`, one copy is on its way beside the one before.
template <class Bytes>
constexpr Bytes most_held(int times, Bytes of_two, Bytes of_all, int shares = shares_of_copies) {
  return std::min(static_cast<Bytes>(times) * of_two, of_all / static_cast<Bytes>(shares));
}

/// What phases copy one way, in the order of the copies; of each micro-batch that is alive, or once for all.
class CopiedBytes {
 public:
  void add(Phase phase, std::int64_t bytes, int alive = 1) {
    of_two_[phase] = std::max(of_two_[phase], last_[phase] + bytes);
    of_all_[phase] += alive * bytes;
    last_[phase] = bytes;
  }
  /// What stays where it is beside what is copied.
  void add_staying(Phase phase, std::int64_t bytes) { of_all_[phase] += bytes; }
  std::int64_t of_two(Phase phase) const { return of_two_[phase]; }
  std::int64_t most(int times, Phase phase, int shares = shares_of_copies) const {
    return most_held(times, of_two_[phase], of_all_[phase], shares);
  }

 private:
  OfPhases<std::int64_t> of_two_ = {}, of_all_ = {}, last_ = {};  // of two neighbours at most
};

/// The program with what `offload` keeps on the host there. The order of its nodes stays.
Program with_offload(Program program, const Offload& offload, const CopyPace& pace);

}  // namespace shardwright
