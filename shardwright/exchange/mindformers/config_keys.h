// The keys of configuration files, by section. Those that neither config_file.cpp nor a setting reads are known and
// passed over.
#pragma once

#include <string>
#include <vector>

namespace shardwright {

using Names = std::vector<std::string>;

const Names& top_keys();
const Names& parallel_keys();
const Names& parallel_config_keys();
const Names& runner_keys();
const Names& optimizer_keys();

/// Of `model.model_config`, whose other keys are the model's: the type of what is computed, of parameters, and of
/// operators that compute in f32 here in any case. Their spelling has changed in the course of time.
const Names& compute_keys();
const Names& parameter_keys();
const Names& inner_keys();

/// Near names among `known`, or the section in which `key` stands.
std::string near_keys(const std::string& key, const Names& known);

}  // namespace shardwright
