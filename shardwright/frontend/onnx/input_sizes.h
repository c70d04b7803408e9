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

/// An open dim is called as the file calls it, or `INPUT.DIM`. `global_batch` gives the one that is the first input's
/// dim 0; if that is fixed it must be equal.
/// Throws: Error that names a dim without a size, or a key without a dim.
std::vector<Type> input_types(std::span<const onnx::ValueInfoProto* const> inputs, const GivenSizes& given);

}  // namespace shardwright
