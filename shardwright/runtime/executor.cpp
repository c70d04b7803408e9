#include "shardwright/runtime/executor.h"

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/runtime/backend/cpu/cpu.h"

namespace shardwright {
namespace {

bool overlap(const std::byte* a, std::int64_t a_bytes, const std::byte* b, std::int64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

/// Of each section, that it last runs for.
std::vector<int> last_runs(const RankStep& step) {
  std::vector<int> out(step.sections.size(), 0);
  for (const Instruction& i : step.instructions)
    if (i.act == Act::run) out[at(i.what)] = i.micro_batch;
  return out;
}

}  // namespace

Executor::Executor(const Pipeline& pipeline, Backend& backend, Communicator& communicator, Ports ports,
                   std::span<std::byte> memory)
    : pipeline_(pipeline),
      backend_(backend),
      communicator_(communicator),
      ports_(std::move(ports)),
      step_(step_of(pipeline, communicator.rank())),
      memory_(memory),
      routed_(pipeline) {
  hold_stages();
  set_aside_states();
  find_kept();
  prepare_transfers();
  prepare_sections();
}

void Executor::hold_stages() {
  held_.resize(pipeline_.stages.size());
  const int rank = communicator_.rank();
  arena_bytes_ = pipeline_.arena_bytes(rank);
  const std::int64_t host_bytes = pipeline_.host_bytes(rank);
  if (memory_.empty()) arena_ = communicator_.allocate(arena_bytes_, backend_);
  if (memory_.empty()) memory_ = {arena_.data(), at(arena_bytes_)};
  require(std::ssize(memory_) == arena_bytes_, "an arena of {} bytes, not {}", memory_.size(), arena_bytes_);
  if (host_bytes > 0) host_ = backend_.allocate_host(host_bytes);
  for (const PlacedArena& arena : pipeline_.arenas_of(rank)) {
    const Program& program = pipeline_.stage(arena.stage);
    require(program.buffer_of.size() == program.graph.values.size(), "buffers are not assigned");
    Held& held = held_[at(arena.stage)];
    held = {.program = &program,
            .rank = rank - pipeline_.first_rank(arena.stage),
            .arena = arena,
            .views = {},
            .boxes = {}};
    place_values(held);
  }
}

void Executor::place_values(Held& held) {
  const Program& program = *held.program;
  const Graph& graph = program.graph;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    held.boxes.push_back(box_of(graph, {static_cast<int>(v)}, held.rank));
    const std::int64_t offset = program.offset({static_cast<int>(v)});
    held.views.push_back({value.type.dtype, held.boxes.back().extent, nullptr});
    if (offset == no_place) continue;
    held.views.back().data = address(held, offset);
    require(offset >= 0 && offset + bytes_of(held.views.back()) <= program.arena_bytes + program.host_bytes &&
                offset % static_cast<std::int64_t>(size_of(value.type.dtype)) == 0,
            "%{} lies at {} in an arena of {} bytes", value.name, offset,
            program.arena_bytes + program.host_bytes);
  }
}

/// What is kept until the update, but for what is set aside.
void Executor::find_kept() {
  for (const Held& held : held_) {
    if (!held.program) continue;
    const Graph& graph = held.program->graph;
    for (const Update& u : graph.updates) {
      const TensorView& leaf = held.views[at(u.leaf.index)];
      if (graph.node(graph.value(u.leaf).producer).op->kind == OpKind::accumulator) continue;  // of this step
      if (leaf.data && std::ranges::find(before_, leaf.data, &Copy::from) == before_.end())
        kept_.emplace(leaf.data, leaf.data + bytes_of(leaf));
    }
  }
}

bool Executor::is_kept(const TensorView& made) const {
  if (!made.data) return false;
  auto behind = kept_.lower_bound(made.data + bytes_of(made));
  return behind != kept_.begin() && std::prev(behind)->second > made.data;
}

/// Sections of the last micro-batch have its lane; others run in every lane.
void Executor::prepare_sections() {
  const std::vector<int> last = last_runs(step_);
  for (std::size_t s = 0; s < step_.sections.size(); ++s) {
    const Section& section = step_.sections[s];
    const Program& program = pipeline_.stage(section.stage);
    std::vector<Actions>& lanes = sections_.emplace_back();
    const bool has_lanes = section.phase != Phase::update && !section.only_last;
    const int count = has_lanes ? program.lanes.count() : 1;
    for (int lane = 0; lane < count; ++lane) {
      lanes.push_back(
          prepare(section.instructions, section.phase, count > 1 ? first_in_lane(program, lane) : last[s]));
      mark_hiding(lanes.back());
    }
  }
  actions_ = prepare(step_.instructions, std::nullopt, 0);
}

Executor::Actions Executor::prepare(const std::vector<Instruction>& instructions, std::optional<Phase> phase,
                                    int micro_batch) {
  Actions out;
  for (const Instruction& i : instructions) {
    if (i.act == Act::keep) continue;
    Action& action = out.emplace_back();
    action.instruction = i;
    action.node = node_of(i);
    action.phase = i.act == Act::run ? step_.section(i).phase : phase ? *phase : phase_of(i);
    action.is_update = is_update(action);
    try {
      prepare(action, micro_batch);
    } catch (const Error& e) {
      throw with_node(e, action, -1);
    }
  }
  return out;
}

void Executor::prepare(Action& action, int micro_batch) {
  const Instruction& i = action.instruction;
  action.first_copy = copies_.size();
  switch (i.act) {
    case Act::compute:
      action.kernel = prepare_kernel(i, micro_batch);
      action.is_on_host = &backend_of(*action.node) != &backend_;
      break;
    case Act::copy:
      add_copy(view(i.stage, action.node->operands.front(), micro_batch),
               view(i.stage, action.node->results.front(), micro_batch));
      break;
    case Act::clear:
      for (const Node& node : held(i.stage).program->graph.nodes)
        if (node.op->kind == OpKind::accumulator) add_copy({}, view(i.stage, node.results.front()));
      break;
    case Act::replace: add_replacements(i.stage, static_cast<Phase>(i.what)); break;
    default: break;
  }
  action.copies_end = copies_.size();
}

PreparedKernel Executor::prepare_kernel(const Instruction& i, int micro_batch) {
  const Graph& graph = held(i.stage).program->graph;
  std::vector<FusedCall> calls;
  std::size_t n = at(i.what);
  do calls.push_back(bind(i.stage, graph.nodes[n], micro_batch));
  while (++n < graph.nodes.size() && graph.nodes[n].is_fused);
  PreparedKernel out = backend_of(graph.nodes[at(i.what)]).prepare(calls);
  return backend_.is_host()
             ? routed_.counted(std::move(out), i.stage, {i.what}, calls_[at(calls_.size() - calls.size())])
             : std::move(out);
}

Backend& Executor::backend_of(const Node& node) {
  if (node.space == Space::device || backend_.is_host()) return backend_;
  if (!of_host_) of_host_ = cpu_backend();
  return *of_host_;
}

/// The call of `node` on this rank. What it refers to lives as long as the executor.
FusedCall Executor::bind(int stage, const Node& node, int micro_batch) {
  LocalCall& call = calls_.emplace_back(local_call(held(stage).program->graph, node, held(stage).rank));
  for (std::size_t i = 0; i < node.operands.size(); ++i)
    call.operands[i] = view(stage, node.operands[i], micro_batch);
  for (std::size_t r = 0; r < node.results.size(); ++r)
    call.results[r] = view(stage, node.results[r], micro_batch);
  return {*node.op, call.call(), node.operands, node.results, call.operand_formats, call.result_formats};
}

void Executor::add_copy(const TensorView& from, const TensorView& to) { copies_.push_back({from.data, to}); }

/// Leaves change at once: a value that lies in another leaf is set aside before that leaf is written.
void Executor::add_replacements(int stage, Phase phase) {
  const Program& program = *held(stage).program;
  std::vector<Copy> copies;
  for (const Update& u : program.graph.updates) {
    const TensorView value = view(stage, u.value), leaf = view(stage, u.leaf);
    if (replaced_in(program, u) == phase && value.data != leaf.data) copies.push_back({value.data, leaf});
  }
  for (std::size_t i = 0; i < copies.size(); ++i) {
    Copy& copy = copies[i];
    const bool is_overwritten =
        std::any_of(copies.begin(), copies.begin() + static_cast<std::ptrdiff_t>(i), [&](const Copy& before) {
          return overlap(copy.from, bytes_of(copy.to), before.to.data, bytes_of(before.to));
        });
    if (!is_overwritten) continue;
    TensorView aside = copy.to;
    aside.data = staging_.emplace_back(backend_.allocate(bytes_of(aside))).data();
    copies_.push_back({copy.from, aside});
    copy.from = aside.data;
  }
  copies_.insert(copies_.end(), copies.begin(), copies.end());
}

/// Of the values that are kept, without those that are set aside.
bool Executor::is_update(const Action& action) const {
  const Instruction& i = action.instruction;
  if (i.act == Act::replace) return static_cast<Phase>(i.what) == Phase::update;
  if (i.act == Act::start && step_.transfer(i).kind() == StepKind::evict)
    return std::ranges::any_of(step_.transfer(i).parts,
                               [&](const Part& p) { return is_kept(view(i.stage, p.to)); });
  if (i.act != Act::compute && i.act != Act::copy) return false;
  const Graph& graph = held(i.stage).program->graph;
  auto n = at(i.what);
  do
    if (std::ranges::any_of(graph.nodes[n].results, [&](ValueId v) { return is_kept(view(i.stage, v)); }))
      return true;
  while (++n < graph.nodes.size() && graph.nodes[n].is_fused);
  return false;
}

/// What does not wait for the gradients of all: states that a forward makes, and counts. They are small, but where nothing
/// is trained: what remembers a sequence is as large as that.
void Executor::set_aside_states() {
  for (const Held& held : held_) {
    if (!held.program) continue;
    const Graph& graph = held.program->graph;
    const auto phase_of = [&](ValueId v) { return graph.node(graph.value(v).producer).phase; };
    if (std::ranges::none_of(graph.updates,
                             [&](const Update& u) { return phase_of(u.value) == Phase::update; }))
      continue;
    for (const Update& u : graph.updates) {
      TensorView leaf = held.views[at(u.leaf.index)];
      const bool is_number = leaf.size() == 1 && phase_of(u.value) == Phase::update;
      if (phase_of(u.value) != Phase::forward && !is_number) continue;
      const std::byte* const from = leaf.data;
      leaf.data = staging_.emplace_back(backend_.allocate(bytes_of(leaf))).data();
      before_.push_back({from, leaf});
    }
  }
}

bool Executor::restore() {
  if (!is_within_step_) return true;
  if (has_updated_) return false;
  for (const Copy& copy : before_)
    backend_.copy(const_cast<std::byte*>(copy.from), copy.to.data,
                  static_cast<std::size_t>(bytes_of(copy.to)));
  backend_.wait();
  return true;
}

TensorView Executor::view(int stage, ValueId v, int micro_batch) const {
  const Held& h = held(stage);
  TensorView out = h.views[at(v.index)];
  if (out.data && micro_batch > 0) out.data = address(h, h.program->offset(v, micro_batch));
  return out;
}

const Box& Executor::box(int stage, ValueId v) const { return held(stage).boxes[at(v.index)]; }

void Executor::run(const Action& action, int micro_batch) {
  const Instruction& i = action.instruction;
  switch (i.act) {
    case Act::compute:
      if (action.is_on_host) backend_.wait_for(backend_.record(DeviceStream::compute));
      return action.kernel();
    case Act::start: return start_transfer(i, micro_batch);
    case Act::finish: return finish_transfer(i, micro_batch);
    case Act::fill:
      if (ports_.fill) ports_.fill(i.stage, micro_batch);
      return;
    case Act::hand_out:
      if (ports_.hand_out) ports_.hand_out(i.stage, static_cast<Phase>(i.what), micro_batch);
      return;
    case Act::run: {
      const std::vector<Actions>& lanes = sections_[at(i.what)];
      const Program& program = pipeline_.stage(i.stage);
      return run(lanes.size() == 1 ? lanes.front() : lanes[at(program.lanes.lane(micro_batch))], micro_batch);
    }
    default: break;
  }
  for (std::size_t c = action.first_copy; c < action.copies_end; ++c) {
    const Copy& copy = copies_[c];
    if (copy.from)
      backend_.copy(copy.to.data, copy.from, static_cast<std::size_t>(bytes_of(copy.to)));
    else
      backend_.fill(copy.to, 0);
  }
}

void Executor::run_recorded(const Action& action, int micro_batch) {
  TraceEvent event{.instruction = action.instruction, .activity = Activity::instruction};
  event.instruction.micro_batch = micro_batch;
  event.phase = action.phase;
  if (backend_.is_host()) {
    recorder_->time(event, [&] { run(action, micro_batch); });
  } else {  // its time is that of the device, not of asking for it
    const DeviceEvent begin = backend_.record_time();
    run(action, micro_batch);
    timed_.push_back({recorder_->events().size(), begin, backend_.record_time()});
    recorder_->add(event);
  }
  if (!action.is_hiding) return;
  event.activity = Activity::progress;
  recorder_->time(event, [&] { communicator_.progress(); });
}

/// The list is that of a section, run for a micro-batch, or the whole one, which says of which.
void Executor::run(const Actions& actions, int of_section) {
  const Action* current = nullptr;
  try {
    for (const Action& action : actions) {
      current = &action;
      has_updated_ = has_updated_ || action.is_update;
      const int micro_batch = of_section + action.instruction.micro_batch;
      if (stop_ && stop_->load(std::memory_order_relaxed)) [[unlikely]]
        throw error("interrupted");
      if (action.instruction.act != Act::run) begin(action.instruction, micro_batch);
      if (recorder_) [[unlikely]] {
        run_recorded(action, micro_batch);
        continue;
      }
      run(action, micro_batch);
      if (action.is_hiding) communicator_.progress();
    }
  } catch (const TimedOut& e) {
    const Act act = current->instruction.act;
    if (act != Act::start && act != Act::finish) throw;  // of a section, which has said it
    throw with_transfer(e, *current, of_section + current->instruction.micro_batch);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::peer) throw;
    throw with_node(e, *current, of_section + current->instruction.micro_batch);
  }
}

void Executor::run(int number) {
  is_within_step_ = true;
  has_updated_ = false;
  flight_record_.begin_step(number);
  for (const Copy& copy : before_)
    backend_.copy(copy.to.data, copy.from, static_cast<std::size_t>(bytes_of(copy.to)));
  try {
    run(actions_, 0);
  } catch (...) {
    end_copies();
    throw;
  }
  backend_.wait();
  for (const Timed& t : timed_)
    recorder_->set_times(t.event, backend_.time_of(t.begin), backend_.time_of(t.end));
  timed_.clear();
  backend_.forget_times(2 * timed_.capacity());
  flight_record_.end();
}

void Executor::record(Recorder* recorder) {
  recorder_ = recorder;
  if (!recorder) return;
  std::size_t actions = actions_.size();
  for (const Instruction& i : step_.instructions)
    if (i.act == Act::run) actions += step_.section(i).instructions.size();
  timed_.reserve(actions);
  backend_.forget_times(2 * actions);
  constexpr std::size_t others = 2;  // the step itself, and what is gathered behind it
  recorder->reserve(2 * actions + others);
}

}  // namespace shardwright
