#include "shardwright/frontend/modules/losses.h"

#include "shardwright/ops/calls.h"

namespace shardwright {

Traced CrossEntropyLoss::operator()(Traced logits, Traced labels) const {
  Trace& trace = *logits.trace;
  const Traced of_rows{&trace, cross_entropy(trace.builder(), logits.id, labels.id, "cross_entropy")};
  return trace.call("reduce_mean", {of_rows}, {}, "loss");
}

Traced MeanAbsoluteError::operator()(Traced x, Traced y) const {
  return x.trace->call("mean_absolute_error", {x, y}, {}, "loss");
}

Traced MeanSquaredError::operator()(Traced x, Traced y) const {
  return x.trace->call("mean_squared_error", {x, y}, {}, "loss");
}

Traced loss_called(std::string_view name, Traced prediction, Traced label) {
  if (name == "cross_entropy") return CrossEntropyLoss{}(prediction, label);
  if (name == "mean_absolute_error") return MeanAbsoluteError{}(prediction, label);
  if (name == "mean_squared_error") return MeanSquaredError{}(prediction, label);
  throw error("loss '{}' does not exist; there are cross_entropy, mean_absolute_error, mean_squared_error",
              name);
}

}  // namespace shardwright
