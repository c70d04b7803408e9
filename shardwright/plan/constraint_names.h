// What constraints say of operators, parameters and modules by name: of each kind a row, so that reading, writing, merging and
// what contradicts know no kind by itself.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardwright/plan/constraints.h"

namespace shardwright {

struct NamedRow {
  /// False: it is of another kind.
  bool (*read)(Constraints&, const std::string& name, const Given& value);
  /// Names, and what is said of each.
  std::vector<std::pair<std::string, std::string>> (*said)(const Constraints&);
  /// What `from` says of `name`, which is something.
  void (*take)(Constraints& to, const Constraints& from, const std::string& name);
};
/// The text of constraints at the commas that stand in no brackets.
std::vector<std::string_view> parts_of_constraints(std::string_view text);

/// In the order in which they are written.
std::span<const NamedRow> named_rows();

}  // namespace shardwright
