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

Executor::Executor(const Program& program, Backend& backend, Communicator& communicator, StageRank place)
    : program_(program),
      backend_(backend),
      communicator_(communicator),
      first_rank_(place.first_rank),
      flows_(std::move(place.flows), communicator, program.slots) {
  require(program.offsets.size() == program.graph.values.size(), "buffers are not assigned");
  require(first_rank_ + program.rank_count() <= communicator.size(), "{} ranks run a program for {}",
          communicator.size(), program.rank_count());
  arena_ = communicator.allocate(program.arena_bytes, backend);
  place_values();
  flows_.prepare(program.micro_batches,
                 [this](ValueId v, int micro_batch) { return view(v, slot_of(micro_batch)).data; });
  tasks_.resize(static_cast<std::size_t>(program.slots));
  for (slot_ = 0; slot_ < program.slots; ++slot_) prepare_phases();
  prepare_updates();
}

/// What one slot's micro-batches do. The update stands behind the last one's backward.
void Executor::prepare_phases() {
  actions_.clear();
  const bool has_update = slot_ == slot_of(program_.micro_batches - 1);
  for (const Fusion& fusion : fusions_of(program_.graph)) {
    const Node& node = program_.graph.node(fusion.begin);
    if (node.phase == Phase::update && !has_update) break;
    const std::size_t before = actions_.size();
    try {
      prepare(fusion);
      prepare_sends(fusion);
    } catch (const Error& e) {
      throw with_node(e, node);
    }
    for (std::size_t a = before; a < actions_.size(); ++a) {
      actions_[a].node = &node;
      actions_[a].place = node.phase;
    }
  }
  start_early();
  for (Action& a : actions_) {
    Actions& of_phase =
        a.place == Phase::update ? update_phase_ : tasks_[at(slot_)][a.place == Phase::backward ? 1 : 0];
    of_phase.push_back(std::move(a));
  }
}

/// Transfers that start above the node that waits for them get an action of their own there.
void Executor::start_early() {
  std::vector<std::vector<Action>> starts(program_.graph.nodes.size());
  const auto index_of = [&](const Action& a) {
    return static_cast<std::size_t>(a.node - program_.graph.nodes.data());
  };
  for (Action& a : actions_) {
    if (a.transfer < 0 || program_.starts.empty()) continue;
    const NodeId start = program_.starts[index_of(a)];
    if (at(start.index) == index_of(a)) continue;
    a.part = Action::Part::finish;
    const Phase place = program_.graph.node(start).phase;
    starts[at(start.index)].push_back({.kernel = {},
                                       .transfer = a.transfer,
                                       .part = Action::Part::start,
                                       .is_last = place != a.node->phase && program_.micro_batches > 1,
                                       .place = place,
                                       .node = a.node});
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
    a.is_hiding = started > 0 || !flows_.empty();
  }
}

void Executor::place_values() {
  const Graph& graph = program_.graph;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    boxes_.push_back(box_of(graph, {static_cast<int>(v)}, local_rank()));
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
    case OpKind::receive: return prepare_receive(node);
    default: return;  // leaves stand in the arena
  }
}

void Executor::prepare_receive(const Node& node) {
  for (std::size_t f = 0; f < flows_.all().size(); ++f) {
    const Flow& flow = flows_.all()[f];
    if (flow.is_send || flow.value != node.results.front()) continue;
    if (slot_ == slot_of(program_.micro_batches - 1)) count(flow);
    actions_.push_back(
        {.kernel = {}, .flow = static_cast<int>(f), .is_first = flow.time == CrossingTime::step});
  }
}

/// What a flow that is received adds to a step.
void Executor::count(const Flow& flow) {
  const int times = flow.time == CrossingTime::micro_batch ? program_.micro_batches : 1;
  traffic_.collectives["receive"] += times;
  const auto element_bytes = static_cast<std::int64_t>(size_of(flow.dtype));
  for (const Piece& piece : flow.transfer.pieces)
    traffic_.bytes += times * element_count(piece.extent) * element_bytes;
}

