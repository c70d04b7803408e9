#include "shardwright/graph/calls.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

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

std::uint64_t hash_of_type(const Value& v) {
  auto h = static_cast<std::uint64_t>(v.type.dtype);
  for (std::int64_t n : shape_of(v)) h = mixed(h, static_cast<std::uint64_t>(n));
  return h;
}

/// Of its call, given that of a value's type. Two calls that differ may share it.
template <class F>
std::uint64_t hash_of_call(const Node& node, F hash_of_type) {
  std::uint64_t h = std::hash<const OpDef*>()(node.op);
  for (ValueId v : node.operands) h = mixed(h, hash_of_type(v));
  for (ValueId v : node.results) h = mixed(h + 1, hash_of_type(v));
  return mixed(h, hash_of(node.attributes));
}

bool have_equal_types(const Graph& graph, const std::vector<ValueId>& a, const std::vector<ValueId>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Value &x = graph.value(a[i]), &y = graph.value(b[i]);
    if (a[i] != b[i] && (x.type.dtype != y.type.dtype || shape_of(x) != shape_of(y))) return false;
  }
  return true;
}

bool make_equal_calls(const Graph& graph, const Node& a, const Node& b) {
  return a.op == b.op && have_equal_types(graph, a.operands, b.operands) &&
         have_equal_types(graph, a.results, b.results) && a.attributes == b.attributes;
}

bool are_of(const std::vector<Type>& types, const Graph& graph, const std::vector<ValueId>& values) {
  return std::ranges::equal(types, values, [&](const Type& type, ValueId v) {
    return type.dtype == graph.value(v).type.dtype && type.shape == shape_of(graph.value(v));
  });
}

class KnownRules {
 public:
  std::shared_ptr<const Rule> of(const Graph& graph, const Node& node, std::uint64_t hash) {
    const auto [begin, end] = known_.equal_range(hash);
    for (auto it = begin; it != end; ++it)
      if (const Call& call = it->second; call.op == node.op && are_of(call.operands, graph, node.operands) &&
                                         are_of(call.results, graph, node.results) &&
                                         call.attributes == node.attributes)
        return call.rule;
    if (known_.size() >= most) known_.clear();
    Call call{node.op, operand_types(graph, node), result_types(graph, node), node.attributes, nullptr};
    call.rule =
        std::make_shared<const Rule>(rule_of(*node.op, {call.operands, call.results, call.attributes}));
    return known_.emplace(hash, std::move(call))->second.rule;
  }

 private:
  static constexpr std::size_t most = 8192;
  struct Call {
    const OpDef* op;
    std::vector<Type> operands, results;
    Attributes attributes;
    std::shared_ptr<const Rule> rule;
  };
  std::unordered_multimap<std::uint64_t, Call> known_;  // by hash
};

KnownRules& known_rules() {
  thread_local KnownRules known;
  return known;
}

}  // namespace

std::uint64_t hash_of(const Attributes& attributes) {
  std::uint64_t h = 0;
  for (const auto& [name, value] : attributes) h = mixed(h, hash_of(std::string_view(name)) ^ hash_of(value));
  return h;
}

std::shared_ptr<const Rule> shared_rule_of(const Graph& graph, const Node& node) {
  const auto hash_of_value = [&](ValueId v) { return hash_of_type(graph.value(v)); };
  return known_rules().of(graph, node, hash_of_call(node, hash_of_value));
}

Calls::Calls(const Graph& graph) : call_of_(graph.nodes.size(), -1) {
  const auto none = std::make_shared<const Rule>();
  std::vector<std::uint64_t> types;  // hashes, per value
  types.reserve(graph.values.size());
  for (const Value& v : graph.values) types.push_back(hash_of_type(v));
  std::unordered_multimap<std::uint64_t, int> known;
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    int& call = call_of_[static_cast<std::size_t>(id.index)];
    const std::uint64_t hash =
        hash_of_call(node, [&](ValueId v) { return types[static_cast<std::size_t>(v.index)]; });
    const auto [begin, end] = known.equal_range(hash);
    for (auto it = begin; it != end && call < 0; ++it)
      if (make_equal_calls(graph, node, graph.node(example(it->second)))) call = it->second;
    if (call >= 0) continue;
    call = size();
    known.emplace(hash, call);
    examples_.push_back(id);
    rules_.push_back(node.op->kind == OpKind::compute ? known_rules().of(graph, node, hash) : none);
  }
}

}  // namespace shardwright
