// Sessions of one network for batches of several sizes, in one memory (passes/share_memory.h): the first has what is kept, for checkpoints
// and whoever looks at it, and each step runs in the one that its batch is for.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shardwright/runtime/start.h"

namespace shardwright {

class SessionsBySize {
 public:
  /// `first` lives longer; it was started so. `others` were prepared together with it.
  SessionsBySize(const Session& first, const std::vector<Prepared>& others, const SessionStart& start,
                 const SessionOptions& options);

  /// Which one takes tensors of such shapes, of those inputs that are there: 0 is the first. Throws: Error if none does.
  std::size_t of(const std::map<std::string, Tensor>& batch) const;
  /// In `first`, which may have moved, or in another.
  std::vector<Tensor> step(Session& first, const std::map<std::string, Tensor>& batch);
  std::size_t size() const { return inputs_.size(); }
  /// What the others run, to be started again.
  std::vector<Prepared> prepared_again() const;

 private:
  std::vector<std::map<std::string, Shape>> inputs_;  // of whole batches
  std::vector<Session> others_;
};

}  // namespace shardwright
