#include "shardwright/search/automatic/figures.h"

#include <algorithm>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/graph/forward_operator.h"
#include "shardwright/graph/op.h"
#include "shardwright/passes/compile.h"
#include "shardwright/simulate/framework_memory.h"
#include "shardwright/simulate/late_transfers.h"

namespace shardwright::automatic {
namespace {

/// Most bytes of these kinds that are alive at once.
double most_alive(const Program& program, std::initializer_list<BufferKind> kinds) {
  std::vector<double> change(program.graph.nodes.size() + 2, 0);
  for (const Buffer& b : program.buffers) {
    if (std::ranges::find(kinds, b.kind) == kinds.end()) continue;
    change[b.begin.is_valid() ? static_cast<std::size_t>(b.begin.index) : 0] += static_cast<double>(b.bytes);
    change[static_cast<std::size_t>(b.end.index) + 1] -= static_cast<double>(b.bytes);
  }
  double alive = 0, out = 0;
  for (double c : change) out = std::max(out, alive += c);
  return out;
}

/// Most bytes of `kept` buffers that a fusion of the backward and the next one read: while one runs the other's are fetched.
double most_on_way(const Program& program, const std::vector<bool>& kept) {
  double before = 0, out = 0;
  for (const Fusion& fusion : fusions_of(program.graph)) {
    if (!is_backward(program.graph.node(fusion.begin).phase)) continue;
    std::set<const Buffer*> read;
    for (NodeId id = fusion.begin; id < fusion.end; ++id.index)
      for (ValueId v : program.graph.node(id).operands)
        if (const Buffer* b = program.buffer(v); b && kept[at(b - program.buffers.data())]) read.insert(b);
    double bytes = 0;
    for (const Buffer* b : read) bytes += static_cast<double>(b->bytes);
    if (bytes == 0) continue;
    out = std::max(out, before + bytes);
    before = bytes;
  }
  return out;
}

/// Of what a micro-batch has from one half of its backward to the other, or from its forward to the first half alone.
std::optional<Life> between_halves(const Program& program, const Buffer& b) {
  using enum BufferKind;
  const bool lasts = b.kind == parameter || b.kind == state || b.kind == accumulator;
  const int nodes = static_cast<int>(program.graph.nodes.size());
  if (lasts || !b.begin.is_valid() || b.end.index >= nodes) return {};
  const Phase begin = program.graph.node(b.begin).phase, end = program.graph.node(b.end).phase;
  if (begin == Phase::forward && end == Phase::backward) return Life::to_inputs;
  if (begin == Phase::backward && end == Phase::weights) return Life::to_weights;
  return {};
}

/// What a program has from step to step, and from a micro-batch's forward to its backward.
void add_bytes(Figures& out, const Program& program) {
  int last = -1;  // node of the forward
  for (NodeId id : program.graph.node_ids())
    if (program.graph.node(id).phase == Phase::forward) last = id.index;
  std::vector<bool> is_sent(program.buffers.size(), false);  // the next piece keeps it, as what it receives
  std::vector<bool> is_kept(program.buffers.size(), false);
  for (ValueId v : program.graph.sends) {
    const Buffer* b = program.buffer(v);
    if (!b || is_sent[at(b - program.buffers.data())]) continue;
    const Phase made = program.graph.node(program.graph.value(v).producer).phase;
    is_sent[at(b - program.buffers.data())] = true;
    if (made == Phase::update || b->kind == BufferKind::parameter) continue;
    (made == Phase::forward ? out.sent : out.sent_back) += static_cast<double>(b->bytes);
  }
  for (const Buffer& b : program.buffers) {
    const bool is_before = !b.begin.is_valid() || b.begin.index <= last;
    if (b.kind == BufferKind::parameter)
      out.parameters += static_cast<double>(b.bytes);
    else if (b.kind == BufferKind::state)
      out.states += static_cast<double>(b.bytes);
    else if (b.kind == BufferKind::accumulator)
      out.sums += static_cast<double>(b.bytes);
    else if (program.batch_parts() == 1 && b.kind == BufferKind::gradient)
      out.gradients += static_cast<double>(b.bytes);
    else if (!is_sent[at(&b - program.buffers.data())] && is_before && b.end.index > last)
      out.kept += static_cast<double>(b.bytes), is_kept[at(&b - program.buffers.data())] = true;
    if (const auto life = between_halves(program, b); life == Life::to_inputs)
      out.to_inputs += static_cast<double>(b.bytes);
    else if (life == Life::to_weights)
      out.left += static_cast<double>(b.bytes);
  }
  out.on_way = most_on_way(program, is_kept);
  using enum BufferKind;
  out.passing =
      std::max(0.0, static_cast<double>(program.arena_bytes) - out.lasting() - out.kept - out.sent_back);
  out.working = std::max(0.0, most_alive(program, {activation, communication, workspace}) - out.kept);
  out.moving = most_alive(program, {gradient, communication});
}

/// What a framework holds of a micro-batch besides; what is computed again passes.
void add_besides(Figures& out, const std::vector<Besides>& besides, const Graph& graph) {
  for (const Besides& b : besides) {
    if (graph.nodes[at(b.begin)].phase == Phase::forward)
      out.kept += b.bytes;
    else
      out.passing += b.bytes, out.working += b.bytes;
  }
}

/// A parameter of another piece is received.
bool is_once(const Node& node) {
  return node.op->kind == OpKind::receive && node.attributes.integer("once", 0) != 0;
}

/// Of a micro-batch, or once a step.
double received_bytes(const Graph& graph, Phase phase, bool once = false) {
  double out = 0;
  for (const Node& node : graph.nodes)
    if (node.op->kind == OpKind::receive && node.phase == phase && is_once(node) == once)
      out += static_cast<double>(graph.value(node.results.front()).type.bytes());
  return out;
}

/// All of the forward is computed again.
Recompute of_all(const Graph& part, const RecomputeOptions& options) {
  RecomputedModule all{.module = "piece", .nodes = {}, .options = options};
  for (NodeId id : part.node_ids())
    if (is_forward_operator(part.node(id))) all.nodes.push_back(part.name_of(id));
  return {.modules = {std::move(all)}};
}

/// A parameter that another piece has, or of which another has a gradient, too: it, and the gradient that is sent or received.
template <class F>
void for_each_tied(const Graph& graph, F visit) {
  const auto look_at = [&](ValueId v) {
    if (graph.value(v).gradient_of.empty()) return;
    const ValueId of = graph.value(v).gradient_of.front();
    const Node& node = graph.node(graph.value(of).producer);
    if (node.op->kind == OpKind::parameter || is_once(node)) visit(of, v);
  };
  for (ValueId v : graph.sends) look_at(v);
  for (const Node& node : graph.nodes)
    if (node.op->kind == OpKind::receive && node.phase != Phase::forward) look_at(node.results.front());
}

/// Of gradients of parameters that other pieces have, too.
double returned_bytes(const Graph& graph) {
  double out = 0;
  for_each_tied(graph, [&](ValueId, ValueId gradient) {
    const Value& v = graph.value(gradient);
    if (graph.node(v.producer).op->kind == OpKind::receive) out += static_cast<double>(v.type.bytes());
  });
  return out;
}

/// The axes that split the batch.
Axes axes_of_batch(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    const Value& v = graph.value(node.results.front());
    const bool is_batch =
        node.op->kind == OpKind::input || (node.op->kind == OpKind::receive && !is_once(node));
    if (is_batch && node.phase == Phase::forward && v.layout && !v.layout->dims.empty() &&
        !v.layout->dims.front().empty())
      return v.layout->dims.front();
  }
  return {};
}

/// Gradients of tied parameters pass between pieces as they come: each replica has an addend, where it has the whole parameter.
void leave_addends(Graph& graph) {
  const Axes batch = axes_of_batch(graph);
  if (batch.empty()) return;
  for_each_tied(graph, [&](ValueId parameter, ValueId gradient) {
    if (!graph.value(parameter).layout) return;
    Layout layout = without_halo(reduced(*graph.value(parameter).layout));
    for (Axes& axes : layout.dims)
      if (axes.without(batch).size() < axes.size()) axes = axes.without(batch);
    layout.sum = batch.sorted();
    layout.mesh = graph.value(parameter).layout->mesh;
    graph.value(gradient).layout = std::move(layout);
  });
}

}  // namespace

