#include "shardwright/frontend/lookup_rows.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <vector>

#include "shardwright/graph/op.h"
#include "shardwright/ops/dims.h"

namespace shardwright {
namespace {

/// Operators that read operand 0 at the indices that operand 1 has.
constexpr std::array<std::string_view, 3> lookups{"gather", "scatter", "scatter_add"};
constexpr std::string_view lookup_of_bags = "lookup";  // along the dim before the last
constexpr std::string_view hashes = "hash";            // of which any elements become indices

/// Operators whose results hold elements of their operands and nothing else.
constexpr std::array<std::string_view, 12> moves{"reshape",   "flatten",       "squeeze", "expand_dims",
                                                 "transpose", "broadcast",     "cast",    "concat",
                                                 "split",     "strided_slice", "tile",    "stop_gradient"};

template <class Names>
bool is_one_of(const Names& names, const Node& node) {
  return std::ranges::find(names, node.op->name) != names.end();
}

struct Behind {
  ValueId value;
  bool is_hashed = false;
};

/// The inputs that the elements of a value come from.
std::vector<Behind> inputs_behind(const Graph& graph, ValueId value) {
  std::vector<Behind> out, open{{value}};
  while (!open.empty()) {
    const Behind found = open.back();
    open.pop_back();
    const Node& producer = graph.node(graph.value(found.value).producer);
    if (producer.op->kind == OpKind::input) out.push_back(found);
    const bool is_hash = producer.op->name == hashes;
    if (is_hash || is_one_of(moves, producer))
      for (const ValueId operand : producer.operands) open.push_back({operand, found.is_hashed || is_hash});
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
    for (const auto& [input, is_hashed] : inputs_behind(graph, node.operands[1])) {
      constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
      const LookedUp here{is_hashed ? any : rows, is_of_bags, is_hashed};
      LookedUp& found = out.try_emplace(graph.value(input).name, here).first->second;
      found = {std::min(found.rows, here.rows), found.in_bags && is_of_bags, found.is_hashed && is_hashed};
    }
  }
  return out;
}

}  // namespace shardwright
