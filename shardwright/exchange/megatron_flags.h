// Flags of Megatron-LM in a script: those that say something of a plan by name, those that do not in a list, and all others an
// error.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shardwright/exchange/recipe_words.h"

namespace shardwright {

class MegatronFlags {
 public:
  /// Throws: Error on a flag that is not known, with near ones; that is said twice and otherwise; or whose value the text
  /// does not have.
  explicit MegatronFlags(const std::string& text);

  bool has(const std::string& name) const { return flags_.contains(name); }
  bool is_on(const std::string& name) const;
  /// Empty if it is not there.
  std::string text(const std::string& name) const;
  const std::vector<std::string>& list(const std::string& name) const { return flags_.at(name); }
  /// Throws: Error unless it is a count.
  Keyed count(const std::string& name, std::int64_t otherwise = 1) const;
  /// That are known, and have no effect on a plan.
  const std::vector<std::string>& idle() const { return idle_; }

 private:
  std::map<std::string, std::vector<std::string>> flags_;
  std::vector<std::string> idle_;
};

}  // namespace shardwright
