#include "shardwright/exchange/python/names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "shardwright/exchange/python/call_line.h"
#include "shardwright/graph/op.h"

namespace shardwright::python {
namespace {

/// Words of Python, and what lines call.
const std::set<std::string, std::less<>> reserved{
    "False",    "None",   "True",  "and",  "as",     "assert",   "async",   "await",    "break",   "class",
    "continue", "def",    "del",   "elif", "else",   "except",   "finally", "for",      "from",    "global",
    "if",       "import", "in",    "is",   "lambda", "nonlocal", "not",     "or",       "pass",    "raise",
    "return",   "try",    "while", "with", "yield",  "torch",    "F",       "aten",     "math",    "device",
    "once",     "wide",   "sum",   "rank", "jax",    "jnp",      "lax",     "gradient", "fetched", "evicted"};

std::string python_name(std::string_view name) {
  std::string out;
  for (char c : name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0]))) out.insert(0, "_");
  return out;
}

}  // namespace

std::vector<std::string> python_names(const Graph& graph) {
  std::set<std::string, std::less<>> taken = reserved;
  for (const Mesh& mesh : graph.meshes)
    for (const Axis& axis : mesh.axes) taken.insert(axis.name);
  for (const OpDef& op : all_ops())
    for (std::string_view functions : {std::string_view(op.torch.functions), jax_functions(op)})
      for (const auto& [name, text] : python_functions(functions)) taken.insert(name);
  std::vector<std::string> out;
  for (const Value& value : graph.values) {
    std::string name = python_name(value.name);
    const bool is_function = std::ranges::any_of(
        std::array{Phase::forward, Phase::backward, Phase::weights, Phase::update},
        [&](Phase phase) { return name.starts_with(fmt::format("{}_", name_of(phase))); });
    if (is_function) name += "_";
    while (!taken.insert(name).second) name += "_";
    out.push_back(std::move(name));
  }
  return out;
}

}  // namespace shardwright::python