/// What the fusion has made for other stages.
void Executor::prepare_sends(const Fusion& fusion) {
  for (std::size_t f = 0; f < flows_.all().size(); ++f) {
    const Flow& flow = flows_.all()[f];
    const NodeId producer = program_.graph.value(flow.value).producer;
    if (flow.is_send && flow.time != CrossingTime::step && producer >= fusion.begin && producer < fusion.end)
      actions_.push_back({.kernel = {},
                          .flow = static_cast<int>(f),
                          .is_last = flow.time == CrossingTime::update && program_.micro_batches > 1});
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
  const TensorView from = view(node.operands[0], slot_);
  Transfer transfer = shifted(transfer_of(step_of(graph, node), graph.meshes,
                                          graph.value(node.results[0]).global_type().shape, local_rank()),
                              first_rank_);
  if (transfer.group.size() > 1 && slot_ == slot_of(program_.micro_batches - 1)) {
    const int times = node.phase == Phase::update ? 1 : program_.micro_batches;
    traffic_.collectives[name_of(transfer.kind)] += times;
    traffic_.bytes +=
        times * received(transfer, communicator_.rank(), static_cast<std::int64_t>(size_of(from.dtype)));
  }
  return {std::move(transfer), from.dtype, from.data, view(node.results[0], slot_).data};
}

void Executor::prepare_alias(const Node& node) {
  const TensorView from = view(node.operands[0], slot_);
  const TensorView to = view(node.results[0], slot_);
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
  LocalCall& call = calls_.emplace_back(local_call(program_.graph, node, local_rank()));
  for (std::size_t i = 0; i < node.operands.size(); ++i) call.operands[i] = view(node.operands[i], slot_);
  for (std::size_t r = 0; r < node.results.size(); ++r) call.results[r] = view(node.results[r], slot_);
  return {*node.op, call.call(), node.operands, node.results, call.operand_formats, call.result_formats};
}

/// Leaves that change at the end of the update do so at once: a value that lies in another leaf is set aside before
/// that leaf is written.
void Executor::prepare_updates() {
  const Graph& graph = program_.graph;
  std::vector<Action> copies;
  for (const Node& node : graph.nodes)
    if (node.op->kind == OpKind::accumulator) accumulators_.push_back(view(node.results.front()));
  for (const Update& u : graph.updates) {
    if (view(u.value).data == view(u.leaf).data) continue;
    const Phase phase =
        program_.micro_batches == 1 ? Phase::update : graph.node(graph.value(u.value).producer).phase;
    std::vector<Action>& to = phase == Phase::update ? copies : updates_[static_cast<std::size_t>(phase)];
    to.push_back({.kernel = {},
                  .from = view(u.value).data,
                  .to = view(u.leaf).data,
                  .bytes = static_cast<std::size_t>(bytes_of(view(u.leaf)))});
  }
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
  std::vector<Action>& updates = updates_[static_cast<std::size_t>(Phase::update)];
  for (std::size_t i : staged) {
    updates.push_back({.kernel = {}, .from = copies[i].from, .to = aside, .bytes = copies[i].bytes});
    copies[i].from = aside;
    aside += copies[i].bytes;
  }
  std::move(copies.begin(), copies.end(), std::back_inserter(updates));
}

TensorView Executor::view(ValueId v, int slot) const {
  TensorView out = views_[static_cast<std::size_t>(v.index)];
  if (out.data && slot > 0) out.data = arena_.data() + program_.offset(v, slot);
  return out;
}

bool Executor::is_left_out(const Action& action, int micro_batch) const {
  return (action.is_last && micro_batch + 1 < program_.micro_batches) || (action.is_first && micro_batch > 0);
}

void Executor::run(const Action& action, int micro_batch) {
  if (action.kernel)
    action.kernel();
  else if (action.flow >= 0)
    run_flow(action, micro_batch);
  else if (action.transfer < 0)
    std::memcpy(action.to, action.from, action.bytes);
  else if (action.part == Action::Part::whole)
    communicator_.run(action.transfer);
  else if (action.part == Action::Part::start)
    communicator_.start(action.transfer);
  else
    communicator_.finish(action.transfer);
}

Activity Executor::activity_of(const Action& action) const {
  if (action.kernel) return Activity::kernel;
  if (action.flow >= 0) return flows_.all()[at(action.flow)].is_send ? Activity::send : Activity::receive;
  if (action.transfer < 0) return Activity::copy;
  if (action.part == Action::Part::whole) return Activity::transfer;
  return action.part == Action::Part::start ? Activity::start : Activity::finish;
}

void Executor::run_recorded(const Action& action, int micro_batch) {
  const auto node = static_cast<int>(action.node - program_.graph.nodes.data());
  TraceEvent event{.what = action.flow >= 0 ? action.flow : node,
                   .micro_batch = micro_batch,
                   .activity = activity_of(action),
                   .phase = action.place};
  recorder_->time(event, [&] { run(action, micro_batch); });
  if (!action.is_hiding) return;
  event.activity = Activity::progress;
  recorder_->time(event, [&] { communicator_.progress(); });
}

void Executor::record(Recorder* recorder) {
  recorder_ = recorder;
  flows_.record(recorder);
  if (!recorder) return;
  std::size_t actions = 0, flows = flows_.all().size();
  for (const auto& phases : tasks_) actions = std::max(actions, phases[0].size() + phases[1].size());
  const auto micro_batches = static_cast<std::size_t>(program_.micro_batches);
  constexpr std::size_t tasks = 4;  // a micro-batch's, and what goes in and out
  recorder->reserve(micro_batches * (2 * actions + 2 * flows + tasks) + 2 * update_phase_.size() + tasks);
}

void Executor::run_flow(const Action& action, int micro_batch) {
  const Flow& flow = flows_.all()[at(action.flow)];
  const int number = flow.time == CrossingTime::micro_batch ? micro_batch : 0;
  if (flow.is_send)
    flows_.send(action.flow, number);
  else
    flows_.receive(action.flow, number);
}

void Executor::run(const Actions& actions, int micro_batch) {
  const Action* current = nullptr;
  try {
    for (const Action& action : actions) {
      current = &action;
      if (is_left_out(action, micro_batch)) continue;
      if (stop_ && stop_->load(std::memory_order_relaxed)) [[unlikely]]
        throw error("interrupted");
      if (recorder_) [[unlikely]] {
        run_recorded(action, micro_batch);
        continue;
      }
      run(action, micro_batch);
      if (action.is_hiding) communicator_.progress();
    }
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::peer) throw;
    throw with_node(e, *current->node);
  }
}

