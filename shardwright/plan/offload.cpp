#include "shardwright/plan/offload.h"

#include <algorithm>
#include <array>

#include "shardwright/base/error.h"
#include "shardwright/base/name_pattern.h"
#include "shardwright/base/text.h"
#include "shardwright/graph/forward_operator.h"

namespace shardwright {
namespace {

struct OffloadKind {
  std::string_view name;
  double Offload::*share;
};
constexpr std::array<OffloadKind, 3> offload_kinds{{{"optimizer", &Offload::optimizer},
                                                    {"parameters", &Offload::parameters},
                                                    {"activations", &Offload::activations}}};

double parse_share(std::string_view text, std::string_view part) {
  const auto share = to_number(text);
  if (!share || !(*share >= 0 && *share <= 1))
    throw error("offload: '{}': the share should be a number from 0 to 1, such as 0.5", part);
  return *share;
}

void add_operator(Offload& out, std::string_view part) {
  std::string_view name = part;
  if (name.starts_with("host(") && name.ends_with(")")) name = name.substr(5, name.size() - 6);
  if (name.empty() || name.find_first_of("(): ") != name.npos)
    throw error(
        "offload: '{}' should be optimizer, parameters or activations, each with a share (optimizer:0.5), or "
        "an operator",
        part);
  if (std::ranges::find(out.operators, name) == out.operators.end()) out.operators.emplace_back(name);
}

}  // namespace

std::strong_ordering Offload::operator<=>(const Offload& other) const {
  for (const OffloadKind& kind : offload_kinds)
    if (const auto order = std::strong_order(this->*kind.share, other.*kind.share); order != 0) return order;
  return operators <=> other.operators;
}

std::string to_text(const Offload& offload) {
  std::vector<std::string> parts;
  for (const OffloadKind& kind : offload_kinds) {
    const double share = offload.*kind.share;
    if (share > 0)
      parts.push_back(share == 1 ? std::string(kind.name) : fmt::format("{}:{}", kind.name, share));
  }
  for (const std::string& name : offload.operators) parts.push_back(fmt::format("host({})", name));
  return parts.empty() ? "none" : join(parts, ",");
}

namespace {

bool may_be_hosted(const Node& node) {
  return is_forward_operator(node) || node.op->kind == OpKind::parameter;
}

}  // namespace

std::vector<NodeId> hosted_by(std::string_view name, const Graph& graph) {
  std::vector<NodeId> out;
  for (NodeId id : graph.node_ids())
    if (may_be_hosted(graph.node(id)) && (graph.name_of(id) == name || matches(name, graph.name_of(id))))
      out.push_back(id);
  return out;
}

void check(const Offload& offload, const Graph& graph) {
  for (const std::string& name : offload.operators) {
    if (!hosted_by(name, graph).empty()) continue;
    std::vector<std::string> names{"optimizer", "parameters", "activations"};
    for (NodeId id : graph.node_ids())
      if (may_be_hosted(graph.node(id))) names.push_back(graph.name_of(id));
    throw error("offload: there is no operator or parameter '{}'{}", name, near_names(name, names));
  }
}

Offload parse_offload(std::string_view text) {
  Offload out;
  if (trim(text) == "none") return out;
  std::vector<std::string_view> said;
  for (std::string_view part : split(text, ',')) {
    part = trim(part);
    const std::string_view name = part.substr(0, part.find(':'));
    const auto kind = std::ranges::find(offload_kinds, name, &OffloadKind::name);
    if (kind == offload_kinds.end()) {
      add_operator(out, part);
      continue;
    }
    if (std::ranges::find(said, name) != said.end()) throw error("offload: {} is said twice", name);
    said.push_back(name);
    out.*kind->share = name == part ? 1 : parse_share(part.substr(name.size() + 1), part);
  }
  std::ranges::sort(out.operators);
  return out;
}

}  // namespace shardwright
