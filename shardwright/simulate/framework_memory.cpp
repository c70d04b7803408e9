#include "shardwright/simulate/framework_memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "shardwright/base/index.h"
#include "shardwright/cost/compute.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/node_kinds.h"

namespace shardwright {
namespace {

double elements(const Graph& graph, ValueId v) {
  return static_cast<double>(element_count(graph.value(v).type.shape));
}

/// What the update of a parameter keeps of it on a device.
struct States {
  double bytes = 0;
  double elements = 0;  // of one of them
  int count = 0;

  /// Bytes that `framework` has of these, of a parameter of that type, beside them.
  double besides(DType parameter, const Framework& framework) const {
    const int masters = parameter != DType::f32 && count > 0 ? 1 : 0;
    constexpr double own_moment = 4;
    return elements * (framework.update_gradient.of(parameter) +
                       (framework.moment_bytes - own_moment) * (count - masters));
  }
};

/// By parameter.
std::map<ValueId, States> states_of(const Program& program) {
  const Graph& graph = program.graph;
  std::map<ValueId, States> out;
  for (const Update& update : graph.updates) {
    if (graph.node(graph.value(update.leaf).producer).op->kind != OpKind::parameter) continue;
    ValueId v = update.value;  // behind a gather of the new weight, and casts
    while (!graph.node(graph.value(v).producer).op->optimizer &&
           !graph.node(graph.value(v).producer).operands.empty())
      v = graph.node(graph.value(v).producer).operands.front();
    const Node& node = graph.node(graph.value(v).producer);
    if (!node.op->optimizer) continue;
    States& states = out[update.leaf];
    for (ValueId s : state_operands(node)) {
      if (graph.value(s).type.shape.empty()) continue;  // a count
      states.bytes += static_cast<double>(graph.value(s).type.bytes());
      states.elements = std::max(states.elements, elements(graph, s));
      ++states.count;
    }
  }
  return out;
}

/// A parameter of another stage that one has, too.
struct Copy {
  const PlacedCrossing* crossing = nullptr;
  ValueId original;  // of crossing->from
};

std::vector<Copy> copies_in(const Pipeline& pipeline, int stage) {
  std::vector<Copy> out;
  for (const PlacedCrossing& c : pipeline.crossings) {
    if (c.to != stage || c.time != CrossingTime::step) continue;
    const Graph& graph = pipeline.stage(c.from).graph;
    ValueId v = c.sent;
    while (!graph.node(graph.value(v).producer).operands.empty())
      v = graph.node(graph.value(v).producer).operands.front();
    const Node& leaf = graph.node(graph.value(v).producer);
    if (leaf.op->kind == OpKind::parameter && !is_frozen(leaf)) out.push_back({&c, v});
  }
  return out;
}

/// Of what is split among replicas in the update: of the sums of gradients that share, of all parameters that have one.
double share_of_sums(const Program& program) {
  double sums = 0, parameters = 0;
  for (const Node& node : program.graph.nodes) {
    if (node.op->kind == OpKind::accumulator) sums += elements(program.graph, node.results[0]);
    const bool has_sum = node.op->kind == OpKind::parameter && !is_frozen(node);
    const bool is_copy = node.op->kind == OpKind::receive && node.attributes.integer("once", 0) != 0;
    if (has_sum || is_copy) parameters += elements(program.graph, node.results[0]);
  }
  return sums > 0 && parameters > 0 ? std::min(1.0, sums / parameters) : 1;
}

/// The product that makes the scores of classes: the last of the forward that is none of streams.
std::optional<NodeId> scoring_node(const Program& program) {
  std::optional<NodeId> out;
  for (NodeId id : program.graph.node_ids()) {
    const Node& node = program.graph.node(id);
    if (node.phase != Phase::forward) break;
    if (node.op->kind == OpKind::compute &&
        work_kind(*shared_rule_of(program.graph, node)) != WorkKind::streaming)
      out = id;
  }
  return out;
}

/// Classes: how many there are, and how many a device has in the profile for each that it has in the program.
struct Vocabulary {
  std::int64_t classes = 0;
  double padding = 1;
};

Vocabulary vocabulary_of(const Program& last, const Framework& framework) {
  const auto node = scoring_node(last);
  if (!node || framework.vocabulary_multiple == 1) return {};
  const Value& scores = last.graph.value(last.graph.node(*node).results[0]);
  if (scores.type.shape.empty() || scores.global_shape.empty()) return {};
  const auto multiple = static_cast<double>(framework.vocabulary_multiple);
  const auto classes = static_cast<double>(scores.type.shape.back());
  return {scores.global_shape.back(), std::ceil(classes / multiple) * multiple / classes};
}

/// Of what `v` has in the program.
double padding_of(const Graph& graph, ValueId v, const Vocabulary& vocabulary) {
  const Shape& shape = graph.value(v).global_shape;
  return std::ranges::find(shape, vocabulary.classes) == shape.end() ? 1 : vocabulary.padding;
}

/// What lasts of the parameters of a stage, where the profile has it otherwise than the program.
class Lasting {
 public:
  Lasting(const Pipeline& pipeline, int stage, const Framework& framework, const Vocabulary& vocabulary,
          BytesByKind& bytes)
      : pipeline_(pipeline), framework_(framework), vocabulary_(vocabulary), bytes_(bytes) {
    const Program& program = pipeline.stage(stage);
    const std::map<ValueId, States> states = states_of(program);
    for (const Node& node : program.graph.nodes) {
      if (node.op->kind != OpKind::parameter || is_frozen(node)) continue;
      const auto it = states.find(node.results[0]);
      add(program.graph, node.results[0], it == states.end() ? States{} : it->second, 0);
    }
    if (framework.copies_shared_parameters) add_copies(stage);
    gradients_ *= share_of_sums(program);
    if (framework.keeps_gradients) bytes_[index_of(MemoryKind::gradients)] = 0;
    add_to(MemoryKind::optimizer_state, besides_states_);
  }

