#include "shardwright/graph/calls.h"

#include <unordered_map>

#include "shardwright/base/random.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

std::uint64_t mixed(std::uint64_t seed, std::uint64_t x) { return splitmix64(seed ^ splitmix64(x)); }

std::uint64_t hash_of(const Attribute& attribute) {
  std::uint64_t h = attribute.index();
  if (const auto* b = std::get_if<bool>(&attribute)) return mixed(h, *b ? 1 : 0);
  if (const auto* n = std::get_if<std::int64_t>(&attribute)) return mixed(h, static_cast<std::uint64_t>(*n));
  if (const auto* x = std::get_if<double>(&attribute)) return mixed(h, std::hash<double>()(*x));
  if (const auto* s = std::get_if<std::string>(&attribute))
    return mixed(h, shardwright::hash_of(std::string_view(*s)));
  for (std::int64_t n : std::get<std::vector<std::int64_t>>(attribute))
    h = mixed(h, static_cast<std::uint64_t>(n));
  return h;
}

/// Of the whole tensor, as rules know it.
const Shape& shape_of(const Value& v) {
  return v.layout && !v.global_shape.empty() ? v.global_shape : v.type.shape;
}

/// Attributes are equal or not; two that differ may share a hash.
class Keys {
 public:
  explicit Keys(const Graph& graph) : graph_(graph) {
    types_.reserve(graph.values.size());
    for (const Value& v : graph.values) {
      auto h = static_cast<std::uint64_t>(v.type.dtype);
      for (std::int64_t n : shape_of(v)) h = mixed(h, static_cast<std::uint64_t>(n));
      types_.push_back(h);
    }
  }

  std::uint64_t hash(const Node& node) const {
    std::uint64_t h = std::hash<const OpDef*>()(node.op);
    for (ValueId v : node.operands) h = mixed(h, types_[static_cast<std::size_t>(v.index)]);
    for (ValueId v : node.results) h = mixed(h + 1, types_[static_cast<std::size_t>(v.index)]);
    return mixed(h, hash_of(node.attributes));
  }

  bool are_equal(const Node& a, const Node& b) const {
    return a.op == b.op && have_equal_types(a.operands, b.operands) &&
           have_equal_types(a.results, b.results) && a.attributes == b.attributes;
  }

 private:
  bool have_equal_types(const std::vector<ValueId>& a, const std::vector<ValueId>& b) const {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const Value &x = graph_.value(a[i]), &y = graph_.value(b[i]);
      if (a[i] != b[i] && (x.type.dtype != y.type.dtype || shape_of(x) != shape_of(y))) return false;
    }
    return true;
  }

  const Graph& graph_;
  std::vector<std::uint64_t> types_;  // hashes, per value
};

}  // namespace

std::uint64_t hash_of(const Attributes& attributes) {
  std::uint64_t h = 0;
  for (const auto& [name, value] : attributes) h = mixed(h, hash_of(std::string_view(name)) ^ hash_of(value));
  return h;
}

Calls::Calls(const Graph& graph) : call_of_(graph.nodes.size(), -1) {
  const Keys keys(graph);
  std::unordered_multimap<std::uint64_t, int> known;
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    int& call = call_of_[static_cast<std::size_t>(id.index)];
    const std::uint64_t hash = keys.hash(node);
    const auto [begin, end] = known.equal_range(hash);
    for (auto it = begin; it != end && call < 0; ++it)
      if (keys.are_equal(node, graph.node(example(it->second)))) call = it->second;
    if (call >= 0) continue;
    call = size();
    known.emplace(hash, call);
    examples_.push_back(id);
    rules_.push_back(node.op->kind == OpKind::compute ? rule_of(graph, node) : Rule{});
  }
}

}  // namespace shardwright
