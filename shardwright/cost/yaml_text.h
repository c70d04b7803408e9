// YAML as users write it: what a plain parser lets pass is told in one line with its place.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace shardwright {

/// The one document of the text. Throws: Error that names the line if it is no YAML, holds several documents, gives a
/// key twice in one map, or is nested deeper than any of ours.
YAML::Node parse_yaml(const std::string& text);
/// That of a file. Throws: Error also if it cannot be read.
YAML::Node load_yaml(const std::string& path);

/// A map of keys, whose values are asked for by kind. Absent, null and `None` are the same. Errors name a key with the
/// maps that it stands in: `parallel.comm_fusion`.
class YamlMap {
 public:
  /// What is told behind an unknown key.
  using Hint = std::function<std::string(const std::string& key, const std::vector<std::string>& known)>;

  /// Of nothing: no key is there.
  YamlMap() = default;
  /// `known` empty: the keys are somebody else's. Throws: Error if `node` is something else, or has an unknown key.
  YamlMap(const YAML::Node& node, std::string name, const std::vector<std::string>& known = {},
          Hint hint = near_keys);

  bool has(const std::string& key) const;
  /// Those that are there, in their order.
  std::vector<std::string> keys() const;
  /// Null if it is absent.
  YAML::Node at(const std::string& key) const { return has(key) ? node_[key] : YAML::Node(); }
  YamlMap map(const std::string& key, const std::vector<std::string>& known = {}) const {
    return YamlMap(at(key), path_of(key), known, hint_);
  }

  // Throw: Error that says what the value should be.
  std::optional<std::string> text(const std::string& key) const;
  std::optional<bool> flag(const std::string& key) const;
  bool is_on(const std::string& key) const { return flag(key).value_or(false); }
  std::optional<std::int64_t> count(const std::string& key, std::int64_t most = 1LL << 40) const;
  std::optional<double> positive(const std::string& key) const;

  /// Throws: Error that `key` is missing.
  YAML::Node need(const std::string& key) const;

  std::string path_of(const std::string& key) const { return name_.empty() ? key : name_ + "." + key; }

  /// ` (did you mean latency?)`, where one is near.
  static std::string near_keys(const std::string& key, const std::vector<std::string>& known);

 private:
  YAML::Node node_;
  std::string name_;
  Hint hint_ = near_keys;
};

}  // namespace shardwright
