#include "shardwright/runtime/executor.h"

#include <algorithm>
#include <cstring>

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

std::int64_t bytes_of(const TensorView& view) {
  return view.size() * static_cast<std::int64_t>(size_of(view.dtype));
}

/// Bytes that a rank receives: what it takes from others when it moves, (n-1)/n of the operand in each half
/// of a reduction.
std::int64_t received(const Transfer& t, int rank, std::int64_t element_bytes) {
  if (t.reduces) {
    const auto n = static_cast<std::int64_t>(t.group.size());
    const std::int64_t operand = element_count(t.from_shape) * element_bytes;
    return (t.kind == StepKind::all_reduce ? 2 : 1) * (operand - operand / n);
  }
  std::int64_t bytes = 0;
  for (const Piece& piece : t.pieces)
    if (piece.source != rank) bytes += element_count(piece.extent) * element_bytes;
  return bytes;
}

bool overlap(const std::byte* a, std::size_t a_bytes, const std::byte* b, std::size_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

}  // namespace

Executor::Executor(const Program& program, Backend& backend, Communicator& communicator)
    : program_(program), backend_(backend), communicator_(communicator) {
  require(program.offsets.size() == program.graph.values.size(), "buffers are not assigned");
  require(communicator.size() == program.rank_count(), "{} ranks run a program for {}", communicator.size(),
          program.rank_count());
  arena_ = communicator.allocate(program.arena_bytes, backend);
  place_values();
  for (const Fusion& fusion : fusions_of(program.graph)) {
    const Node& node = program.graph.node(fusion.begin);
    const std::size_t before = actions_.size();
    try {
      prepare(fusion);
    } catch (const Error& e) {
      throw with_node(e, node);
    }
    if (actions_.size() > before) actions_.back().node = &node;
  }
  start_early();
  prepare_updates();
}

/// Transfers that start above the node that waits for them get an action of their own there.
void Executor::start_early() {
  if (program_.starts.empty()) return;
  std::vector<std::vector<Action>> starts(program_.graph.nodes.size());
  const auto index_of = [&](const Action& a) {
    return static_cast<std::size_t>(a.node - program_.graph.nodes.data());
  };
  for (Action& a : actions_) {
    if (a.transfer < 0) continue;
    const NodeId start = program_.starts[index_of(a)];
    if (at(start.index) == index_of(a)) continue;
    a.part = Action::Part::finish;
    starts[at(start.index)].push_back(
        {.kernel = {}, .transfer = a.transfer, .part = Action::Part::start, .node = a.node});
  }
  std::vector<Action> all;
  std::size_t next = 0;
  for (Action& a : actions_) {
    for (; next <= index_of(a); ++next)
      std::move(starts[next].begin(), starts[next].end(), std::back_inserter(all));
    all.push_back(std::move(a));
  }
  actions_ = std::move(all);
  int started = 0;
  for (Action& a : actions_) {
    started += (a.part == Action::Part::start) - (a.part == Action::Part::finish);
    a.is_hiding = started > 0;
  }
}

void Executor::place_values() {
  const Graph& graph = program_.graph;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    boxes_.push_back(box_of(graph, {static_cast<int>(v)}, communicator_.rank()));
    const std::int64_t offset = program_.offsets[v];
    views_.push_back({value.type.dtype, boxes_.back().extent, nullptr});
    if (offset == no_place) continue;
    views_.back().data = arena_.data() + offset;
    require(offset >= 0 && offset + bytes_of(views_.back()) <= program_.arena_bytes &&
                offset % static_cast<std::int64_t>(size_of(value.type.dtype)) == 0,
            "%{} lies at {} in an arena of {} bytes", value.name, offset, program_.arena_bytes);
  }
}

void Executor::prepare(const Fusion& fusion) {
  const Node& node = program_.graph.node(fusion.begin);
  switch (node.op->kind) {
    case OpKind::compute: return node.op->is_alias ? prepare_alias(node) : prepare_compute(fusion);
    case OpKind::step: return prepare_steps(fusion);
    default: return;  // leaves stand in the arena
  }
}

void Executor::prepare_steps(const Fusion& fusion) {
  std::vector<BoundTransfer> bound;
  for (NodeId id = fusion.begin; id < fusion.end; id = {id.index + 1})
    bound.push_back(bind_step(program_.graph.node(id)));
  const BoundTransfer& first = bound.front();
  if (first.transfer.group.size() == 1 && first.from == first.to &&
      first.transfer.from_shape == first.transfer.to_shape && !first.transfer.clears)
    return;
  actions_.push_back({.kernel = {}, .transfer = communicator_.prepare(bound)});
}

