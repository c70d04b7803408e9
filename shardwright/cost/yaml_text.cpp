#include "shardwright/cost/yaml_text.h"

#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/base/text.h"

namespace shardwright {
namespace {

/// Looks at a document as it is read, before anything is built: what aliases repeat is seen once.
class Check : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { take(mark, ""); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { take(mark, ""); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string& text) override {
    take(mark, text);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(mark, false);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(mark, true);
  }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  struct Level {
    bool is_map = false;
    bool is_key = false;  // comes next
    std::string key;      // the last one
    std::set<std::string> keys;
  };

  void take(const YAML::Mark& mark, const std::string& text) {
    if (open_.empty() || !open_.back().is_map) return;
    Level& level = open_.back();
    if (level.is_key) level.key = text;
    if (level.is_key && !text.empty() && !level.keys.insert(text).second)
      throw error("line {}: {} is given twice", mark.line + 1, path());
    level.is_key = !level.is_key;
  }

  void open(const YAML::Mark& mark, bool is_map) {
    constexpr std::size_t deepest = 100;
    if (open_.size() == deepest) throw error("line {}: is nested more than {} deep", mark.line + 1, deepest);
    take(mark, "");
    open_.push_back({.is_map = is_map, .is_key = is_map, .keys = {}});
  }

  /// Of the last key: `parallel_config.mem_coeff`.
  std::string path() const {
    std::string out;
    for (const Level& level : open_)
      if (!level.key.empty()) out += (out.empty() ? "" : ".") + level.key;
    return out;
  }

  std::vector<Level> open_;
};

}  // namespace

YAML::Node load_yaml(const std::string& path) { return parse_yaml(read_text(path, most_settings_bytes)); }

YAML::Node parse_yaml(const std::string& text) try {
  std::istringstream in(text);
  YAML::Parser parser(in);
  Check check;
  if (!parser.HandleNextDocument(check)) return {};
  Check another;
  if (parser.HandleNextDocument(another)) throw error("it holds several documents; it should be one");
  return YAML::Load(text);
} catch (const YAML::Exception& e) {
  throw error("line {}: {}", e.mark.line + 1, e.msg);
}

YamlMap::YamlMap(const YAML::Node& node, std::string name, const std::vector<std::string>& known, Hint hint)
    : node_(node), name_(std::move(name)), hint_(std::move(hint)) {
  if (!node.IsDefined() || node.IsNull()) return;
  const std::string what = name_.empty() ? "the file" : name_;
  if (!node.IsMap()) throw error("{} should be a map of keys", what);
  for (const auto& entry : node) {
    const std::string key = entry.first.Scalar();
    if (key.empty()) throw error("{}: a key should be a name", what);
    if (!known.empty() && std::find(known.begin(), known.end(), key) == known.end())
      throw error("{} is unknown{}", path_of(key), hint_(key, known));
  }
}

std::vector<std::string> YamlMap::keys() const {
  std::vector<std::string> out;
  if (node_.IsDefined() && node_.IsMap())
    for (const auto& entry : node_)
      if (has(entry.first.Scalar())) out.push_back(entry.first.Scalar());
  return out;
}

bool YamlMap::has(const std::string& key) const {
  if (!node_.IsDefined() || !node_.IsMap()) return false;
  const YAML::Node value = node_[key];
  return value.IsDefined() && !value.IsNull() && !(value.IsScalar() && value.Scalar() == "None");
}

YAML::Node YamlMap::need(const std::string& key) const {
  if (!has(key)) throw error("{} is missing", path_of(key));
  return node_[key];
}

std::optional<std::string> YamlMap::text(const std::string& key) const {
  if (!has(key)) return std::nullopt;
  if (!node_[key].IsScalar()) throw error("{} should be one value", path_of(key));
  return node_[key].Scalar();
}

std::optional<bool> YamlMap::flag(const std::string& key) const {
  const auto value = text(key);
  if (!value) return std::nullopt;
  bool out = false;
  if (!YAML::convert<bool>::decode(node_[key], out))
    throw error("{}: '{}' should be True or False", path_of(key), *value);
  return out;
}

std::optional<std::int64_t> YamlMap::count(const std::string& key, std::int64_t most) const {
  const auto value = text(key);
  if (!value) return std::nullopt;
  const auto n = to_integer(*value);
  if (!n || *n < 1 || *n > most)
    throw error(
        "{}: '{}' should be an integer from 1 on{}", path_of(key), *value,
        to_number(*value).value_or(0) > static_cast<double>(most) ? fmt::format(", at most {}", most) : "");
  return n;
}

std::optional<double> YamlMap::positive(const std::string& key) const {
  const auto value = text(key);
  if (!value) return std::nullopt;
  const auto x = to_number(*value);
  if (!x || *x <= 0) throw error("{}: '{}' should be a number above 0", path_of(key), *value);
  return x;
}

std::string YamlMap::near_keys(const std::string& key, const std::vector<std::string>& known) {
  return near_names(key, known);
}

}  // namespace shardwright
