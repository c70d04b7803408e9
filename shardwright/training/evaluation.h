// Data that a network is asked about, not trained on: all samples in their order, batch by batch, and what labels say of
// its answers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/base/tensor.h"
#include "shardwright/runtime/session.h"

namespace shardwright {

class Progress;

/// What labels say of a network.
struct Evaluated {
  std::int64_t step = 0;                  // that had been done
  double loss = 0;                        // mean over the batches that samples fill
  std::optional<double> accuracy = {};    // share of rows whose label has the largest score
  std::optional<double> perplexity = {};  // exp(loss), of sequences
  std::int64_t samples = 0;
  double seconds = 0;
};

class HeldOut {
 public:
  /// Columns [samples, ...] by input name, in batches of so many. Throws: Error that begins with `called` if they differ in
  /// their samples, or are too few.
  HeldOut(std::map<std::string, Tensor> columns, std::int64_t batch, const std::string& called);
  /// The inputs of one step as they are, whatever their dims mean; where all have as many rows, these are samples.
  static HeldOut of_one_step(std::map<std::string, Tensor> inputs);

  /// There is one step, whose inputs need not be samples.
  bool is_one_step() const { return is_one_step_; }
  bool has(const std::string& input) const { return columns_.contains(input); }
  /// All samples. Throws: std::out_of_range if there is no such input.
  const Tensor& column(const std::string& input) const { return columns_.at(input); }
  std::int64_t samples() const { return samples_; }
  std::int64_t batch() const { return batch_; }
  std::int64_t batches() const { return (samples_ + batch_ - 1) / batch_; }
  /// How many rows of batch `i` are samples: the last one repeats its last sample behind them.
  std::int64_t rows(std::int64_t i) const;
  std::map<std::string, Tensor> get(std::int64_t i) const;

 private:
  std::map<std::string, Tensor> columns_;  // [samples, ...]
  std::int64_t samples_ = 0, batch_ = 0;
  bool is_one_step_ = false;

  HeldOut() = default;
};

/// Of predictions [rows, ..., classes] and labels [rows, ...], of the first `rows`.
struct Hits {
  std::int64_t hits = 0, count = 0;
  void add(const Tensor& prediction, const Tensor& label, std::int64_t rows);
  double share() const { return count == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(count); }
};
/// Whether predictions of this type are scores of the classes that the label numbers.
bool are_scores(const Type& prediction, const Type& label);

/// Called for each batch with its predictions; `rows` of it are samples.
using TakePredictions = std::function<void(const std::vector<Tensor>& predictions, std::int64_t rows)>;

struct AskOptions {
  bool has_labels = false;  // the session's outputs are the loss, then predictions; else predictions
  bool are_sequences = false;
  TakePredictions take = {};
  Progress* progress = nullptr;
};

/// Asks about all samples. Without a full batch of them the loss is NaN.
Evaluated ask(Session& session, const HeldOut& data, const AskOptions& options);

}  // namespace shardwright
