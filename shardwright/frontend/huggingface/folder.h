// A Hugging Face folder, or a bare config.json, as a model.
#pragma once

#include <string>

#include "shardwright/frontend/model.h"

namespace shardwright::huggingface {

/// The config.json that a spec without keys means: of a folder, or the file itself; empty: it is neither.
std::string config_of(const std::string& path);

/// Throws: Error that names the file and what of it is wrong, unknown or not supported.
Model load_folder(const std::string& spec, const ModelOptions& options);

/// `spec` with keys that say what the data in `path` bring: inputs, their length, the batch of data that lie in steps. As it is
/// where that is no safetensors file of such inputs.
std::string spec_for_data(const std::string& spec, const std::string& path);

}  // namespace shardwright::huggingface
