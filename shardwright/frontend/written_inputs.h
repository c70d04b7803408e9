// How a model's inputs stand in columns that people write: what the network says about its ids and labels.
#pragma once

#include <map>
#include <string>

#include "shardwright/frontend/model.h"
#include "shardwright/frontend/samples.h"
#include "shardwright/runtime/data/written_columns.h"

namespace shardwright {

/// Of `inputs`, which are whole batches. A label may be missing from samples that are not learnt from.
WrittenInputs written_inputs(const Model& model, const std::map<std::string, Type>& inputs, SamplePart part);

}  // namespace shardwright
