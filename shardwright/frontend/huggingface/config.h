// config.json of a Hugging Face folder, read key by key: whoever builds a network asks for what it understands, and what nobody
// has asked for is told in the end, by name, so that no key that changes numbers is passed over.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "shardwright/plan/json_text.h"

namespace shardwright::huggingface {

/// An object of the file; what is `null` there is as if it were not there.
/// Every error names the file and the key, as in `F/config.json: "rope_parameters.factor" is "x" but should be a number`.
class Config {
 public:
  /// Throws: Error if it cannot be read, or is no JSON object.
  static Config read(const std::string& path);
  Config(std::string path, Json object, std::string prefix = {});

  const std::string& path() const { return path_; }
  bool has(const std::string& key) const;
  /// Whether the key is there, even as null, by which some turn off what the family has.
  bool says(const std::string& key) const { return object_.contains(key); }
  std::int64_t integer(const std::string& key, std::int64_t least,
                       std::int64_t most = std::int64_t{1} << 40) const;
  std::int64_t integer_or(const std::string& key, std::int64_t otherwise, std::int64_t least,
                          std::int64_t most = std::int64_t{1} << 40) const;
  std::optional<std::int64_t> given_integer(const std::string& key, std::int64_t least,
                                            std::int64_t most = std::int64_t{1} << 40) const;
  double number(const std::string& key) const;
  double number_or(const std::string& key, double otherwise) const;
  bool flag_or(const std::string& key, bool otherwise) const;
  std::string text_or(const std::string& key, const std::string& otherwise) const;
  std::vector<std::string> texts(const std::string& key) const;
  std::vector<double> numbers(const std::string& key) const;
  /// As it stands, for another reader; null where it is missing.
  Json json_of(const std::string& key) const;
  std::optional<std::int64_t> size_of_object(const std::string& key) const;
  /// An object inside; nothing if there is none.
  std::optional<Config> inside(const std::string& key) const;

  /// Throws: Error if the key is there and says something else: `why` says what would have to be built for it.
  void only(const std::string& key, const Json& value, const std::string& why) const;
  /// Keys that change no number of a forward pass.
  void pass_over(const std::vector<std::string>& keys) const;
  /// Throws: Error that names the first key that nobody has asked for.
  void check_all_read() const;

  Error wrong(const std::string& key, const std::string& should) const;

 private:
  const Json* find(const std::string& key) const;
  const Json& at(const std::string& key) const;

  std::string path_, prefix_;
  Json object_;
  std::shared_ptr<std::set<std::string>> read_ = std::make_shared<std::set<std::string>>();
};

}  // namespace shardwright::huggingface
