// The graph: nodes, values, phases. The same type holds a single-device network, the network with a
// plan written onto it (strategies and layouts), and the lowered program (local shapes, redistribution steps
// as ordinary nodes): its level says which. Ids are indices; nodes stand in the order in which they run.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shardwright/base/attributes.h"
#include "shardwright/base/format.h"
#include "shardwright/base/id.h"
#include "shardwright/base/tensor.h"
#include "shardwright/layout/layout.h"
#include "shardwright/layout/rule.h"
#include "shardwright/layout/strategy.h"

namespace shardwright {

struct OpDef;

using NodeId = Id<struct NodeTag>;
using ValueId = Id<struct ValueTag>;

/// Where a schedule cuts the backward in two (lower/split_backward.h), `weights` is the part of it that makes gradients of
/// weights, for which nobody waits but the update.
enum class Phase : std::uint8_t { forward, backward, weights, update };
constexpr std::size_t phases = 4;
std::string_view name_of(Phase phase);
/// It is of the backward, whole or cut.
constexpr bool is_backward(Phase phase) { return phase == Phase::backward || phase == Phase::weights; }

/// Something of each phase.
template <class T>
class OfPhases {
 public:
  T& operator[](Phase phase) { return values_[static_cast<std::size_t>(phase)]; }
  const T& operator[](Phase phase) const { return values_[static_cast<std::size_t>(phase)]; }
  auto begin() { return values_.begin(); }
  auto end() { return values_.end(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

 private:
  std::array<T, phases> values_{};
};

/// Where memory is: a device's own, or that of the host that it is in.
enum class Space : std::uint8_t { device, host };

/// What a graph stands for (graph/verify.h says what each may hold).
enum class Level : std::uint8_t {
  network,  // for one device: whole tensors, no meshes
  planned,  // whole tensors on meshes, with the strategies and layouts that are asked for
  program   // what every rank runs: local tensors, a layout on each, redistribution steps as nodes
};
std::string_view name_of(Level level);

struct Value {
  std::string name;
  Type type;  // what one rank holds in a program; the whole tensor otherwise
  NodeId producer;
  int result = 0;  // which result of its producer
  /// The forward values whose gradient this is: several where operators pass a gradient on unchanged.
  std::vector<ValueId> gradient_of;
  std::optional<Layout> layout;  // asked for (in a planned graph) or true (in a program)
  Shape global_shape;            // in a program: the shape of the whole tensor
  Format format;                 // in a program: how its elements lie in memory

  /// The whole tensor, whatever the level.
  Type global_type() const { return layout && !global_shape.empty() ? Type{type.dtype, global_shape} : type; }
};

struct Node {
  const OpDef* op = nullptr;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  Attributes attributes;
  Phase phase = Phase::forward;
  NodeId forward;  // backward: the node that this one differentiates
  NodeId owner;    // in a program: the operator of the planned graph whose work this is (plan/owners.h)
  std::optional<Strategy> strategy;
  bool is_fused = false;        // in a program: runs together with the node before it, block by block
  bool is_recomputed = false;   // backward: does again what a forward node has done, instead of keeping it
  Space space = Space::device;  // where it runs; of a leaf where it lies
};

/// After the step `leaf` (a parameter or state) holds `value`; an accumulator, or a state whose value the forward
/// makes, after each micro-batch.
struct Update {
  ValueId leaf;
  ValueId value;
};

struct Graph {
  Level level = Level::network;
  std::vector<Node> nodes;
  std::vector<Value> values;
  std::vector<ValueId> outputs;
  std::vector<ValueId> sends;  // what other stages receive, one for each of their `receive` leaves
  std::vector<Update> updates;
  std::vector<Mesh> meshes;  // empty in a network

  Node& node(NodeId id) { return nodes[static_cast<std::size_t>(id.index)]; }
  const Node& node(NodeId id) const { return nodes[static_cast<std::size_t>(id.index)]; }
  Value& value(ValueId id) { return values[static_cast<std::size_t>(id.index)]; }
  const Value& value(ValueId id) const { return values[static_cast<std::size_t>(id.index)]; }

  /// A node is called after its first result.
  const std::string& name_of(NodeId id) const { return value(node(id).results.front()).name; }
  /// The value called `name`. Throws: Error with near names.
  ValueId find(std::string_view name) const;
  std::vector<NodeId> node_ids() const;
};

/// Nodes that run together: one, and the fused ones behind it.
struct Fusion {
  NodeId begin;
  NodeId end;  // one behind the last

  int size() const { return end.index - begin.index; }
};
/// All nodes of a program, in their order.
std::vector<Fusion> fusions_of(const Graph& graph);

/// Where a value lies: where it is made, or where a step between spaces takes it.
Space space_of(const Graph& graph, ValueId v);

/// Two values lie in equal boxes on every rank, in the same format.
bool lie_alike(const Value& a, const Value& b);

/// Global types of a node's operands and results.
std::vector<Type> operand_types(const Graph& graph, const Node& node);
std::vector<Type> result_types(const Graph& graph, const Node& node);

/// The node's rule over its global shapes.
Rule rule_of(const Graph& graph, const Node& node);

}  // namespace shardwright
