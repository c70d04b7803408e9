#include "shardwright/plan/repeated_modules.h"

#include <limits>
#include <set>

#include "shardwright/base/text.h"
#include "shardwright/graph/op.h"

namespace shardwright {

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

std::int64_t number_of(std::string_view digits) {
  return to_integer(digits).value_or(std::numeric_limits<std::int64_t>::max());
}

std::vector<std::size_t> ends_of(std::string_view name) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i <= name.size(); ++i)
    if (i == name.size() || name[i] == '.' || name[i] == '/') out.push_back(i);
  return out;
}

std::optional<std::pair<std::int64_t, std::int64_t>> range_of(std::string_view text) {
  const std::size_t dash = text.find('-');
  if (dash == text.npos || !is_number(text.substr(0, dash)) || !is_number(text.substr(dash + 1))) return {};
  return std::pair(number_of(text.substr(0, dash)), number_of(text.substr(dash + 1)));
}

namespace {

std::string_view part_of(std::string_view name, const std::vector<std::size_t>& ends, std::size_t i) {
  const std::size_t begin = i == 0 ? 0 : ends[i - 1] + 1;
  return name.substr(begin, ends[i] - begin);
}

/// `*` stands for anything in one part of a name, `4-11` for numbers.
bool matches(std::string_view part, std::string_view pattern) {
  if (const auto range = range_of(pattern); range && is_number(part))
    return range->first <= number_of(part) && number_of(part) <= range->second;
  if (pattern.empty()) return part.empty();
  if (pattern.front() != '*')
    return !part.empty() && part[0] == pattern[0] && matches(part.substr(1), pattern.substr(1));
  for (std::size_t i = 0; i <= part.size(); ++i)
    if (matches(part.substr(i), pattern.substr(1))) return true;
  return false;
}

}  // namespace

std::string_view module_of(std::string_view name, std::string_view pattern) {
  const auto ends = ends_of(name), wanted = ends_of(pattern);
  if (wanted.size() > ends.size()) return {};
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (!matches(part_of(name, ends, i), part_of(pattern, wanted, i))) return {};
  std::size_t last = wanted.size() - 1;
  if (last + 1 < ends.size() && is_number(part_of(name, ends, last + 1))) ++last;
  return name.substr(0, ends[last]);
}

std::string_view repeated_module_of(std::string_view name) {
  const auto ends = ends_of(name);
  for (std::size_t i = 1; i + 1 < ends.size(); ++i)
    if (is_number(part_of(name, ends, i))) return name.substr(0, ends[i]);
  return {};
}

std::vector<NamedOperator> named_operators(const Graph& graph) {
  std::vector<NamedOperator> out;
  std::size_t unnamed = 0;
  for (NodeId id : graph.node_ids()) {
    if (graph.node(id).phase != Phase::forward || graph.node(id).op->kind != OpKind::compute) continue;
    const std::string_view name = graph.name_of(id);
    out.push_back({id, is_number(name) ? std::string_view() : name, name});
    if (is_number(name)) continue;
    for (; unnamed < out.size(); ++unnamed) out[unnamed].name = name;
  }
  return out;
}

std::vector<std::string_view> repeated_modules(const std::vector<NamedOperator>& operators) {
  std::vector<std::string_view> out;
  std::set<std::string_view> seen;
  for (const NamedOperator& op : operators)
    if (const auto module = repeated_module_of(op.name); !module.empty() && seen.insert(module).second)
      out.push_back(module);
  return out;
}

}  // namespace shardwright
