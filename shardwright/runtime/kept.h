// Parameters and states of a pipeline as users know them: one name, wherever it lies and in whatever precision it is
// read.
//
// A parameter may stand in several stages. One that is read in a shorter type follows from its master, a state: users
// set and read the master under the parameter's name.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardwright/lower/pipeline.h"
#include "shardwright/runtime/boxes.h"

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
  /// Not a parameter.
  bool is_state(const Kept& value) const;
  /// A state that a session makes for itself: no checkpoint has it.
  bool is_cache(const Kept& value) const;
  /// A parameter that is never trained: no checkpoint has it, either.
  bool is_frozen(const Kept& value) const;
  /// Of the whole, as users know it: a parameter that is read in a shorter type has that of its master.
  Type type_of(const Kept& value) const;
  /// Where users read it: in its master if it has one, in the first of its stages.
  std::pair<int, ValueId> place_of(const Kept& value) const;

  /// What `rank` holds, under users' names, each part once: who sets all of these has set all of the rank's memory.
  std::vector<NamedBox> held_by(int rank) const;
  /// Those of one value.
  std::vector<Box> held_by(int rank, const Kept& value) const;
  /// Those of them that the rank gives, in users' precision. All ranks' together are all values, each element once.
  std::vector<NamedBox> owned_by(int rank) const;

 private:
  const Value& value(const Kept& k) const;
  const Node& leaf(const Kept& k) const;
  const Attributes& attributes_of(const Kept& k) const;
  const Kept* find(std::string_view name) const;

  const Pipeline& pipeline_;
  std::vector<Kept> all_;
  std::map<std::string, std::size_t, std::less<>> index_;  // by name
};

}  // namespace shardwright