bool is_tied(const Network::Part& part) {
  bool out = false;
  for_each_tied(part.graph, [&](ValueId, ValueId) { out = true; });
  return out;
}

Figures figures_of(const Network::Part& part, bool is_layer, const Constraints& s, const FiguresFor& what) {
  PlanRequest asked = with_structure(what.request, s);
  if (asked.constraints.batch_shares)
    asked.constraints.batch_shares = std::vector<int>{};  // of alike devices
  asked.devices = what.stage.devices();
  asked.cluster = what.stage;
  asked.has_layers = what.has_layers;
  asked.micro_batches = {.count = what.summed,
                         .splits_backward = what.backward == Backward::in_two,
                         .interleave = settings_of(asked).pipelining.interleave};
  PlannedGraph planned = split_by_degrees(part.graph, part.calls, asked);
  if (what.is_step && level_of(s) < 3) leave_addends(planned.graph);
  planned.offload = {};  // what is on the host is counted apart
  if (mode_of(s) == RecomputeMode::full && is_layer)
    planned.recompute = of_all(part.graph, settings_of(asked).recompute.options);
  const Program program = compile(std::move(planned), what.stage,
                                  {.formats = what.request.formats,
                                   .verifies = false,
                                   .is_piece = what.backward == Backward::with_update});
  Figures out;
  add_bytes(out, program);
  if (what.backward == Backward::in_two) {
    out.weights = estimate_piece(program, what.stage).all.phase_seconds[Phase::weights];
    return out;
  }
  const Framework& framework = framework_called(settings_of(what.request).framework);
  add_besides(out, held_besides(program, framework, what.stage.routing_imbalance), program.graph);
  out.states += states_besides(program, framework);
  out.least_gradients = least_gradients(program, framework);
  out.scores = score_copies(program, framework);
  const PieceEstimate piece = estimate_piece(program, what.stage);
  const Estimate& e = piece.all;
  out.forward = e.phase_seconds[Phase::forward];
  out.backward = e.phase_seconds[Phase::backward];
  out.update = e.phase_compute_seconds[Phase::update];
  out.transfers = e.phase_communication_seconds;
  for (Phase phase : {Phase::forward, Phase::backward}) {
    const double late = piece.late_seconds[phase];
    out.late += late;
    out.transfers[phase] = (out.transfers[phase] - late) / program.micro_batches;
  }
  out.gradient_transfers = piece.starts.sums.seconds;
  if (settings_of(asked).comm_fusion.is_automatic()) out.starts = piece.starts;
  out.received = received_bytes(program.graph, Phase::forward);
  out.tied = received_bytes(program.graph, Phase::forward, true);
  out.returned = returned_bytes(program.graph);
  return out;
}