  /// Of the gradients.
  double gradients() const { return gradients_; }

 private:
  /// `copied`: share of parameter and states that the program does not have.
  void add(const Graph& graph, ValueId v, const States& states, double copied) {
    const Type& type = graph.value(v).type;
    const double padding = padding_of(graph, v, vocabulary_), more = copied + padding - 1;
    const auto bytes = static_cast<double>(type.bytes());
    gradients_ += framework_.gradient.of(type.dtype) * padding * elements(graph, v);
    besides_states_ += states.besides(type.dtype, framework_) * padding;
    add_to(MemoryKind::optimizer_state, more * states.bytes);
    const bool is_made = !framework_.keeps_short_weights && type.dtype != DType::f32 && states.bytes > 0;
    add_to(MemoryKind::parameters, is_made ? -bytes : more * bytes);
  }

  void add_copies(int stage) {
    const Graph& graph = pipeline_.stage(stage).graph;
    for (const Copy& copy : copies_in(pipeline_, stage)) {
      const Program& owner = pipeline_.stage(copy.crossing->from);
      States states = states_of(owner)[copy.original];
      const double share = elements(graph, copy.crossing->received) / elements(owner.graph, copy.original);
      states.bytes *= share, states.elements *= share;
      const double before = static_cast<double>(graph.value(copy.crossing->received).type.bytes());
      if (pipeline_.stage(stage).buffer(copy.crossing->received)) add_to(MemoryKind::communication, -before);
      add(graph, copy.crossing->received, states, 1);
    }
  }

  void add_to(MemoryKind kind, double bytes) { bytes_[index_of(kind)] += std::llround(bytes); }

  const Pipeline& pipeline_;
  const Framework& framework_;
  const Vocabulary& vocabulary_;
  BytesByKind& bytes_;
  double gradients_ = 0, besides_states_ = 0;
};

/// Copies of the scores as long as they are alive.
void add_scores(std::vector<Besides>& out, const Program& program, const Framework& framework,
                double padding) {
  const auto node = scoring_node(program);
  if (!node) return;
  const ValueId scores = program.graph.node(*node).results[0];
  const Buffer* const b = program.buffer(scores);
  int end = node->index;
  if (b && b->end.index < static_cast<int>(program.graph.nodes.size())) end = b->end.index;
  for (NodeId id : program.graph.node_ids())
    if (std::ranges::count(program.graph.node(id).operands, scores) > 0) end = std::max(end, id.index);
  const double more = (padding - 1) * static_cast<double>(program.graph.value(scores).type.bytes());
  out.push_back({MemoryKind::workspace, padding * score_copies(program, framework) + more, node->index, end});
}

/// How many parts `loop` of `node` is cut into.
double parts_of(const Graph& graph, const Node& node, int loop) {
  if (!node.strategy) return 1;
  const Mesh& mesh = graph.meshes[at(node.strategy->mesh)];
  return static_cast<double>(mesh.count(node.strategy->loops[at(loop)]));
}

/// Bytes that the experts of `node` keep: of each row that is theirs what goes into the first products, what comes out, and
/// what goes into the last one.
double routed_bytes(const Graph& graph, const Node& node, double imbalance) {
  const RoutedFacet& routed = *node.op->routed;
  const Rule rule = rule_of(graph, node);
  const int inner = rule.loop(routed.inner);
  const auto is_weight = [&](const RuleTensor& operand) {
    return std::ranges::find(operand.dims, std::vector{inner}) != operand.dims.end();
  };
  const auto products = static_cast<double>(std::ranges::count_if(rule.operands, is_weight));
  const double features = static_cast<double>(rule.loops[at(inner)].size) / parts_of(graph, node, inner);
  const Type& x = graph.value(node.operands[routed.rows]).type;
  const double parts = parts_of(graph, node, rule.loop(routed.experts));
  const double rows = elements(graph, node.operands[routed.ids]) * (parts > 1 ? imbalance / parts : 1);
  return rows * (static_cast<double>(x.shape.back()) + products * features) *
         static_cast<double>(size_of(x.dtype));
}

/// What a stage has, gradients as the framework keeps them, or at least.
struct OfStage {
  StageBytes bytes;
  double gradients = 0;
};

OfStage of_stage(const Pipeline& pipeline, int stage, const Framework& framework,
                 const Vocabulary& vocabulary, double routing_imbalance) {
  const Program& program = pipeline.stage(stage);
  std::vector<Besides> besides;
  if (stage == pipeline.stage_count() - 1) add_scores(besides, program, framework, vocabulary.padding);
  for (const Besides& b : held_besides(program, framework, routing_imbalance)) besides.push_back(b);
  OfStage out{stage_bytes(pipeline, stage, besides, !framework.keeps_gradients)};
  out.gradients = Lasting(pipeline, stage, framework, vocabulary, out.bytes.lasting).gradients();
  return out;
}

/// What the backward computed again, up to a node.
class Again {
 public:
  void add(NodeId forward, NodeId id) {
    last_[forward] = id;
    latest_ = id;
  }

