// The way of training data, written as in the seeds:
//
//   Dataset data = mnist_dataset(path)
//                      .map("image", {rescale(1 / 255.0, 0), normalize({0.1307}, {0.3081}), hwc_to_chw()})
//                      .map("label", {type_cast(DType::i32)})
//                      .shuffle(seed)
//                      .batch(32);
//   for (const Batch& batch : data.epoch(0)) train(batch["image"], batch["label"]);
//
// A dataset is a value; each call returns a new one over the same samples. Nothing is transformed before a
// batch needs it. Batch `i` of epoch `e` is a pure function of the two: it does not depend on what was read
// before, nor on the plan.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/base/tensor.h"
#include "shardwright/runtime/mnist.h"

namespace shardwright {

/// Named tensors of one step.
struct Batch {
  std::map<std::string, Tensor, std::less<>> columns;

  /// Throws: Error with near names if there is no such column.
  const Tensor& operator[](std::string_view column) const;
};

/// One function of a column. `type` is asked once, when the pipeline is built, and refuses what does not fit.
struct Transform {
  std::string name;
  std::function<Type(const Type& sample)> type;
  std::function<Tensor(Tensor batch)> apply;  // [batch, sample...] -> [batch, new sample...]
};

/// x * factor + shift, as f32.
Transform rescale(double factor, double shift);
/// (x - mean) / deviation, as f32; one of each, or one per channel, which is the last dim.
Transform normalize(std::vector<double> mean, std::vector<double> deviation);
/// [height, width, channels] -> [channels, height, width]
Transform hwc_to_chw();
Transform type_cast(DType dtype);
/// The same elements in another shape of the sample.
Transform reshape(const Shape& sample);

class Epoch;

class Dataset {
 public:
  /// Samples lie along the first dim, of which all columns have the same size.
  explicit Dataset(std::map<std::string, Tensor> columns);

  /// Throws: Error if the column is unknown or a transform does not fit what comes before it.
  Dataset map(std::string_view column, const std::vector<Transform>& transforms) const;
  /// A new order in every epoch.
  Dataset shuffle(std::uint64_t seed) const;
  /// Samples that do not fill the last batch are left out of the epoch.
  Dataset batch(std::int64_t size) const;

  std::int64_t samples() const;
  std::int64_t batches_per_epoch() const;
  std::vector<std::string> columns() const;
  /// Type of a column of a batch; of one sample before `batch` is called.
  Type type(std::string_view column) const;

  Batch get(std::int64_t epoch, std::int64_t index) const;
  /// The batch of a step that counts through all epochs.
  Batch at_step(std::int64_t step) const;
  Epoch epoch(std::int64_t number) const;

 private:
  struct Column {
    std::shared_ptr<const Tensor> samples;
    std::vector<Transform> transforms;
    Type sample;  // behind all transforms
  };
  const Column& column(std::string_view name) const;

  std::map<std::string, Column, std::less<>> columns_;
  std::optional<std::uint64_t> seed_;
  std::int64_t batch_ = 0;
};

/// The batches of one epoch, for a range-based `for`.
class Epoch {
 public:
  class Iterator {
   public:
    Iterator(const Dataset* dataset, std::int64_t epoch, std::int64_t index)
        : dataset_(dataset), epoch_(epoch), index_(index) {}
    Batch operator*() const { return dataset_->get(epoch_, index_); }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return index_ != other.index_; }

   private:
    const Dataset* dataset_;
    std::int64_t epoch_;
    std::int64_t index_;
  };

  Epoch(Dataset dataset, std::int64_t number) : dataset_(std::move(dataset)), number_(number) {}
  Iterator begin() const { return {&dataset_, number_, 0}; }
  Iterator end() const { return {&dataset_, number_, dataset_.batches_per_epoch()}; }

 private:
  Dataset dataset_;
  std::int64_t number_;
};

/// Columns `image` u8 [28, 28, 1] and `label` u8.
Dataset mnist_dataset(const std::string& directory, MnistPart part = MnistPart::train);

/// The place of `index` in a random order of 0..count-1, in O(1) and without memory.
/// A Feistel network is a permutation of 2^k numbers whatever its round function; walking on from results
/// that are not below `count` makes it one of `count` numbers (Black and Rogaway 2002).
std::int64_t shuffled(std::int64_t index, std::int64_t count, std::uint64_t seed, std::int64_t epoch);

}  // namespace shardwright
