// Values of configuration files that are lists and maps. All throw: Error that names the key.
#pragma once

#include <optional>
#include <string>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/cost/yaml_text.h"
#include "shardwright/plan/comm_fusion.h"

namespace shardwright {

/// `[[8, 1], [8]]` as `((8, 1), (8,))`.
std::string splits_of(const YAML::Node& list, const std::string& where);
/// `[20, 35]`, the last gradient of each bucket but the last.
BucketLimit index_limit_of(const YAML::Node& list, const std::string& where);
/// `{mode: size, config: 32}`
BucketLimit limit_of(const YamlMap& section);
/// A number that stays, or a cell that moves it or lets it stay; nothing if the key is absent.
std::optional<LossScale> loss_scale_of(const YamlMap& section, const std::string& key);

}  // namespace shardwright
