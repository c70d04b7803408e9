// Data that a network is asked about, not trained on: all samples of a file in their order, batch by batch.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "shardwright/base/tensor.h"
#include "shardwright/frontend/model.h"

namespace shardwright {

class HeldOut {
 public:
  /// From a safetensors file of samples [samples, ...] or steps [steps, batch, ...], which is told by the ranks of the
  /// model's inputs, or the test part of what samples.h reads. The label may be missing.
  /// Throws: Error if they do not fit the model's inputs, naming both types.
  HeldOut(const Model& model, const std::string& path);

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
};

/// Of predictions [rows, ..., classes] and labels [rows, ...], of the first `rows`.
struct Hits {
  std::int64_t hits = 0, count = 0;
  void add(const Tensor& prediction, const Tensor& label, std::int64_t rows);
  double share() const { return count == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(count); }
};
/// Whether predictions of this type are scores of the classes that the label numbers.
bool are_scores(const Type& prediction, const Type& label);

}  // namespace shardwright
