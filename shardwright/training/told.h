// What a step of a session that trains tells: its loss, other scalars, what became of the loss's scale; and its rate, which
// it is told.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/runtime/session.h"

namespace shardwright {

/// Its loss, and other scalars that the network has as outputs, such as a share of hits.
struct Told {
  double loss = 0;
  std::vector<std::pair<std::string, double>> others = {};
};

Told told_by(const Session& session, const std::vector<Tensor>& outputs);

struct ScaledBy {
  double scale = 0;
  bool has_skipped = false;  // gradients have overflowed, and nothing was updated
};

/// Of a train step with a loss scale, what became of it in the last step.
class ScaleWatch {
 public:
  explicit ScaleWatch(const Pipeline& pipeline);

  /// Behind each step, on all ranks; nothing where nothing is scaled.
  std::optional<ScaledBy> look(const Session& session);

 private:
  std::optional<ScaledBy> last_;
};

/// Of the steps that follow, in a train step whose optimizer is told its rate. Throws: Error if it is no rate.
void set_rate(Session& session, double rate, std::string_view name = rate_state);

}  // namespace shardwright