Figures offloaded(Figures alone, const Offload& offload, const Cluster& cluster) {
  const double states = offload.optimizer * alone.states, parameters = offload.parameters * alone.parameters,
               kept = offload.activations * alone.kept;
  const auto beside = [&](double& seconds, double bytes) {
    seconds = std::max(seconds, bytes / cluster.host.bytes_per_second);
  };
  beside(alone.forward, std::max(kept, parameters));  // one is evicted, the other fetched
  beside(alone.backward, kept + parameters);
  beside(alone.update, states + parameters);
  alone.states -= states, alone.parameters -= parameters, alone.kept -= kept;
  alone.to_inputs *= 1 - offload.activations;
  alone.hosted = states + parameters, alone.hosted_kept = kept;
  alone.on_way = std::min(alone.on_way, kept);
  alone.passing += alone.on_way, alone.working += alone.on_way;
  return alone;
}

Figures between(const Figures& few, const Figures& more, double share) {
  Figures out = few;
  const auto move = [share](double& from, double to) { from += share * (to - from); };
  for (double Figures::*part : {&Figures::forward,
                                &Figures::backward,
                                &Figures::update,
                                &Figures::received,
                                &Figures::sent,
                                &Figures::sent_back,
                                &Figures::weights,
                                &Figures::to_inputs,
                                &Figures::left,
                                &Figures::tied,
                                &Figures::returned,
                                &Figures::parameters,
                                &Figures::states,
                                &Figures::sums,
                                &Figures::least_gradients,
                                &Figures::scores,
                                &Figures::gradients,
                                &Figures::kept,
                                &Figures::on_way,
                                &Figures::hosted,
                                &Figures::hosted_kept,
                                &Figures::passing,
                                &Figures::working,
                                &Figures::moving,
                                &Figures::late,
                                &Figures::gradient_transfers})
    move(out.*part, more.*part);
  for (const Phase phase : {Phase::forward, Phase::backward, Phase::weights, Phase::update})
    move(out.transfers[phase], more.transfers[phase]);
  for (std::size_t pass : {std::size_t{0}, std::size_t{1}}) move(out.contended[pass], more.contended[pass]);
  return out;
}

Figures sharded(Figures alone, int level, int replicas) {
  if (level >= 1) alone.states /= replicas;
  if (level >= 2) alone.sums /= replicas, alone.gradients /= replicas;
  if (level >= 3) alone.parameters /= replicas, alone.least_gradients /= replicas, alone.returned /= replicas;
  return alone;
}

}  // namespace shardwright::automatic