  /// From where on `node`, which is `id`, finds what its forward made: from where that was computed again last, or anything, if
  /// its region is computed again as a whole.
  NodeId held_from(const Program& program, const Node& node, NodeId id) const {
    if (const auto last = last_.find(node.forward); last != last_.end()) return last->second;
    const bool is_repeated =
        node.owner.is_valid() && !program.is_repeated.empty() && program.is_repeated[at(node.owner.index)];
    if (!is_repeated) return node.forward;
    return latest_.is_valid() ? latest_ : id;
  }

 private:
  std::map<NodeId, NodeId> last_;  // by node of the forward
  NodeId latest_;
};

}  // namespace

std::vector<Besides> held_besides(const Program& program, const Framework& framework,
                                  double routing_imbalance) {
  std::vector<Besides> out;
  const Graph& graph = program.graph;
  Again again;
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (!is_backward(node.phase) || !node.forward.is_valid()) continue;
    if (node.is_recomputed) {
      again.add(node.forward, id);
      continue;
    }
    const int begin = again.held_from(program, node, id).index;
    const auto add = [&](MemoryKind kind, double bytes) { out.push_back({kind, bytes, begin, id.index}); };
    if (framework.mask_bytes > 0 && node.attributes.find("seed"))
      add(MemoryKind::workspace, framework.mask_bytes * elements(graph, node.results[0]));
    if (!framework.keeps_routed_rows || !node.op->routed) continue;
    add(MemoryKind::activations, routed_bytes(graph, node, routing_imbalance));
    const Buffer* const rows = program.buffer(node.operands[node.op->routed->rows]);
    if (rows && rows->kind == BufferKind::communication)
      out.push_back({MemoryKind::communication, -static_cast<double>(rows->bytes),
                     std::max(begin, rows->begin.index), id.index});
  }
  return out;
}

double least_gradients(const Program& program, const Framework& framework) {
  double out = 0;
  for (const Node& node : program.graph.nodes) {
    if (node.op->kind != OpKind::parameter || is_frozen(node)) continue;
    const DType dtype = program.graph.value(node.results[0]).type.dtype;
    out += framework.gradient.of(dtype) * elements(program.graph, node.results[0]);
  }
  return out;
}

double states_besides(const Program& program, const Framework& framework) {
  double out = 0;
  for (const auto& [leaf, states] : states_of(program))
    out += states.besides(program.graph.value(leaf).type.dtype, framework);
  return out;
}

double score_copies(const Program& program, const Framework& framework) {
  const auto node = scoring_node(program);
  return node ? framework.score_bytes * elements(program.graph, program.graph.node(*node).results[0]) : 0;
}

std::vector<BytesByKind> framework_memory(const Pipeline& pipeline, const Framework& framework,
                                          double routing_imbalance) {
  const Vocabulary vocabulary = vocabulary_of(pipeline.stages.back(), framework);
  std::vector<StageBytes> stages;
  std::vector<double> least;
  for (int stage = 0; stage < pipeline.stage_count(); ++stage) {
    OfStage of = of_stage(pipeline, stage, framework, vocabulary, routing_imbalance);
    stages.push_back(of.bytes);
    least.push_back(of.gradients);
  }
  std::vector<BytesByKind> out;
  for (int group = 0; group < pipeline.group_count(); ++group) {
    BytesByKind& bytes = out.emplace_back(most_at_once(pipeline, group, stages));
    std::int64_t& gradients = bytes[index_of(MemoryKind::gradients)];
    const double passing = static_cast<double>(total_of(bytes) - gradients);
    bytes[index_of(MemoryKind::workspace)] += static_cast<std::int64_t>(framework.slack * passing);
    double at_least = 0;
    for (int stage : pipeline.stages_of(pipeline.first_rank(group))) {
      add(bytes, stages[at(stage)].lasting);
      at_least += least[at(stage)];
    }
    gradients = std::max<std::int64_t>(gradients, std::llround(at_least));
    const int groups =
        pipeline.stage(group).graph.meshes.front().axis_count() + (pipeline.group_count() > 1 ? 1 : 0);
    bytes[index_of(MemoryKind::communication)] += framework.fixed_bytes + groups * framework.group_bytes;
  }
  return out;
}

}  // namespace shardwright
