// Data for a model that has none: made of random numbers, yet learnable, so that the losses move.
//
//   label              inputs              task
//   i32 [batch]        f32                 noisy prototypes: a random class c, each input
//                                          0.6 * prototype[c] + noise
//   i32 [batch]        i32                 a random class c; every other element is congruent to c
//   i32 [batch, seq]   i32 [batch, seq]    next of a sequence x' = (a x + b) mod classes, now and then
//                                          broken by a random element; other inputs as for a class of their
//                                          own, and labels beside no such input are a sequence by themselves
//   f32                any                 a fixed random linear map of the inputs, plus noise; of shares: 1 where it is
//                                          positive, else 0
//
// Every element is a pure function of seed, step and its global index: it depends on no plan, and steps can
// be made in any order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shardwright/base/random.h"
#include "shardwright/base/tensor.h"
#include "shardwright/runtime/data/dataset.h"

namespace shardwright {

struct SyntheticTask {
  std::map<std::string, Type> inputs;  // global types by name; the first dim is the batch
  std::string label = "label";
  Type label_type;
  std::int64_t classes = 10;  // an integer label is below it
  std::map<std::string, std::int64_t>
      vocabulary;               // integer elements of an input are below it; else `classes`
  bool label_is_share = false;  // a label of numbers is from 0 to 1
  std::uint64_t seed = 1;
};

class SyntheticData {
 public:
  /// Throws: Error if the types do not fit together.
  explicit SyntheticData(SyntheticTask task);

  /// All inputs and the label of one step.
  Batch at_step(std::int64_t step) const;

 private:
  bool is_sequence(const Type& type) const;
  std::int64_t vocabulary_of(const std::string& input) const;
  Tensor classes_at(std::int64_t step) const;
  Tensor input_of_classes(const std::string& name, const Type& type, const Tensor& classes,
                          std::int64_t step) const;
  void add_sequence(Batch& batch, const std::string& name, const Type& type, std::int64_t step) const;
  std::vector<double> features_of(const Batch& inputs) const;
  Tensor linear_label(const Batch& inputs, std::int64_t step) const;

  SyntheticTask task_;
};

}  // namespace shardwright