void Executor::begin() {
  for (const TensorView& a : accumulators_) std::memset(a.data, 0, static_cast<std::size_t>(bytes_of(a)));
  flows_.expect(CrossingTime::step, Phase::forward, 0);
  for (std::size_t f = 0; f < flows_.all().size(); ++f)
    if (flows_.all()[f].is_send && flows_.all()[f].time == CrossingTime::step)
      flows_.send(static_cast<int>(f), 0);
}

void Executor::run(const Task& task) {
  flows_.make_room_for(task);
  const auto phase = static_cast<std::size_t>(task.phase);
  run(tasks_[at(slot_of(task.micro_batch))][phase], task.micro_batch);
  for (const Action& copy : updates_[phase]) std::memcpy(copy.to, copy.from, copy.bytes);
}

void Executor::run_update() {
  flows_.expect(CrossingTime::update, Phase::update, 0);
  flows_.finish_sends(CrossingTime::step);
  flows_.finish_sends(CrossingTime::micro_batch);
  run(update_phase_, program_.micro_batches - 1);
  flows_.finish_sends(CrossingTime::update);
}

void Executor::run() {
  begin();
  for (Phase phase : {Phase::forward, Phase::backward}) run(Task{phase, 0});
  run_update();
}

Error Executor::with_node(const Error& e, const Node& node) const {
  return with_context(e, fmt::format("%{} = {}", program_.graph.value(node.results[0]).name, node.op->name));
}

void Executor::update() {
  for (const Action& copy : updates_[static_cast<std::size_t>(Phase::update)])
    std::memcpy(copy.to, copy.from, copy.bytes);
}

}  // namespace shardwright
