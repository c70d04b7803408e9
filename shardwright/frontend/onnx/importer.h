// Models from outside: a network in the ONNX format, as PyTorch and others export it.
//
//   file ──reading──► messages ──values──► what is known by name ──conversions, node by node──► graph
//
// Floating initializers are parameters, the running statistics of batch norms states; both keep their names and start
// with the file's values. Shapes are inferred by our operators, from the sizes of the inputs on; what the file says
// of shapes inside is not looked at. What depends on shapes only is computed while loading. All floating types of the
// file become the precision that was asked for.
//
// A file is not trusted: nothing is allocated that the file does not hold or limits.h does not bound, and what is not
// understood is refused as a whole, with the node's name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "shardwright/frontend/model.h"

namespace shardwright {

/// The model in the file `path`. `arguments.keys` are the sizes of the inputs' open dims by name; `global_batch` is
/// that of the first dim of the first input. Its first output and the input `label` make the loss
/// `arguments.loss`; without one the output is the loss.
/// Throws: Error that starts with the path; `node 'NAME': ` says where.
Model import_onnx(const std::string& path, const ModelArguments& arguments,
                  std::optional<std::int64_t> global_batch = std::nullopt);

}  // namespace shardwright
