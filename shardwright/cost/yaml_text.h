// YAML as users write it: what a plain parser lets pass is told in one line with its place.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>

namespace shardwright {

/// The one document of the file. Throws: Error that names the line if it is no YAML, holds several documents, gives a
/// key twice in one map, or is nested deeper than any of ours; or if the file cannot be read.
YAML::Node load_yaml(const std::string& path);

}  // namespace shardwright
