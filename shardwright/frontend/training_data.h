// Where the batches of a model come from: a safetensors file, samples of a folder, or learnable synthetic data.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>

#include "shardwright/base/tensor.h"
#include "shardwright/frontend/model.h"
#include "shardwright/frontend/sample_source.h"
#include "shardwright/runtime/synthetic.h"
#include "shardwright/training/train.h"

namespace shardwright {

/// Of whole steps; the model is for one of their micro-batches. From `--data` (a safetensors file, or what samples.h reads), else `data_path` for models that want MNIST, else
/// synthetic data with one notice on `notices`.
/// Throws: Error if the data do not fit the model's inputs, naming both types.
TrainingData training_data(const Model& model, int micro_batches, const SampleSource& data,
                           const std::string& data_path, std::uint64_t seed, std::ostream& notices);

/// What synthetic data of whole steps are made from; nothing: the model has no inputs.
std::optional<SyntheticTask> synthetic_task(const Model& model, int micro_batches, std::uint64_t seed);

/// All samples of the test part of a folder or file that samples.h reads, one row each, as the model's inputs want them.
std::map<std::string, Tensor> test_samples(const Model& model, const std::map<std::string, Type>& inputs,
                                           const SampleSource& source);
/// In the type that the model takes. Throws: Error that begins with `where` if that cannot hold a number, or one is NaN.
Tensor fitting(const Tensor& t, DType dtype, const std::string& where);

/// Initial values from a file: a tensor per parameter, named after it, with or without `init.` in front.
/// Where some are frozen, a file may have those alone, or the others alone.
/// Throws: Error on a missing or misshapen parameter, or one that holds NaN.
std::map<std::string, Tensor> initial_parameters(const Graph& graph, const std::string& path);
/// The same of tensors that were read there, by names of parameters.
std::map<std::string, Tensor> initial_parameters(const Graph& graph, const std::string& path,
                                                 std::map<std::string, Tensor> tensors);

}  // namespace shardwright
