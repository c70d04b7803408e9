// How the values of a stage are called in Python, and its functions as text.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright::python {

/// By value; no word of Python and nothing that lines call.
std::vector<std::string> python_names(const Graph& graph);

struct StageText {
  std::string text;                              // below the imports
  std::map<std::string, std::string> functions;  // that the lines call, by name
  std::map<std::string, std::vector<std::string>>
      apart;  // lines of two calls in one, by their first result: two lines
};

}  // namespace shardwright::python
