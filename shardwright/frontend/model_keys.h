// The keys behind a model's name.
#pragma once

#include <map>
#include <string>

namespace shardwright {

/// `spec` with these keys instead of its own.
std::string with_keys(const std::string& spec, const std::map<std::string, std::string>& keys);
/// Those of `spec`.
std::map<std::string, std::string> keys_of(const std::string& spec);

}  // namespace shardwright
