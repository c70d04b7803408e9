#include "shardwright/cost/yaml_text.h"

#include <yaml-cpp/eventhandler.h>

#include <set>
#include <sstream>
#include <vector>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"

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

YAML::Node load_yaml(const std::string& path) try {
  const std::string text = read_file(path, most_settings_bytes);
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

}  // namespace shardwright
