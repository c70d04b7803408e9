// What the plan keeps in memory of the host goes there, and comes from there (lower/offload.h): when the order of all else
// stands, so that fetches are ahead of it.

#include "shardwright/lower/offload.h"

#include <string>
#include <utility>
#include <vector>

#include "shardwright/passes/optimize.h"

namespace shardwright {

Program offload(Program program, const PassContext& context) {
  std::vector<std::pair<std::string, std::string>> names;  // of parts: their values become others
  for (const PartValue& p : program.parts)
    names.emplace_back(program.graph.value(p.of).name, program.graph.value(p.value).name);
  Program out = with_offload(std::move(program), context.offload);
  for (std::size_t p = 0; p < names.size(); ++p) {
    out.parts[p].of = out.graph.find(names[p].first);
    out.parts[p].value = out.graph.find(names[p].second);
  }
  return out;
}

}  // namespace shardwright
