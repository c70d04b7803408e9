// A network that is asked about held-out data: for `infer`, and for `train --eval`, which asks with the weights of the
// session that trains.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "shardwright/cli/held_out.h"
#include "shardwright/cli/verb.h"
#include "shardwright/frontend/graph_step.h"
#include "shardwright/lower/pipeline.h"
#include "shardwright/runtime/session.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {

/// What labels say of a network.
struct Evaluated {
  std::int64_t step = 0;             // that had been done
  double loss = 0;                   // mean over the batches that samples fill
  std::optional<double> accuracy;    // share of rows whose label has the largest score
  std::optional<double> perplexity;  // exp(loss), of sequences
  std::int64_t samples = 0;
  double seconds = 0;
};

/// A network for held-out data, planned for devices.
struct AskedNetwork {
  Model model;  // its graph's outputs: the loss if there are labels, then predictions
  Plan plan;
  Pipeline pipeline;
  std::shared_ptr<const HeldOut> data;

  bool has_labels() const { return model.loss.is_valid(); }
};

/// Plans `model` (of one batch) for what `path` holds, as flags say how.
/// Throws: Error if they do not fit each other, or nothing can be planned.
AskedNetwork asked_network(const Model& model, const std::string& path, PlanRequest request);

/// Whether labels say which of the network's scores should be the largest.
bool tells_accuracy(const AskedNetwork& network);
/// Throws: Error that begins with `--eval PATH` if nothing can be said about the data: no label, or too few samples.
void check_eval(const AskedNetwork& network, const std::string& path);

/// Called for each batch with its predictions; `rows` of it are samples.
using TakePredictions = std::function<void(const std::vector<Tensor>& predictions, std::int64_t rows)>;

/// Asks about all samples. Without a full batch of them the loss is NaN.
Evaluated ask(Session& session, const AskedNetwork& network, const TakePredictions& take = {},
              Progress* progress = nullptr);

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
