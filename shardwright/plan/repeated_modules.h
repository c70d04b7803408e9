// Modules by the names of operators: `layers.3` is all that is called `layers.3.`..., a repeated module one with a number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

bool is_number(std::string_view text);
/// Too large ones are all the same.
std::int64_t number_of(std::string_view digits);
/// `4-11`: the first and the last.
std::optional<std::pair<std::int64_t, std::int64_t>> range_of(std::string_view text);

/// Where the parts of a name end: `layers.0.add1` has them at 6, 8 and 13.
std::vector<std::size_t> ends_of(std::string_view name);
/// The module of `name` that `pattern` means, or nothing. A list of layers stands for each of them.
std::string_view module_of(std::string_view name, std::string_view pattern);
/// The outermost repeated module that `name` lies in, or nothing. `ffn.1` is an operator, `layers.1.ffn` in a module.
std::string_view repeated_module_of(std::string_view name);

/// A forward operator, and the name by which it belongs to a module.
struct NamedOperator {
  NodeId node;
  std::string_view name, own_name;
};
/// What has no name of its own (a statistic in front of its norm) belongs where the next that has one does.
std::vector<NamedOperator> named_operators(const Graph& graph);
/// In their order.
std::vector<std::string_view> repeated_modules(const std::vector<NamedOperator>& operators);

}  // namespace shardwright
