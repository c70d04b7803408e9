// Where the batches of `train` come from: a safetensors file, samples of a folder, or learnable synthetic data.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "shardwright/base/tensor.h"
#include "shardwright/cli/verb.h"
#include "shardwright/frontend/model.h"

namespace shardwright {

struct TrainingData {
  std::function<std::map<std::string, Tensor>(std::int64_t step)> batch;  // by input name, whole tensors
  std::int64_t batches_per_epoch = 0;                                     // 0: without end
  std::string source = {};                                                // the file, if it is one
  std::int64_t samples = 0;                                               // of a batch
};

/// Of whole steps; the model is for one of their micro-batches. From `--data` (a safetensors file, or what samples.h reads), else `data_path` for models that want MNIST, else
/// synthetic data with one notice on `notices`.
/// Throws: Error if the data do not fit the model's inputs, naming both types.
TrainingData training_data(const Model& model, int micro_batches, const std::string& data,
                           const std::string& data_path, std::uint64_t seed, std::ostream& notices);

/// All samples of the test part of a folder or file that samples.h reads, one row each, as the model's inputs want them.
std::map<std::string, Tensor> test_samples(const Model& model, const std::map<std::string, Type>& inputs,
                                           const std::string& path);
/// In the type that the model takes. Throws: Error that begins with `where` if that cannot hold a number, or one is NaN.
Tensor fitting(const Tensor& t, DType dtype, const std::string& where);

/// Initial values from a file: a tensor per parameter, named after it, with or without `init.` in front.
/// Throws: Error on a missing or misshapen parameter, or one that holds NaN.
std::map<std::string, Tensor> initial_parameters(const Graph& graph, const std::string& path);

/// Where the first of `tensors` that is not finite has which number, `'input' holds inf at [0, 3]`; empty if all are.
std::string infinity_in(const std::map<std::string, Tensor>& tensors);

}  // namespace shardwright
