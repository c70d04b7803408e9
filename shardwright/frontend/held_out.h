// Held-out data of a model, from where `train --eval` and `infer` take them.
#pragma once

#include <string>

#include "shardwright/frontend/model.h"
#include "shardwright/frontend/sample_source.h"
#include "shardwright/training/evaluation.h"

namespace shardwright {

/// From a safetensors file of samples [samples, ...] or steps [steps, batch, ...], which is told by the ranks of the
/// model's inputs, or the test part of what samples.h reads. The label may be missing.
/// Tensors that are the inputs of one step as they are, of a model that names its answers, are taken so.
/// Throws: Error if they do not fit the model's inputs, naming both types.
HeldOut held_out_of(const Model& model, const SampleSource& source);

}  // namespace shardwright
