// Assignments in a text of Python, TOML or flags, each with the section that it is of: the call, table or path that it
// stands in. No program is run: what is computed is a value that is no number.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardwright {

struct Assigned {
  std::string section;  // `ParallelismConfig`, `parallelism`; the last name but one of a path; empty: none
  std::string name;
  std::string value;  // as it is written, without quotes; of a call the function's name
};

std::vector<Assigned> assignments_in(std::string_view text);

}  // namespace shardwright
