#include "shardwright/frontend/lookup_rows.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "shardwright/graph/op.h"
#include "shardwright/ops/dims.h"

namespace shardwright {
namespace {

/// Operators that read operand 0 at the indices that operand 1 has.
constexpr std::array<std::string_view, 3> lookups{"gather", "scatter", "scatter_add"};
constexpr std::string_view lookup_of_bags = "lookup";  // along the dim before the last

/// Operators whose results hold elements of their operands and nothing else.
constexpr std::array<std::string_view, 12> moves{"reshape",   "flatten",       "squeeze", "expand_dims",
                                                 "transpose", "broadcast",     "cast",    "concat",
                                                 "split",     "strided_slice", "tile",    "stop_gradient"};

template <class Names>
bool is_one_of(const Names& names, const Node& node) {
  return std::ranges::find(names, node.op->name) != names.end();
}

/// The inputs that the elements of a value come from.
std::vector<ValueId> inputs_behind(const Graph& graph, ValueId value) {
  std::vector<ValueId> out, open{value};
  while (!open.empty()) {
    const ValueId v = open.back();
    open.pop_back();
    const Node& producer = graph.node(graph.value(v).producer);
    if (producer.op->kind == OpKind::input) out.push_back(v);
    if (is_one_of(moves, producer))
      open.insert(open.end(), producer.operands.begin(), producer.operands.end());
  }
  return out;
}

}  // namespace

std::map<std::string, LookedUp> lookup_rows(const Graph& graph) {
  std::map<std::string, LookedUp> out;
  for (const Node& node : graph.nodes) {
    const bool is_of_bags = node.op->name == lookup_of_bags;
    if (!is_of_bags && !is_one_of(lookups, node)) continue;
    const Shape& table = graph.value(node.operands[0]).type.shape;
    const std::int64_t rows = table[ops::dim_of(is_of_bags ? -2 : node.attributes.integer("dim", 0), table)];
    for (ValueId input : inputs_behind(graph, node.operands[1])) {
      LookedUp& found = out.try_emplace(graph.value(input).name, LookedUp{rows, is_of_bags}).first->second;
      found = {std::min(found.rows, rows), found.in_bags && is_of_bags};
    }
  }
  return out;
}

}  // namespace shardwright
