// What the exporter of a file has done to the network, as far as the file shows it.
#pragma once

#include <string>

#include "shardwright/frontend/onnx/messages.h"

namespace shardwright {

/// PyTorch's default exporter makes parameters that start equal one, drops biases of zeros and folds what only parameters
/// lead to; what is trained is then another network. Says so, or nothing where all its parameters are in the file
/// (those of graphs from operator set 18 on are listed by name) or another exporter has made it.
std::string warning_of_exporter(const onnx::ModelProto& model);

}  // namespace shardwright
