// A network that is asked about held-out data: for `infer`, and for `train --eval`, which asks with the weights of the
// session that trains.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "shardwright/frontend/held_out.h"
#include "shardwright/runtime/start.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {

/// A network for held-out data, planned for devices.
struct AskedNetwork {
  Model model;  // its graph's outputs: the loss if there are labels, then predictions
  Plan plan;
  Prepared program;
  std::shared_ptr<const HeldOut> data;

  bool has_labels() const { return model.loss.is_valid(); }
};

/// Plans `model` (of one batch) for what `source` holds, as `request` says, for the device of `options`.
/// Throws: Error if they do not fit each other, or nothing can be planned.
AskedNetwork asked_network(const Model& model, const SampleSource& source, PlanRequest request,
                           const PrepareOptions& options);

/// Whether labels say which of the network's scores should be the largest.
bool tells_accuracy(const AskedNetwork& network);
/// Throws: Error that begins with `called`, as `--eval PATH`, if nothing can be said about the data: no label, or too few samples.
void check_eval(const AskedNetwork& network, const std::string& called);

/// How to ask a session of it.
AskOptions ask_options_of(const AskedNetwork& network);

/// Held-out data beside a session that trains.
class Evaluator {
 public:
  /// `network` outlives it.
  Evaluator(const AskedNetwork& network, const SessionStart& start, const SessionOptions& options);

  /// With the weights that `trained` has. All processes do so at the same time.
  Evaluated operator()(const Session& trained, std::int64_t step);

 private:
  const AskedNetwork& network_;
  Session session_;
};

}  // namespace shardwright
