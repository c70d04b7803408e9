// The way of training data, written as in the seeds:
//
//   Dataset data = mnist_dataset(path)
//                      .map("image", {rescale(1 / 255.0, 0), normalize({0.1307}, {0.3081}), hwc_to_chw()})
//                      .map("label", {type_cast(DType::i32)})
//                      .shuffle(seed)
//                      .batch(32);
//   for (const Batch& batch : data.epoch(0)) train(batch["image"], batch["label"]);
//
// A dataset is a value; each call returns a new one over the same samples (rows.h). Nothing is transformed before a
// batch needs it. Batch `i` of epoch `e` is a pure function of the two: it does not depend on what was read
// before, nor on the plan.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardwright/base/tensor.h"
#include "shardwright/runtime/data/image_transforms.h"
#include "shardwright/runtime/data/mnist.h"
#include "shardwright/runtime/data/rows.h"
#include "shardwright/runtime/data/transform.h"

namespace shardwright {

/// Named tensors of one step.
struct Batch {
  std::map<std::string, Tensor, std::less<>> columns;

  /// Throws: Error with near names if there is no such column.
  const Tensor& operator[](std::string_view column) const;
};

class Epoch;

class Dataset {
 public:
  /// Samples lie along the first dim, of which all columns have the same size. They are in the order of their names.
  explicit Dataset(std::map<std::string, Tensor> columns);
  static Dataset reading(DataRows rows) { return {std::in_place, std::move(rows)}; }
  /// Columns in this order.
  static Dataset of(std::vector<std::pair<std::string, Tensor>> columns);

  /// Throws: Error if the column is unknown or a transform does not fit what comes before it.
  Dataset map(std::string_view column, const std::vector<Transform>& transforms) const;
  /// Of several columns; `outputs` take their place.
  Dataset map(const std::vector<std::string>& inputs, const std::vector<Transform>& transforms,
              std::vector<std::string> outputs = {}) const {
    return reading(mapped_rows(rows_, inputs, transforms, std::move(outputs)));
  }
  /// A new order in every epoch: of all rows, or through a buffer of some.
  Dataset shuffle(std::uint64_t seed) const { return reading(shuffled_rows(rows_, seed)); }
  Dataset shuffle(std::uint64_t seed, std::int64_t buffer) const {
    return reading(buffer_shuffled_rows(rows_, seed, buffer));
  }
  Dataset batch(std::int64_t size, Remainder remainder = Remainder::dropped) const {
    return reading(batch_rows(rows_, size, remainder));
  }
  Dataset shard(std::int64_t count, std::int64_t index) const {
    return reading(shard_rows(rows_, count, index));
  }
  Dataset repeat(std::optional<std::int64_t> times = {}) const {
    return reading(repeated_rows(rows_, times));
  }
  Dataset take(std::int64_t count) const { return reading(part_of_rows(rows_, 0, count)); }
  Dataset skip(std::int64_t count) const { return reading(part_of_rows(rows_, count, std::nullopt)); }
  Dataset project(const std::vector<std::string>& columns) const {
    return reading(projected_rows(rows_, columns));
  }
  Dataset rename(const std::vector<std::string>& from, const std::vector<std::string>& to) const {
    return reading(renamed_rows(rows_, from, to));
  }
  Dataset zip(const Dataset& other) const { return reading(zipped_rows({rows_, other.rows_})); }
  Dataset concat(const Dataset& other) const { return reading(joined_rows(rows_, other.rows_)); }

  /// DataRows of an epoch: samples, or batches.
  std::int64_t samples() const { return rows_.count(); }
  std::int64_t batches_per_epoch() const;
  std::vector<std::string> columns() const;
  /// Type of a column, if all rows have the same: of a batch; of one sample before `batch` is called.
  /// Throws: Error if it is not known.
  Type type(std::string_view column) const;
  const DataRows& rows() const { return rows_; }

  Batch get(std::int64_t epoch, std::int64_t index) const;
  /// The batch of a step that counts through all epochs.
  Batch at_step(std::int64_t step) const;
  Epoch epoch(std::int64_t number) const;

 private:
  Dataset(std::in_place_t, DataRows rows) : rows_(std::move(rows)) {}
  DataRows rows_;
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

}  // namespace shardwright
