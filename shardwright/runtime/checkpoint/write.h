// Tensors written anew: as one plain safetensors file, or as a checkpoint for another plan. Nothing whole is made.
#pragma once

#include <string>

#include "shardwright/lower/pipeline.h"
#include "shardwright/runtime/checkpoint/tensor_source.h"

namespace shardwright {

/// One file of whole tensors, which other systems read. Throws: Error of kind io.
void write_plain(const TensorSource& source, const std::string& path);

/// A checkpoint in one shard.
/// Throws: Error of kind io if `folder` is there already or cannot be written; nothing is left then.
void write_checkpoint(const TensorSource& source, const std::string& folder);
/// As the ranks of `pipeline`, of `plan` (JSON), would have written it, in the types that they have.
/// Throws: Error, too, if the pipeline is of another network, or has no place for a tensor.
void write_checkpoint(const TensorSource& source, const std::string& folder, const Pipeline& pipeline,
                      const std::string& plan);

}  // namespace shardwright