BoundTransfer Executor::bind_step(const Node& node) {
  const Graph& graph = program_.graph;
  const TensorView& from = view(node.operands[0]);
  Transfer transfer = transfer_of(step_of(graph, node), graph.meshes,
                                  graph.value(node.results[0]).global_type().shape, communicator_.rank());
  if (transfer.group.size() > 1) {
    ++traffic_.collectives[name_of(transfer.kind)];
    traffic_.bytes +=
        received(transfer, communicator_.rank(), static_cast<std::int64_t>(size_of(from.dtype)));
  }
  return {std::move(transfer), from.dtype, from.data, view(node.results[0]).data};
}

void Executor::prepare_alias(const Node& node) {
  const TensorView& from = view(node.operands[0]);
  const TensorView& to = view(node.results[0]);
  if (from.data != to.data)
    actions_.push_back(
        {.kernel = {}, .from = from.data, .to = to.data, .bytes = static_cast<std::size_t>(bytes_of(to))});
}

void Executor::prepare_compute(const Fusion& fusion) {
  std::vector<FusedCall> calls;
  for (NodeId id = fusion.begin; id < fusion.end; id = {id.index + 1})
    calls.push_back(bind(program_.graph.node(id)));
  actions_.push_back({.kernel = backend_.prepare(calls)});
}

/// The call of `node` on this rank. What it refers to lives as long as the executor.
FusedCall Executor::bind(const Node& node) {
  LocalCall& call = calls_.emplace_back(local_call(program_.graph, node, communicator_.rank()));
  for (std::size_t i = 0; i < node.operands.size(); ++i) call.operands[i] = view(node.operands[i]);
  for (std::size_t r = 0; r < node.results.size(); ++r) call.results[r] = view(node.results[r]);
  return {*node.op, call.call(), node.operands, node.results, call.operand_formats, call.result_formats};
}

/// All leaves change at once: a value that lies in another leaf is set aside before that leaf is written.
void Executor::prepare_updates() {
  std::vector<Action> copies;
  for (const Update& u : program_.graph.updates)
    if (view(u.value).data != view(u.leaf).data)
      copies.push_back({.kernel = {},
                        .from = view(u.value).data,
                        .to = view(u.leaf).data,
                        .bytes = static_cast<std::size_t>(bytes_of(view(u.leaf)))});
  std::vector<std::size_t> staged;
  for (std::size_t i = 0; i < copies.size(); ++i)
    for (std::size_t before = 0; before < i; ++before)
      if (overlap(copies[i].from, copies[i].bytes, copies[before].to, copies[before].bytes)) {
        staged.push_back(i);
        break;
      }
  std::size_t bytes = 0;
  for (std::size_t i : staged) bytes += copies[i].bytes;
  if (bytes > 0) staging_ = backend_.allocate(static_cast<std::int64_t>(bytes));
  std::byte* aside = staging_.data();
  for (std::size_t i : staged) {
    updates_.push_back({.kernel = {}, .from = copies[i].from, .to = aside, .bytes = copies[i].bytes});
    copies[i].from = aside;
    aside += copies[i].bytes;
  }
  std::move(copies.begin(), copies.end(), std::back_inserter(updates_));
}

void Executor::run(const Action& action) {
  if (action.kernel)
    action.kernel();
  else if (action.transfer < 0)
    std::memcpy(action.to, action.from, action.bytes);
  else if (action.part == Action::Part::whole)
    communicator_.run(action.transfer);
  else if (action.part == Action::Part::start)
    communicator_.start(action.transfer);
  else
    communicator_.finish(action.transfer);
  if (action.is_hiding) communicator_.progress();
}

void Executor::run() {
  const Action* current = nullptr;
  try {
    for (const Action& action : actions_) run(*(current = &action));
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::peer) throw;
    throw with_node(e, *current->node);
  }
}

Error Executor::with_node(const Error& e, const Node& node) const {
  return with_context(e, fmt::format("%{} = {}", program_.graph.value(node.results[0]).name, node.op->name));
}

void Executor::update() {
  for (const Action& copy : updates_) std::memcpy(copy.to, copy.from, copy.bytes);
}

}  // namespace shardwright
