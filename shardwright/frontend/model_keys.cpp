#include "shardwright/frontend/model_keys.h"

#include <vector>

#include "shardwright/base/text.h"
#include "shardwright/frontend/model.h"

namespace shardwright {

std::string with_keys(const std::string& spec, const std::map<std::string, std::string>& keys) {
  std::vector<std::string> words;
  for (const auto& [key, value] : keys) words.push_back(key + "=" + value);
  return without_keys(spec) + (words.empty() ? "" : ":" + join(words, ","));
}

std::map<std::string, std::string> keys_of(const std::string& spec) { return arguments_of(spec, {}).keys; }

}  // namespace shardwright
