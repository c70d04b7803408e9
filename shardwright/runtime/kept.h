// Parameters and states of a pipeline as users know them: one name, wherever it lies and in whatever precision it is
// read.
//
// A parameter may stand in several stages. One that is read in a shorter type follows from its master, a state: users
// set and read the master under the parameter's name.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardwright/lower/pipeline.h"

namespace shardwright {

struct Kept {
  std::string name;
  std::vector<std::pair<int, ValueId>> places;  // in the stages that have it
};

class KeptValues {
 public:
  /// `pipeline` outlives it.
  explicit KeptValues(const Pipeline& pipeline);

  const std::vector<Kept>& all() const { return all_; }
  /// Throws: Error if there is none of this name.
  const Kept& named(std::string_view name) const;
  /// The value in full precision of a parameter that is read in a shorter one; nullptr of all others.
  const Kept* master_of(const Kept& value) const;
  /// The parameter that `master` is one of; `master` itself if it is none.
  const Kept& parameter_of(const Kept& master) const;
  /// Of the whole, as users know it: a parameter that is read in a shorter type has that of its master.
  Type type_of(const Kept& value) const;

 private:
  const Value& value(const Kept& k) const;
  const Attributes& attributes_of(const Kept& k) const;
  const Kept* find(std::string_view name) const;

  const Pipeline& pipeline_;
  std::vector<Kept> all_;
};

}  // namespace shardwright
