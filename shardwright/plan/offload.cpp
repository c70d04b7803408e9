#include "shardwright/plan/offload.h"

#include <algorithm>
#include <utility>

#include "shardwright/base/error.h"
#include "shardwright/base/name_pattern.h"
#include "shardwright/base/text.h"
#include "shardwright/graph/forward_operator.h"

namespace shardwright {
namespace {

double parse_share(std::string_view text, std::string_view part) {
  const auto share = to_number(text);
  if (!share || !(*share >= 0 && *share <= 1))
    throw error(
        "offload: '{}': the share should be a number from 0 to 1, such as 0.5, or one for each stage, as "
        "1/0.5/0",
        part);
  return *share;
}

/// `0.5`, or with those of all stages `1/0.5/0`.
std::vector<double> parse_shares(std::string_view text, std::string_view part) {
  std::vector<double> out;
  for (std::string_view share : split(text, '/')) out.push_back(parse_share(share, part));
  return out;
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
  for (const OffloadKind& kind : offload_kinds) {
    const std::vector<double>&a = this->*kind.of_stages, &b = other.*kind.of_stages;
    const auto by_share = [](double x, double y) { return std::strong_order(x, y); };
    const auto order =
        std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end(), by_share);
    if (order != 0) return order;
  }
  return operators <=> other.operators;
}

Offload Offload::of_stage(std::size_t stage) const {
  Offload out = *this;
  for (const OffloadKind& kind : offload_kinds)
    if (const auto& shares = std::exchange(out.*kind.of_stages, {}); !shares.empty())
      out.*kind.share = shares.at(stage);
  return out;
}

std::size_t Offload::stages() const {
  std::size_t out = 0;
  for (const OffloadKind& kind : offload_kinds) out = std::max(out, (this->*kind.of_stages).size());
  return out;
}

Offload with_shares(Offload offload, const OffloadKind& kind, std::vector<double> shares) {
  offload.*kind.share = std::ranges::max(shares);
  const bool are_alike = std::ranges::count(shares, shares.front()) == std::ssize(shares);
  offload.*kind.of_stages = are_alike ? std::vector<double>() : std::move(shares);
  return offload;
}

std::string to_text(const Offload& offload) {
  std::vector<std::string> parts;
  for (const OffloadKind& kind : offload_kinds) {
    const double share = offload.*kind.share;
    if (const std::vector<double>& shares = offload.*kind.of_stages; !shares.empty())
      parts.push_back(fmt::format("{}:{}", kind.name, fmt::join(shares, "/")));
    else if (share > 0)
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
    out =
        with_shares(std::move(out), *kind,
                    name == part ? std::vector<double>{1} : parse_shares(part.substr(name.size() + 1), part));
  }
  std::ranges::sort(out.operators);
  for (const OffloadKind& kind : offload_kinds)
    if (const std::size_t count = (out.*kind.of_stages).size(); count > 0 && count != out.stages())
      throw error("offload: '{}': has shares of {} stages for {}, of {} for others", text, count, kind.name,
                  out.stages());
  return out;
}

}  // namespace shardwright
