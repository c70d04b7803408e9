// The types of a model's inputs, whose open dims get their sizes from the command line.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shardwright/base/tensor.h"
#include "shardwright/frontend/onnx/messages.h"

namespace shardwright {

struct GivenSizes {
  std::string path;                         // of the model, for messages
  std::map<std::string, std::string> keys;  // sizes by the names of open dims
  std::optional<std::int64_t> global_batch;
};

/// The keys that are no sizes: batch norms and dropouts are those of training; parameters that are not trained.
constexpr const char* training_key = "training";
constexpr const char* frozen_key = "frozen";

/// What keys say that are no sizes.
struct SaidOfTraining {
  bool trains = false;              // batch norms and dropouts, whatever the file says
  std::vector<std::string> frozen;  // parameters, or modules of them
};
/// Takes it out of `keys`; a key that an open dim is called is its size. Throws: Error if a value is none.
SaidOfTraining said_of_training(const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& inputs,
                                std::map<std::string, std::string>& keys);

/// An open dim is called as the file calls it, or `INPUT.DIM`. `global_batch` gives the one that is the first input's
/// dim 0; if that is fixed it must be equal.
/// Throws: Error that names a dim without a size, or a key without a dim.
std::vector<Type> input_types(std::span<const onnx::ValueInfoProto* const> inputs, const GivenSizes& given);

}  // namespace shardwright
